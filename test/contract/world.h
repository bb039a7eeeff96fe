// SPDX-License-Identifier: Apache-2.0

// Where a contract test runs: a file system, a way to open files, rings, a device. Every test runs in each world
// that this machine has; what it lacks is skipped with the reason.
#pragma once

#include <gtest/gtest.h>

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "frontend/call.h"
#include "frontend/queue.h"
#include "session/session.h"

namespace penstock::core {

struct World {
  std::string file_system;  // "ext4", "xfs", ...; "local" for the temporary directory.
  std::string directory;
  std::string missing;  // Why it cannot be had; empty where it can.
  bool direct = false;  // The user's descriptors have O_DIRECT.
  bool io_uring = true;
  std::string keeping;  // Of pages in the page cache: "at_once", a policy's name, or as it is by default.
  bool cuda = false;    // A GPU; else host memory standing in for one.
};

std::vector<World> all_worlds();
void PrintTo(const World& world, std::ostream* out);
std::string world_name(const testing::TestParamInfo<World>& world);

// A session in a world, a file there, memory on its device, and what is needed to look at all three behind the
// session's back.
class ContractTest : public testing::TestWithParam<World> {
 protected:
  void SetUp() override;
  void TearDown() override;

  const World& world() const { return GetParam(); }
  Session& session() { return *session_; }
  Device& device() { return *session_->devices().device(0).value(); }

  // Opens the test's file anew, with the world's O_DIRECT where the file system takes it.
  UniqueFd open_fd(int access_mode = O_RDWR);
  std::uint64_t register_fd(const UniqueFd& fd);
  // What the file holds, and is made to hold, through plain system calls of another descriptor.
  std::string file_content(std::uint64_t offset, std::uint64_t size);
  void set_file_content(const std::string& content, std::uint64_t offset = 0);
  void set_file_size(std::uint64_t size);
  std::uint64_t file_size();

  std::byte* allocate(std::size_t size);
  void upload(std::byte* device_memory, const std::string& content);
  std::string download(const std::byte* device_memory, std::size_t size, Device* owner = nullptr);

  Outcome read(std::uint64_t file, void* base, std::uint64_t size, std::int64_t offset, std::int64_t in_buffer = 0) {
    return transfer(*session_, {Op::read, file, base, size, offset, in_buffer});
  }
  Outcome write(std::uint64_t file, const void* base, std::uint64_t size, std::int64_t offset,
                std::int64_t in_buffer = 0) {
    return transfer(*session_, {Op::write, file, base, size, offset, in_buffer});
  }
  // That the bytes went by this path, around the page cache where that was asked for and can be, and that nothing
  // was hidden.
  void expect_moved(const Outcome& outcome, std::uint64_t bytes, PathId path = PathId::bounce);
  bool goes_direct(std::uint64_t file);
  // Where pages are kept, what is expected to be bounced may also be fetched from the page cache.
  bool goes_by(const Report& report, PathId expected) const;

  std::string name_;

 private:
  UniqueFd witness_;
  std::unique_ptr<Session> session_;
  std::vector<void*> memory_;
};

// Bytes that differ at every offset and seed.
std::string pattern(std::size_t size, std::uint64_t seed);

}  // namespace penstock::core
