// SPDX-License-Identifier: Apache-2.0

// The environment of a contract test: storage, how files are opened, rings, a device, and the path that must move the
// bytes of the device's memory. Storage is a file system of the kernel's, or FakeStorage (test/fakes) with its rings,
// which is cut short, interrupted and put off all the time. Every test runs in each fixture that this machine has; what
// it lacks is skipped with the reason. Fixtures are made of the tables of paths and of providers: a new row has some
// without a change here, so far as it needs no machine of its own.
#pragma once

#include <gtest/gtest.h>

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "frontend/channel_queue.h"
#include "frontend/transfer.h"
#include "session/session.h"

namespace penstock::core {

class DmabufMachine;
class FakePeers;
class VendorMachine;

struct Fixture {
  std::string file_system;  // "ext4", "xfs", ...; "local" for the temporary directory; "fake" for FakeStorage.
  std::string directory;
  std::string missing;  // Why it is not available; empty if it is.
  bool direct = false;  // The user's descriptors have O_DIRECT.
  bool io_uring = true;
  std::string registering;       // Of pages in the page cache: "at_once", a policy's name, or as it is by default.
  std::string device = "host";   // Its provider's name.
  PathId path = PathId::bounce;  // Paths other than bounce are named in the settings, together with only host.

  bool is_gpu() const { return device == "cuda"; }
  bool is_fake() const { return file_system == "fake"; }
  // The file is a raw drive, whose size stays as it is.
  bool is_drive() const { return path == PathId::dmabuf; }
};

std::vector<Fixture> all_fixtures();
// Those whose path is bounce.
std::vector<Fixture> bounce_fixtures();
// Those with real files: for what only a kernel has, as the page cache, names, and descriptors that others close.
std::vector<Fixture> kernel_fixtures();
// Those whose file is a raw drive.
std::vector<Fixture> drive_fixtures();
void PrintTo(const Fixture& fixture, std::ostream* out);
std::string fixture_name(const testing::TestParamInfo<Fixture>& fixture);

// The file of a test, accessed without the session.
class TestFile {
 public:
  virtual ~TestFile() = default;
  // Opens it again, with O_DIRECT if the file system supports it.
  virtual UniqueFd open(int flags) = 0;
  virtual std::string content(std::uint64_t offset, std::uint64_t size) = 0;
  virtual void set_content(const std::string& content, std::uint64_t offset) = 0;
  virtual void set_size(std::uint64_t size) = 0;
  virtual std::uint64_t size() = 0;
};

// A session in a fixture, with a file and device memory, and access to all three without the session.
class ContractTest : public testing::TestWithParam<Fixture> {
 protected:
  ContractTest();
  ~ContractTest() override;
  void SetUp() override;
  void TearDown() override;
  // For settings beside the fixture's.
  virtual void adjust(Config&) {}

  const Fixture& fixture() const { return GetParam(); }
  Session& session() { return *session_; }
  Device& device() { return *session_->devices().device(0).value(); }

  // Opens the test's file anew, with the fixture's O_DIRECT where the file system takes it.
  UniqueFd open_fd(int access_mode = O_RDWR);
  std::uint64_t register_fd(const UniqueFd& fd);
  // Reads and writes the file's contents without the session.
  std::string file_content(std::uint64_t offset, std::uint64_t size) { return test_file_->content(offset, size); }
  void set_file_content(const std::string& content, std::uint64_t offset = 0) {
    test_file_->set_content(content, offset);
  }
  void set_file_size(std::uint64_t size) { test_file_->set_size(size); }
  // Makes these the file's last bytes, and its only ones unless it is a drive. Returns their offset.
  std::uint64_t end_file_with(const std::string& content);
  std::uint64_t file_size() { return test_file_->size(); }

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
  // Expects that this path (default: the fixture's) moved the bytes, around the page cache if requested and possible,
  // and that the report is complete.
  void expect_moved(const Outcome& outcome, std::uint64_t bytes, std::optional<PathId> path = {});
  bool goes_direct(std::uint64_t file);
  // Of device memory: what a direct path had to bounce goes through the page cache.
  bool goes_direct(std::uint64_t file, const Outcome& outcome) {
    return goes_direct(file) && outcome.report.path == fixture().path;
  }
  // Where pages are registered, what is expected to be bounced may also be fetched from the page cache. What is not
  // aligned for a direct path, or lies in a hole, is bounced, and says so.
  bool goes_by(const Report& report, PathId expected) const;

  std::string name_;                               // Of the file, in the kernel's fixtures.
  std::unique_ptr<DmabufMachine> dmabuf_machine_;  // For the path dmabuf.

 private:
  Config config();
  std::unique_ptr<Storage> open_storage();
  std::unique_ptr<DeviceSet> open_devices();

  std::unique_ptr<FakePeers> peers_;               // Where device memory is to be offered to storage.
  std::unique_ptr<VendorMachine> vendor_machine_;  // For the path vendor.
  std::unique_ptr<TestFile> test_file_;
  std::unique_ptr<Session> session_;
  std::vector<void*> memory_;
};

// Bytes that differ at every offset and seed.
std::string pattern(std::size_t size, std::uint64_t seed);

}  // namespace penstock::core
