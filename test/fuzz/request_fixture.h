// SPDX-License-Identifier: Apache-2.0

// The fixture of the request fuzzer: one file with a model of its bytes, and two pieces of memory, of the host and of a
// device, with models of theirs. The host's lies in a reservation that nobody can touch, so that what is asked for far
// outside of it meets the kernel's EFAULT and nothing else.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "cufile.h"
#include "fakes/cufile_session.h"
#include "fuzz/fuzz.h"

namespace penstock::fuzz {

constexpr std::size_t kMemoryBytes = 611 * 4096;  // Enough for a request that workers help with.
constexpr std::size_t kFileBytes = 2'300'077;
constexpr std::size_t kFileBytesMax = 8u << 20;    // What the model follows; beyond, a write is looked at once.
constexpr std::size_t kReservedBytes = 64u << 20;  // Around the host's memory.
constexpr std::size_t kHostAt = 24u << 20;         // In there.
constexpr std::size_t kReachMax = 16u << 20;       // How far from the host's memory a wild request may begin.
constexpr std::uint64_t kNowhere = std::uint64_t{1} << 47;  // No user's memory is there or beyond.

// Memory and what it ought to hold.
struct Memory {
  char* begin = nullptr;
  std::vector<char> model;

  char* end() const { return begin + model.size(); }
  // Offset and size within it; false where the range is not all there.
  bool holds(const char* at, std::uint64_t size) const {
    return at >= begin && at <= end() && size <= static_cast<std::uint64_t>(end() - at);
  }
  // What [at, at + size) holds now is right, so far as it lies here.
  void trust(const char* at, std::uint64_t size) {
    const auto [low, bytes] = part(reinterpret_cast<std::uintptr_t>(at), size);
    std::memcpy(model.data() + low, begin + low, bytes);
  }
  // There, and around it.
  void check_near(const char* at, std::uint64_t size) const {
    constexpr std::uintptr_t kAround = 64u << 10;
    const auto from = reinterpret_cast<std::uintptr_t>(at);
    const std::uintptr_t less = std::min(from, kAround);
    const auto [low, bytes] = part(from - less, size > UINT64_MAX / 2 ? size : size + less + kAround);
    FUZZ_CHECK(std::memcmp(begin + low, model.data() + low, bytes) == 0);
  }
  void fill(unsigned shift) {
    std::memcpy(model.data(), pattern().data() + shift, model.size());
    std::memcpy(begin, model.data(), model.size());
  }

  // What of a range lies here: its offset and its bytes.
  std::pair<std::size_t, std::size_t> part(std::uintptr_t from, std::uint64_t size) const {
    const auto first = reinterpret_cast<std::uintptr_t>(begin);
    const std::uintptr_t to = size > UINT64_MAX - from ? UINT64_MAX : from + size;
    const std::uintptr_t low = std::clamp(from, first, first + model.size());
    return {low - first, std::clamp(to, first, first + model.size()) - low};
  }

  // Longer than any memory or file. Made once, since that takes a while where each step is watched.
  static const std::vector<char>& pattern() {
    static const std::vector<char> bytes = [] {
      std::vector<char> made(std::max(kMemoryBytes, kFileBytes) + 4096);
      for (std::size_t i = 0; i < made.size(); ++i) made[i] = static_cast<char>(i * 0x9e3779b97f4a7c15u >> 56);
      return made;
    }();
    return bytes;
  }
};

inline char* reserve_host_memory() {
  void* const all = ::mmap(nullptr, kReservedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  FUZZ_CHECK(all != MAP_FAILED);
  char* const host = static_cast<char*>(all) + kHostAt;
  FUZZ_CHECK(::mprotect(host, kMemoryBytes, PROT_READ | PROT_WRITE) == 0);
  return host;
}

// One file, opened several times over.
class ModelFile {
 public:
  static constexpr int kFlags[] = {O_RDWR, O_RDONLY, O_WRONLY, O_RDWR | O_DIRECT, O_WRONLY | O_DIRECT | O_DSYNC};
  static constexpr unsigned kCount = std::size(kFlags);

  ModelFile() {
    const char* const folder = std::getenv("TMPDIR");
    std::string name = std::string(folder != nullptr ? folder : "/tmp") + "/penstock_fuzz_XXXXXX";
    const int made = ::mkstemp(name.data());
    FUZZ_CHECK(made >= 0);
    for (unsigned i = 0; i < kCount; ++i) {
      fds_[i] = ::open(name.c_str(), kFlags[i] | O_CLOEXEC);
      if (fds_[i] < 0) fds_[i] = ::open(name.c_str(), (kFlags[i] & ~O_DIRECT) | O_CLOEXEC);  // As on some tmpfs.
      FUZZ_CHECK(fds_[i] >= 0);
    }
    ::close(made);
    ::unlink(name.c_str());
  }

  int fd(unsigned index) const { return fds_[index]; }
  std::vector<char> model;

  void begin() {
    if (model.size() != kFileBytes || is_dirty_) {
      model.assign(Memory::pattern().begin(), Memory::pattern().begin() + kFileBytes);
      FUZZ_CHECK(::ftruncate(fds_[0], 0) == 0);
      FUZZ_CHECK(::pwrite(fds_[0], model.data(), model.size(), 0) == static_cast<ssize_t>(model.size()));
    }
    is_dirty_ = false;
  }

  // What the file holds in this range is right, and its end.
  void trust(std::uint64_t offset, std::uint64_t size) {
    is_dirty_ = true;
    struct stat facts {};
    FUZZ_CHECK(::fstat(fds_[0], &facts) == 0);
    const auto length = static_cast<std::uint64_t>(facts.st_size);
    FUZZ_CHECK(length == model.size() || size > length || offset >= length - size);
    if (length > kFileBytesMax) {
      FUZZ_CHECK(::ftruncate(fds_[0], static_cast<off_t>(model.size())) == 0);
    } else {
      model.resize(length);
    }
    if (offset >= model.size()) return;
    size = std::min<std::uint64_t>(size, model.size() - offset);
    const ssize_t got = ::pread(fds_[0], model.data() + offset, size, static_cast<off_t>(offset));
    FUZZ_CHECK(got == static_cast<ssize_t>(size));
  }

  // Of what was written there, wherever it is.
  void check_written(const char* bytes, std::size_t size, std::uint64_t offset) const {
    if (size == 0) return;
    std::vector<char> written(size);
    FUZZ_CHECK(::pread(fds_[0], written.data(), size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size));
    FUZZ_CHECK(std::memcmp(written.data(), bytes, size) == 0);
  }

  void check() const {
    struct stat facts {};
    FUZZ_CHECK(::fstat(fds_[0], &facts) == 0 && static_cast<std::size_t>(facts.st_size) == model.size());
    if (!is_dirty_) return;
    void* const all = ::mmap(nullptr, model.size(), PROT_READ, MAP_SHARED, fds_[0], 0);
    FUZZ_CHECK(all != MAP_FAILED && std::memcmp(all, model.data(), model.size()) == 0);
    ::munmap(all, model.size());
  }

 private:
  int fds_[kCount] = {};
  bool is_dirty_ = true;
};

}  // namespace penstock::fuzz
