// SPDX-License-Identifier: Apache-2.0

// Checks that a session's memory stays within its limits, as the kernel counts it: reads /proc/self while requests of
// all sizes are in flight. Bounce buffers are the anonymous mappings that forks do not get; what is registered of files
// are their shared mappings.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "fakes/waiting.h"
#include "penstock/penstock.hpp"

namespace penstock::stress {
namespace {

using core::UniqueFd;

constexpr std::uint64_t kMebibyte = 1 << 20;
constexpr unsigned kRounds = 3;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kOwnMemoryAlone = false;  // A sanitizer's shadow is anonymous memory, too.
#else
constexpr bool kOwnMemoryAlone = true;
#endif

// Bytes, in /proc/self.
struct Held {
  std::uint64_t bounce = 0;      // Mapped, whether touched or not.
  std::uint64_t registered = 0;  // Of files, mapped and shared.
  std::uint64_t pinned = 0;      // By io_uring.
  std::uint64_t anonymous = 0;   // In memory.

  void raise_to(const Held& now) {
    bounce = std::max(bounce, now.bounce);
    registered = std::max(registered, now.registered);
    pinned = std::max(pinned, now.pinned);
    anonymous = std::max(anonymous, now.anonymous);
  }
};

std::uint64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10) * 1024;
  }
  return 0;
}

// The whole list, read before any of it is looked at: the kernel writes it page by page, and a mapping that is moved
// meanwhile, or replaced by another, stands in it twice.
std::istringstream list_of(const char* name) {
  const UniqueFd list(::open(name, O_RDONLY | O_CLOEXEC));
  std::string text;
  char page[64 << 10];
  for (ssize_t got = 0; (got = ::read(list.get(), page, sizeof page)) > 0;)
    text.append(page, static_cast<std::size_t>(got));
  return std::istringstream(text);
}

// A busy machine may stop the reader between two pages, so the least of several looks counts.
template <typename Look>
std::uint64_t least_of(Look look_once) {
  std::uint64_t least = look_once();
  for (int more = 0; more < 4; ++more) least = std::min(least, look_once());
  return least;
}

std::uint64_t mapped_and_shared(const std::string& file_name) {
  std::uint64_t bytes = 0;
  std::istringstream maps = list_of("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range, rights, offset, device, inode, path;
    words >> range >> rights >> offset >> device >> inode >> path;
    char* dash = nullptr;
    const std::uint64_t first = std::strtoull(range.c_str(), &dash, 16);
    if (path == file_name && rights[3] == 's') bytes += std::strtoull(dash + 1, nullptr, 16) - first;
  }
  return bytes;
}

std::uint64_t anonymous_and_not_forked() {
  std::uint64_t bytes = 0;
  std::istringstream smaps = list_of("/proc/self/smaps");
  std::uint64_t size = 0;
  bool anonymous = false;
  for (std::string line; std::getline(smaps, line);) {
    if (std::isupper(static_cast<unsigned char>(line[0])) == 0) {  // Addresses are written in lower case.
      std::istringstream words(line);
      std::string range, rights, offset, device;
      std::uint64_t inode = 0;
      words >> range >> rights >> offset >> device >> inode;
      char* dash = nullptr;
      const std::uint64_t first = std::strtoull(range.c_str(), &dash, 16);
      size = std::strtoull(dash + 1, nullptr, 16) - first;
      anonymous = inode == 0;
    } else if (anonymous && line.starts_with("VmFlags:") && line.find(" dc") != std::string::npos) {
      bytes += size;
    }
  }
  return bytes;
}

Held look(const std::string& file_name) {
  Held held;
  held.registered = least_of([&] { return mapped_and_shared(file_name); });
  held.bounce = least_of(anonymous_and_not_forked);
  held.pinned = status_bytes("VmPin");
  held.anonymous = status_bytes("RssAnon");
  return held;
}

class MemoryTest : public testing::Test {
 protected:
  MemoryTest() : name_(std::filesystem::path(testing::TempDir()) / "penstock_memory_XXXXXX") {
    fd_.reset(::mkostemp(name_.data(), O_CLOEXEC));
  }
  ~MemoryTest() override {
    close();
    ::unlink(name_.c_str());
  }

  void close() {
    penstock_file_close(std::exchange(file_, nullptr));
    penstock_file_close(std::exchange(direct_file_, nullptr));
    penstock_session_close(std::exchange(session_, nullptr));
  }

  void open(std::uint64_t bounce_bytes, const char* paths, const char* require, std::uint64_t file_bytes) {
    ASSERT_TRUE(fd_.valid()) << name_;
    const std::string block(kMebibyte, 'x');
    for (std::uint64_t done = 0; done < file_bytes; done += block.size()) {
      ASSERT_EQ(::pwrite(fd_.get(), block.data(), block.size(), static_cast<off_t>(done)),
                static_cast<ssize_t>(block.size()));
    }
    file_bytes_ = file_bytes;
    before_ = look(name_);
    Config config;
    config.set("device", "host").set("paths", paths).set("require", require != nullptr ? require : "");
    config.set("bounce_mib", std::to_string(bounce_bytes / kMebibyte)).set("workers", "3");
    ASSERT_TRUE(config.status().ok()) << config.status().message();
    ASSERT_EQ(penstock_session_open(config.raw(), &session_).code, 0);
    direct_.reset(::open(name_.c_str(), O_RDWR | O_CLOEXEC | O_DIRECT));
    ASSERT_EQ(penstock_file_register(session_, fd_.get(), &file_).code, 0);
    if (direct_.valid() && penstock_file_register(session_, direct_.get(), &direct_file_).code != 0)
      direct_file_ = nullptr;
  }

  // Calls all of `bodies` in threads, and looks until they are through.
  Held peak_of(std::initializer_list<std::function<void()>> bodies) {
    std::atomic<int> left{static_cast<int>(bodies.size())};
    std::vector<std::thread> threads;
    for (const auto& body : bodies) {
      threads.emplace_back([&left, &body] {
        body();
        left.fetch_sub(1);
      });
    }
    Held peak;
    while (left.load() > 0) peak.raise_to(look(name_));
    for (std::thread& thread : threads) thread.join();
    peak.raise_to(look(name_));
    return peak;
  }

  void move(penstock_file* file, std::uint64_t size, bool is_write) {
    void* memory = nullptr;
    ASSERT_EQ(penstock_device_alloc(session_, 0, size, &memory).code, 0);
    for (std::uint64_t offset = 0; offset + size <= file_bytes_; offset += size) {
      Report report;
      const auto call = is_write ? penstock_write(file, memory, size, static_cast<int64_t>(offset), 0, &report)
                                 : penstock_read(file, memory, size, static_cast<int64_t>(offset), 0, &report);
      moved_by_pagecache_.fetch_add(penstock_report_bytes(&report, PENSTOCK_PATH_PAGECACHE));
      ASSERT_EQ(call.code, 0) << call.step;
      SessionInfo info;
      ASSERT_EQ(penstock_session_get(session_, &info).code, 0);
      ASSERT_LE(info.pinned_bytes, ring_limit_);
    }
    (void)penstock_device_free(session_, 0, memory);
  }

  // A mixture that wants as much of the ring as there is, by every way to it.
  Held peak_of_a_mixture() {
    const auto rounds = [&](penstock_file* file, std::uint64_t size, bool is_write) {
      return [=, this] {
        for (unsigned i = 0; i < kRounds && file != nullptr; ++i) move(file, size, is_write);
      };
    };
    return peak_of({rounds(file_, file_bytes_, false), rounds(file_, file_bytes_, true), rounds(file_, 100000, false),
                    rounds(direct_file_, file_bytes_, false), rounds(direct_file_, 4 * kMebibyte, true),
                    rounds(direct_file_, 256 << 10, false), [this] { queue_up(); }, [this] { queue_up(); }});
  }

  void queue_up() {
    constexpr unsigned kDepth = 16;
    constexpr std::uint64_t kSize = 64 << 10;
    penstock_queue* queue = nullptr;
    // It may not fit beside everything else.
    QueueOptions options;
    options.mode = PENSTOCK_QUEUE_POLLED;
    options.depth = kDepth;
    options.request_bytes_max = kSize;
    if (penstock_queue_open(session_, &options, &queue).code != 0) return;
    void* memory = nullptr;
    ASSERT_EQ(penstock_device_alloc(session_, 0, kDepth * kSize, &memory).code, 0);
    Completion completions[kDepth];
    for (unsigned round = 0; round < 20; ++round) {
      unsigned left = 0;
      for (unsigned i = 0; i < kDepth; ++i) {
        Request request;
        request.file = file_;
        request.base = memory;
        request.size = kSize;
        request.file_offset = static_cast<std::int64_t>(i * kSize);
        request.buffer_offset = static_cast<std::int64_t>(i * kSize);
        const penstock_status status = penstock_queue_submit(queue, &request, 1, nullptr);
        left += status.code == 0 ? 1 : 0;
        ASSERT_TRUE(status.code == 0 || status.code == PENSTOCK_LIMIT) << status.step;
      }
      while (left > 0) {
        std::uint32_t count = 0;
        ASSERT_EQ(penstock_queue_reap(queue, completions, kDepth, 1, Queue::kForever, &count).code, 0);
        ASSERT_GT(count, 0u) << "a queue lost a request, in round " << round;
        left -= count;
      }
    }
    penstock_queue_close(queue);
    (void)penstock_device_free(session_, 0, memory);
  }

  std::string name_;
  UniqueFd fd_;
  UniqueFd direct_;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t ring_limit_ = UINT64_MAX;
  penstock_session* session_ = nullptr;
  penstock_file* file_ = nullptr;
  penstock_file* direct_file_ = nullptr;
  std::atomic<std::uint64_t> moved_by_pagecache_{0};
  Held before_;
};

TEST_F(MemoryTest, RingsStayWithinTheirBound) {
  for (const std::uint64_t limit : {4 * kMebibyte, 64 * kMebibyte}) {
    ring_limit_ = limit;
    open(limit, "bounce", nullptr, 24 * kMebibyte);
    if (HasFatalFailure()) return;

    const Held peak = peak_of_a_mixture();

    EXPECT_LE(peak.bounce - before_.bounce, limit);
    EXPECT_LE(peak.pinned - before_.pinned, limit);
    if (kOwnMemoryAlone) {
      EXPECT_LE(peak.anonymous, before_.anonymous + limit + 8 * kMebibyte);
    }
    // What was looked for was there to be seen.
    EXPECT_GT(peak.bounce - before_.bounce, limit / 4);
    close();
    EXPECT_EQ(look(name_).bounce, before_.bounce);
    // The kernel takes a closed io_uring apart at its leisure.
    EXPECT_TRUE(wait_until([&] { return look(name_).pinned == before_.pinned; }));
  }
}

TEST_F(MemoryTest, WhatIsRegisteredOfFilesStaysWithinItsBound) {
  constexpr std::uint64_t kLimit = 64 * kMebibyte;
  ::setenv("PENSTOCK_REGISTRATION_CACHE_MIB", "64", 1);
  open(16 * kMebibyte, "pagecache", "pagecache", 160 * kMebibyte);
  if (HasFatalFailure()) return;
  Request request;
  request.file = file_;
  std::vector<Verdict> verdicts(penstock_path_count());
  std::uint32_t count = 0;
  ASSERT_EQ(penstock_explain(&request, verdicts.data(), penstock_path_count(), &count).code, 0);
  for (unsigned i = 0; i < count; ++i) {
    if (verdicts[i].path == PENSTOCK_PATH_PAGECACHE && verdicts[i].usable == 0) {
      GTEST_SKIP() << "pagecache: " << penstock_reason_sentence(verdicts[i].reason);
    }
  }
  // Far behind its piece there is nothing to see of a read that could not be served: refusals are none of this test's.
  const auto read_all = [this](std::uint64_t size) {
    return [=, this] {
      void* memory = nullptr;
      ASSERT_EQ(penstock_device_alloc(session_, 0, size, &memory).code, 0);
      for (std::uint64_t offset = 0; offset + size <= kRounds * file_bytes_; offset += size) {
        Report report;
        (void)penstock_read(file_, memory, size, static_cast<std::int64_t>(offset % file_bytes_), 0, &report);
        moved_by_pagecache_.fetch_add(penstock_report_bytes(&report, PENSTOCK_PATH_PAGECACHE));
      }
      (void)penstock_device_free(session_, 0, memory);
    };
  };

  const Held peak = peak_of({read_all(8 * kMebibyte), read_all(2 * kMebibyte), read_all(kMebibyte / 2)});

  EXPECT_LE(peak.registered, kLimit);
  EXPECT_GT(peak.registered, 0u);
  EXPECT_GT(moved_by_pagecache_.load(), file_bytes_);
  penstock_file_close(std::exchange(file_, nullptr));
  EXPECT_EQ(look(name_).registered, 0u);
}

TEST_F(MemoryTest, NothingIsRegisteredWhereThatIsOff) {
  ::setenv("PENSTOCK_REGISTRATION_CACHE_MIB", "0", 1);
  open(16 * kMebibyte, "pagecache,bounce", nullptr, 24 * kMebibyte);
  if (HasFatalFailure()) return;

  const Held peak = peak_of_a_mixture();

  EXPECT_EQ(peak.registered, 0u);
  EXPECT_EQ(moved_by_pagecache_.load(), 0u);
}

}  // namespace
}  // namespace penstock::stress
