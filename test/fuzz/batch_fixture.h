// SPDX-License-Identifier: Apache-2.0

// The fixture of the batch fuzzer: storage whose transfers can be held up and spoilt from outside, and memory that is
// handed out in slots, so that whatever is touched outside of them is seen.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "fakes/fake_storage.h"
#include "fuzz/fuzz.h"

namespace penstock::fuzz {

constexpr std::size_t kReadBytes = 3u << 20;   // The file's beginning, which nobody writes.
constexpr std::size_t kWriteBytes = 1u << 20;  // The rest, a slot for each write.
constexpr std::size_t kArenaBytes = 4u << 20;
constexpr char kUnread = '\xee';  // What a read's memory holds before.

inline char pattern(std::size_t at) { return static_cast<char>((at * 0x9e3779b97f4a7c15u) >> 56); }

inline const std::vector<char>& pristine_content() {
  static const std::vector<char> content = [] {
    std::vector<char> bytes(kReadBytes + kWriteBytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(i);
    return bytes;
  }();
  return content;
}

// The content goes from one fixture to the next: it is large, and little of it changes.
class FuzzStorage final : public core::FakeStorage {
 public:
  FuzzStorage() {
    if (spare().empty()) spare() = pristine_content();
    content.swap(spare());
  }
  ~FuzzStorage() override { content.swap(spare()); }

  static std::vector<char>& spare() {
    static std::vector<char> bytes;
    return bytes;
  }

  void hold() {
    const std::lock_guard lock(control_);
    held_ = true;
  }
  void let_go() {
    const std::lock_guard lock(control_);
    held_ = false;
    changed_.notify_all();
  }
  void spoil(Fault fault) {
    const std::lock_guard lock(control_);
    spoils_.push_back(fault);
  }

  core::Result<std::size_t> read(int fd, void* memory, std::size_t size, std::uint64_t offset) override {
    const Fault fault = pass();
    if (fault.error != 0) return core::os_failure(fault.error, "read as scripted");
    return FakeStorage::read(fd, memory, std::min(size, fault.at_most), offset);
  }
  core::Result<std::size_t> read_if_cached(int fd, void* memory, std::size_t size, std::uint64_t offset) override {
    const Fault fault = pass();
    if (fault.error != 0) return core::os_failure(fault.error, "read as scripted");
    return FakeStorage::read_if_cached(fd, memory, std::min(size, fault.at_most), offset);
  }
  core::Result<std::size_t> write(int fd, const void* memory, std::size_t size, std::uint64_t offset) override {
    const Fault fault = pass();
    if (fault.error != 0) return core::os_failure(fault.error, "write as scripted");
    return FakeStorage::write(fd, memory, std::min(size, fault.at_most), offset);
  }

 private:
  Fault pass() {
    std::unique_lock lock(control_);
    changed_.wait(lock, [this] { return !held_; });
    if (spoils_.empty()) return {};
    const Fault fault = spoils_.front();
    spoils_.pop_front();
    return fault;
  }

  std::mutex control_;
  std::condition_variable changed_;
  bool held_ = false;
  std::deque<Fault> spoils_;
};

// Slots one behind the other, with gaps that stay zero.
class Arena {
 public:
  explicit Arena(char* memory) : memory_(memory) {}

  // Null where there is no room.
  char* take(std::size_t size, std::size_t gap) {
    if (size + gap > kArenaBytes - used_) return nullptr;
    slots_.emplace_back(used_ + gap, size);
    used_ += gap + size;
    return memory_ + used_ - size;
  }
  void check_gaps() const {
    std::size_t at = 0;
    for (const auto& [begin, size] : slots_) {
      for (; at < begin; ++at) FUZZ_CHECK(memory_[at] == 0);
      at = begin + size;
    }
    for (const std::size_t end = std::min(at + 8192, kArenaBytes); at < end; ++at) FUZZ_CHECK(memory_[at] == 0);
  }
  void clear() { std::memset(memory_, 0, used_); }

 private:
  char* const memory_;
  std::size_t used_ = 0;
  std::vector<std::pair<std::size_t, std::size_t>> slots_;
};

}  // namespace penstock::fuzz
