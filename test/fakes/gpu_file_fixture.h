// SPDX-License-Identifier: Apache-2.0

// A session with a small file on whatever file system this is, for kernels on the host. Its words tell their places and
// the version of the file, which anybody may write anew.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "device/host/host_device.h"
#include "fakes/host_kernels.h"
#include "fakes/test_config.h"
#include "frontend/frontends.h"
#include "storage/posix_storage.h"

namespace penstock::core {

// Nothing is in its page cache.
class UncachedStorage final : public PosixStorage {
 public:
  UncachedStorage() : PosixStorage(true) {}
  Result<std::size_t> read_if_cached(int, void*, std::size_t, std::uint64_t) override {
    return os_failure(EAGAIN, "read");
  }
};

// Files have the sizes that a test tells, and are on the file system that it says.
class TellingStorage final : public PosixStorage {
 public:
  TellingStorage() : PosixStorage(true) {}
  Result<std::uint64_t> size(int fd) override { return tell ? tell() : PosixStorage::size(fd); }
  Result<FileFacts> facts(int fd) override {
    Result<FileFacts> facts = PosixStorage::facts(fd);
    if (facts.ok() && magic != 0) facts->file_system_magic = magic;
    return facts;
  }
  std::function<Result<std::uint64_t>()> tell;
  std::uint64_t magic = 0;
};

class GpuFileFixture : public testing::Test {
 protected:
  static constexpr std::uint64_t kWords = 4500, kBytes = kWords * 8;  // Ends within a page.

  void SetUp() override {
    char name[] = "gpu_file_XXXXXX";
    UniqueFd(::mkstemp(name)).reset();
    path_ = name;
    write(open_as(O_WRONLY).get(), 0);
    open_session();
  }
  void TearDown() override {
    close_session();
    ::unlink(path_.c_str());
  }

  UniqueFd open_as(int flags) const { return UniqueFd(::open(path_.c_str(), flags | O_CLOEXEC)); }
  static std::uint64_t word(std::uint64_t number, std::uint64_t version) { return number << 32 | version; }
  static void write(int fd, std::uint64_t version) {
    std::vector<std::uint64_t> words(kWords);
    for (std::uint64_t i = 0; i < kWords; ++i) words[i] = word(i, version);
    ASSERT_EQ(::pwrite(fd, words.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
  }
  void open_session(std::unique_ptr<Storage> storage = std::make_unique<PosixStorage>(true),
                    std::unique_ptr<DeviceSet> devices = std::make_unique<HostDeviceSet>()) {
    Config config = test_config({{"workers", "2"}, {"paths", "pagecache,bounce,host"}});
    config.registration_cache_bytes = 64u << 20;
    configure(config);
    session_ = std::make_unique<Session>(config, std::move(storage), std::move(devices));
    frontends_ = std::make_unique<Frontends>(*session_);
    reader_ = open_as(O_RDONLY);
    file_ = *session_->register_file(reader_.get());
  }
  virtual void configure(Config& /*config*/) {}
  void close_session() {
    frontends_.reset();
    kernels_.wait();
    session_.reset();
  }
  GpuFiles& files() { return frontends_->gpu_files(); }
  // Skips the test where the file's pages cannot be resident at all.
  void open(GpuFile::Terms terms = {}) {
    terms.again_after = again_after_;
    const Result<std::uint64_t> opened = files().open(file_, terms);
    ASSERT_TRUE(opened.ok()) << describe(opened.status());
    number_ = *opened;
    GpuFile* const gpu_file = files().pin(number_);
    value_ = gpu::File(gpu_file->value());
    files().unpin(number_);
  }
  GpuFile::Facts facts() {
    GpuFile* const gpu_file = files().pin(number_);
    const Result<GpuFile::Facts> facts = gpu_file->facts();
    files().unpin(number_);
    EXPECT_TRUE(facts.ok()) << describe(facts.status());
    return facts.ok() ? *facts : GpuFile::Facts();
  }
  // The version of `count` words from that one on; -1: they are of several, or of none.
  std::int64_t version_of(std::uint64_t first, std::uint64_t count, gpu::Result* result = nullptr) const {
    std::uint64_t words[64] = {};
    const gpu::Result got = value_.read(gpu::Thread(), first * 8, count * 8, words);
    if (result != nullptr) *result = got;
    if (got.error != gpu::Error::none || got.bytes != count * 8) return -1;
    const auto version = static_cast<std::uint32_t>(words[0]);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (words[i] != word(first + i, version)) return -1;
    }
    return version;
  }

  std::string path_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Frontends> frontends_;
  HostKernels kernels_;
  UniqueFd reader_;
  std::uint64_t file_ = 0, number_ = 0;
  std::chrono::nanoseconds again_after_ = std::chrono::hours(1);
  gpu::File value_;
};

}  // namespace penstock::core
