// SPDX-License-Identifier: Apache-2.0

#include "simulation/bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "simulation/scheduler.h"

namespace penstock::simulation {
namespace {

constexpr std::uint64_t kBlock = 512;

}  // namespace

Bytes::Bytes(std::uint64_t size)
    : descriptor_(::memfd_create("simulated", MFD_CLOEXEC)), size_(size), is_kernels_(false) {}

Bytes::Bytes(int fd, std::uint64_t size) : descriptor_(fd), size_(size), is_kernels_(true) {}

Bytes::~Bytes() { ::close(descriptor_); }

// Calls visit(page, its first byte that is meant, the end of these, how far in the range they are).
template <typename Visit>
void Bytes::for_each_page(std::uint64_t first, std::uint64_t end, const Visit& visit) {
  for (std::uint64_t at = first; at < end;) {
    const std::uint64_t begin = at % kPage, count = std::min(kPage - begin, end - at);
    visit(at / kPage, begin, begin + count, at - first);
    at += count;
  }
}

std::byte* Bytes::page(std::uint64_t number, bool is_all_written) {
  if (number >= pages_.size()) pages_.resize(number + 1);
  std::unique_ptr<Page>& found = pages_[number];
  if (found == nullptr) {
    ++allocated_;
    found = std::make_unique_for_overwrite<Page>();
    if (!is_all_written) found->fill(std::byte{0});
  }
  return found->data();
}

void Bytes::give_to_kernel() {
  static const auto really_cut = REAL(ftruncate);
  static const auto really_write = REAL(pwrite);
  if (std::exchange(is_kernels_, true)) return;
  bool is_done = really_cut(descriptor_, static_cast<off_t>(size_)) == 0;
  for (std::uint64_t number = 0; number < pages_.size() && number * kPage < size_; ++number) {
    if (pages_[number] == nullptr) continue;
    const std::uint64_t count = std::min(kPage, size_ - number * kPage);
    is_done = is_done && really_write(descriptor_, pages_[number]->data(), count, static_cast<off_t>(number * kPage)) ==
                             static_cast<ssize_t>(count);
  }
  if (!is_done) scheduler().fail("the kernel has no room for the bytes of a file");
  pages_.clear();
}

void Bytes::tell(struct stat& facts) const {
  if (is_kernels_) return (void)::syscall(SYS_fstat, descriptor_, &facts);
  facts.st_size = static_cast<off_t>(size_);
  facts.st_blocks = static_cast<blkcnt_t>(allocated_ * (kPage / kBlock));
}

std::span<const std::byte> Bytes::look(std::uint64_t first, std::uint64_t size) const {
  static auto& scratch = *new Scratch;  // Also behind exit().
  const std::span<std::byte> bytes = scratch.of(size);
  return bytes.first(read(bytes.data(), size, first));
}

std::size_t Bytes::read(std::byte* memory, std::size_t size, std::uint64_t offset) const {
  static const auto really = REAL(pread);
  if (is_kernels_) {
    const ssize_t got = really(descriptor_, memory, size, static_cast<off_t>(offset));
    return got < 0 ? 0 : static_cast<std::size_t>(got);
  }
  const std::uint64_t end = std::clamp(offset + size, offset, std::max(offset, size_));
  for_each_page(offset, end, [&](std::uint64_t number, std::uint64_t from, std::uint64_t to, std::uint64_t done) {
    if (number < pages_.size() && pages_[number] != nullptr)
      std::memcpy(memory + done, pages_[number]->data() + from, to - from);
    else std::memset(memory + done, 0, to - from);
  });
  return end - offset;
}

std::size_t Bytes::write(const std::byte* memory, std::size_t size, std::uint64_t offset) {
  static const auto really = REAL(pwrite);
  if (is_kernels_) {
    const ssize_t done = really(descriptor_, memory, size, static_cast<off_t>(offset));
    return done < 0 ? 0 : static_cast<std::size_t>(done);
  }
  for_each_page(offset, offset + size,
                [&](std::uint64_t number, std::uint64_t from, std::uint64_t to, std::uint64_t done) {
                  std::memcpy(page(number, to - from == kPage) + from, memory + done, to - from);
                });
  size_ = std::max(size_, offset + size);
  return size;
}

void Bytes::clear(std::uint64_t first, std::uint64_t end) {
  for_each_page(first, end, [&](std::uint64_t number, std::uint64_t from, std::uint64_t to, std::uint64_t) {
    if (number >= pages_.size() || pages_[number] == nullptr) return;
    if (to - from == kPage) pages_[number].reset(), --allocated_;
    else std::memset(pages_[number]->data() + from, 0, to - from);
  });
}

void Bytes::resize(std::uint64_t size) {
  static const auto really = REAL(ftruncate);
  if (is_kernels_) return (void)really(descriptor_, static_cast<off_t>(size));
  const std::uint64_t reach = pages_.size() * kPage;
  if (size < reach) clear(size, reach);
  size_ = size;
}

void Bytes::punch(std::uint64_t first, std::uint64_t end) {
  static const auto really = REAL(fallocate);
  if (!is_kernels_) return clear(first, end);
  (void)really(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
               static_cast<off_t>(end - first));
}

int Bytes::allocate(int mode, std::uint64_t first, std::uint64_t end) {
  static const auto really = REAL(fallocate);
  if (is_kernels_)
    return really(descriptor_, mode, static_cast<off_t>(first), static_cast<off_t>(end - first)) == 0 ? 0 : errno;
  for_each_page(first, end,
                [&](std::uint64_t number, std::uint64_t, std::uint64_t, std::uint64_t) { (void)page(number, false); });
  return 0;
}

}  // namespace penstock::simulation
