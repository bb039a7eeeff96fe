// SPDX-License-Identifier: Apache-2.0

// The bytes of a simulated file. They are in the program's own memory, page by page, where a page of zeros takes none,
// until somebody asks for what the kernel alone can do, as for a mapping; from then on they are in a file of the
// kernel's in memory. For files.h alone.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace penstock::simulation {

class Bytes {
 public:
  // So many zeros, in a file that has no name.
  explicit Bytes(std::uint64_t size);
  // Those of a file that is open, which are the kernel's.
  Bytes(int fd, std::uint64_t size);
  ~Bytes();
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  // Of the kernel's file, in which they are, or will be.
  int descriptor() const { return descriptor_; }
  void give_to_kernel();
  // Their size and blocks.
  void tell(struct stat& facts) const;

  // As far as they reach. Until the next call.
  std::span<const std::byte> look(std::uint64_t first, std::uint64_t size) const;
  std::size_t read(std::byte* memory, std::size_t size, std::uint64_t offset) const;
  std::size_t write(const std::byte* memory, std::size_t size, std::uint64_t offset);
  void resize(std::uint64_t size);
  void punch(std::uint64_t first, std::uint64_t end);
  // As fallocate; returns an errno.
  int allocate(int mode, std::uint64_t first, std::uint64_t end);

 private:
  static constexpr std::uint64_t kPage = 4096;
  using Page = std::array<std::byte, kPage>;

  template <typename Visit>
  static void for_each_page(std::uint64_t first, std::uint64_t end, const Visit& visit);
  std::byte* page(std::uint64_t number, bool is_all_written);
  void clear(std::uint64_t first, std::uint64_t end);

  const int descriptor_;
  std::uint64_t size_;
  bool is_kernels_;
  std::vector<std::unique_ptr<Page>> pages_;  // Behind the size they are zero.
  std::uint64_t allocated_ = 0;
};

// Memory that is used over and over. One thread runs at a time.
class Scratch {
 public:
  std::span<std::byte> of(std::size_t size) {
    if (bytes_.size() < size) bytes_.resize(size);
    return {bytes_.data(), size};
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace penstock::simulation
