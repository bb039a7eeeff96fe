// SPDX-License-Identifier: Apache-2.0

// What the probes of the emulated machines share: device memory, the pattern, marks in the emulator's log, and how an
// operation is measured and printed. Nothing of Penstock.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace penstock::guest {

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;
constexpr size_t kPeerBytes = 2 * kMiB;
constexpr size_t kBlock = 512;
// Beyond what any case touches; the drive that carries the marks is sparse and larger. witness.py has it too.
constexpr uint64_t kFirstMark = uint64_t{1} << 26;

[[noreturn]] inline void fail(const std::string& step) {
  std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, step.c_str(), std::strerror(errno));
  std::exit(1);
}

// The word that belongs at an offset of a file; pattern.py has the same. Salt 0 is what the images are made of.
inline uint64_t pattern_word(uint64_t offset, uint64_t salt) {
  return (offset + 1) * 0x9E3779B97F4A7C15u ^ salt * 0xD1B54A32D192ED03u;
}

inline void fill_pattern(void* memory, size_t bytes, uint64_t offset, uint64_t salt) {
  auto* words = static_cast<volatile uint64_t*>(memory);  // Device memory: word by word, no clever stores.
  for (size_t i = 0; i < bytes / 8; ++i) words[i] = pattern_word(offset + i * 8, salt);
}

inline bool has_pattern(const void* memory, size_t bytes, uint64_t offset, uint64_t salt) {
  auto* words = static_cast<const volatile uint64_t*>(memory);
  for (size_t i = 0; i < bytes / 8; ++i) {
    if (words[i] != pattern_word(offset + i * 8, salt)) return false;
  }
  return true;
}

inline std::string name_of(long result) {
  if (result >= 0) return "";
  const char* name = strerrorname_np(static_cast<int>(-result));
  return name != nullptr ? name : std::to_string(-result);
}

inline char* host_memory(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("mmap of host memory");
  return static_cast<char*>(memory);
}

inline char* peer_memory(const std::string& peer) {
  const std::string allocate = peer + "/p2pmem/allocate";
  const int fd = open(allocate.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) fail("open " + allocate);
  void* memory = mmap(nullptr, kPeerBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) fail("mmap " + allocate);
  close(fd);
  return static_cast<char*>(memory);
}

inline int open_or_fail(const char* path, int flags) {
  const int fd = open(path, flags | O_CLOEXEC, 0644);
  if (fd < 0) fail(std::string("open ") + path);
  return fd;
}

inline int open_direct(const char* path) {
  const int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
  return fd >= 0 || errno != EINVAL ? fd : open(path, O_RDWR | O_CLOEXEC);
}

inline void mark(int marks, uint64_t number) {
  static char* block = host_memory(4 * kKiB);
  const auto at = static_cast<off_t>((kFirstMark + number) * kBlock);
  if (pread(marks, block, kBlock, at) != static_cast<ssize_t>(kBlock)) fail("mark");
}

// Pages of the file in the page cache; -1 where the kernel has no cachestat.
inline long cached_pages(int fd) {
  struct {
    uint64_t offset = 0, length = 0;
  } range;
  struct {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } counts;
  constexpr long kCachestat = 451;
  return syscall(kCachestat, fd, &range, &counts, 0) == 0 ? static_cast<long>(counts.cached) : -1;
}

// Calls of the kernel's function that maps device memory for DMA, counted by a probe of that name; -1 without it.
inline long kernel_mappings() {
  std::ifstream profile("/sys/kernel/tracing/kprobe_profile");
  for (std::string name; profile >> name;) {
    long hits = 0;
    profile >> hits;
    if (name == "peer_mapping") return hits;
    profile.ignore(1000, '\n');
  }
  return -1;
}

// What a probe does with device memory and a file, both ways; no two touch the same bytes of the target.
struct Piece {
  const char* name;
  bool writes;
  size_t offset;
  size_t bytes;
};

// Whether the bytes arrived: in the peer's memory for a read, in the file for a write.
inline bool arrived(const Piece& piece, int fd, const char* peer, uint64_t salt) {
  if (!piece.writes) return has_pattern(peer, piece.bytes, piece.offset, 0);
  char* host = host_memory(piece.bytes);
  const ssize_t done = pread(fd, host, piece.bytes, static_cast<off_t>(piece.offset));
  const bool equal = done == static_cast<ssize_t>(piece.bytes) && has_pattern(host, piece.bytes, piece.offset, salt);
  munmap(host, piece.bytes);
  return equal;
}

// The file under test, by both kinds of descriptor, the drive of marks, and the number of the next.
struct Bench {
  const char* name;
  int direct, buffered, marks;
  uint64_t number;
};

inline Bench open_bench(const char* name, const char* target, const char* marks, uint64_t first) {
  const Bench bench{name, open_direct(target), open_or_fail(target, O_RDWR), open_or_fail(marks, O_RDONLY | O_DIRECT),
                    first};
  if (bench.direct < 0) fail(std::string("open ") + target);
  return bench;
}

// Prepares memory, lets `perform` do it between two marks, and prints what all witnesses in the machine say of it.
template <typename Perform>
void measure(Bench* bench, const Piece& piece, char* memory, Perform perform) {
  const uint64_t number = bench->number++;
  const uint64_t salt = number + 1;
  if (piece.writes) {
    fill_pattern(memory, piece.bytes, piece.offset, salt);
  } else {
    std::memset(memory, 0xA5, piece.bytes);
  }
  fsync(bench->buffered);
  posix_fadvise(bench->buffered, 0, 0, POSIX_FADV_DONTNEED);
  const long cached_before = cached_pages(bench->buffered);
  const long mappings_before = kernel_mappings();
  mark(bench->marks, number);
  const long result = perform();
  mark(bench->marks, number + 1);
  const long mappings = kernel_mappings() - mappings_before;
  const long cached = cached_pages(bench->buffered) - cached_before;
  const bool equal = result == static_cast<long>(piece.bytes) && arrived(piece, bench->direct, memory, salt);
  std::printf(
      "@@ {\"case\": \"%s\", \"op\": \"%s\", \"offset\": %zu, \"size\": %zu, \"writes\": %s, \"salt\": %llu, "
      "\"bytes\": %ld, \"error\": \"%s\", \"equal\": %s, \"mappings\": %ld, \"cached\": %ld, \"mark\": %llu}\n",
      bench->name, piece.name, piece.offset, piece.bytes, piece.writes ? "true" : "false",
      static_cast<unsigned long long>(salt), result < 0 ? 0 : result, name_of(result).c_str(), equal ? "true" : "false",
      mappings, cached, static_cast<unsigned long long>(number));
  std::fflush(stdout);
}

// What came of a step, as a word that the table of cases has.
inline void answer(const char* name, const char* step, const std::string& word) {
  std::printf("@@ {\"case\": \"%s\", \"op\": \"%s\", \"error\": \"%s\"}\n", name, step, word.c_str());
  std::fflush(stdout);
}

}  // namespace penstock::guest
