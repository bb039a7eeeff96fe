// SPDX-License-Identifier: Apache-2.0

// A file's own pages in the page cache, as memory of this process. They are mapped once, so that a device's DMA engine
// can fetch bytes from them or put bytes there. No CPU touches the mapping, so truncating the file causes no SIGBUS.
//
// PageWatch shows afterwards whether a mapping's pages belonged to the file all the time. The kernel takes a page out
// of every mapping before it takes it out of the file (truncation, a punched hole, direct writes, invalidation), and
// maps it again only when a CPU touches it, which none does. So a page that is still mapped was never removed. While
// the kernel migrates a page, to make room for a huge one, a migration entry replaces it in the page table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "base/unique_fd.h"

namespace penstock::core {

class PageMapping {
 public:
  // Offset and size are multiples of the page size (on hugetlbfs, of its page size). Reads pages that are not in the
  // page cache.
  static Result<PageMapping> open(int fd, std::uint64_t offset, std::size_t size, bool writable);
  PageMapping() = default;
  PageMapping(PageMapping&& other) noexcept { swap(other); }
  PageMapping& operator=(PageMapping&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PageMapping();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  // Leaves the memory mapped for ever.
  void abandon() { data_ = nullptr; }

 private:
  void swap(PageMapping& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Thread-safe.
class PageWatch {
 public:
  // Fails if the kernel does not show a process its own page table (/proc/self/pagemap).
  static Result<PageWatch> open();
  enum class Presence : std::uint8_t { there, moving, gone };
  // Returns the state of the first absent page, or `there`.
  Presence look(const std::byte* memory, std::size_t size) const;
  // Waits at most 20 ms for pages that the kernel is migrating.
  bool are_present(const std::byte* memory, std::size_t size) const;

 private:
  explicit PageWatch(UniqueFd pagemap, bool scans) : pagemap_(std::move(pagemap)), scans_(scans) {}
  Presence scan(std::uint64_t begin, std::uint64_t end) const;
  Presence read_entries(std::uint64_t begin, std::uint64_t end) const;

  UniqueFd pagemap_;
  bool scans_;  // The kernel can search a range by itself, since Linux 6.7.
};

}  // namespace penstock::core
