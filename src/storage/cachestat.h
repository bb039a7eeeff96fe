// SPDX-License-Identifier: Apache-2.0

// The kernel's count of a file's pages in the page cache: cachestat(2), of Linux 6.5 and newer than the headers that
// this is built with.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <optional>

namespace penstock::core {

// Counts those of a range (size 0: to the end of the file). Returns nothing if the kernel does not tell; errno says
// why.
inline std::optional<std::uint64_t> count_cached_pages(int fd, std::uint64_t offset, std::uint64_t size) {
  constexpr long kCachestat = 451;  // The same number on every architecture.
  struct {
    std::uint64_t offset, length;
  } range{offset, size};
  struct {
    std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } counts{};
  if (::syscall(kCachestat, fd, &range, &counts, 0) != 0) return std::nullopt;
  return counts.cached;
}

}  // namespace penstock::core
