// SPDX-License-Identifier: Apache-2.0

#include "simulation/steady_heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <new>
#include <utility>

namespace penstock::simulation {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 38;
constexpr std::size_t kChunk = 64 << 10;
constexpr unsigned kSmallest = 6;  // 64 bytes, a cache line.

unsigned class_of(std::size_t alignment, std::size_t size) {
  return std::max(kSmallest, static_cast<unsigned>(std::bit_width(std::max(alignment, size) - 1)));
}

// From the beginning of the heap; what lies before it is far behind its end.
std::size_t place_of(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) - reinterpret_cast<std::uintptr_t>(SteadyHeap::begin_of_all());
}

}  // namespace

bool SteadyHeap::begin() {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const table = ::mmap(nullptr, kBytes / kChunk, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  void* const memory = ::mmap(begin_of_all(), kBytes, PROT_READ | PROT_WRITE, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
  if (table == MAP_FAILED || memory == MAP_FAILED) return false;
  (void)::madvise(memory, kBytes, MADV_HUGEPAGE);  // Each size has pages of its own: a run touches many.
  unused_ = static_cast<std::byte*>(memory);
  classes_ = static_cast<unsigned char*>(table);
  return true;
}

bool SteadyHeap::owns(const void* memory) const { return unused_ != nullptr && place_of(memory) < kBytes; }

// The address of a piece is a multiple of its size.
void* SteadyHeap::carve(unsigned of_class) {
  const std::size_t piece = std::size_t{1} << of_class, size = std::max(piece, kChunk);
  if (next_[of_class] == end_[of_class]) {
    const std::size_t used = place_of(unused_);
    const std::size_t begin = (used + size - 1) / size * size;
    if (begin + size > kBytes) return errno = ENOMEM, nullptr;
    next_[of_class] = unused_ + (begin - used);
    end_[of_class] = unused_ = next_[of_class] + size;
    classes_[begin / kChunk] = static_cast<unsigned char>(of_class);
  }
  return std::exchange(next_[of_class], next_[of_class] + piece);
}

void* SteadyHeap::allocate(std::size_t alignment, std::size_t size) {
  if (std::max(alignment, size) > kBytes / 2) return errno = ENOMEM, nullptr;
  const unsigned of_class = class_of(alignment, size);
  Free* const piece = free_[of_class];
  if (piece == nullptr) return carve(of_class);
  free_[of_class] = piece->next;
  return piece;
}

void SteadyHeap::free(void* memory) {
  const unsigned of_class = classes_[place_of(memory) / kChunk];
  free_[of_class] = new (memory) Free{free_[of_class]};
}

std::size_t SteadyHeap::size_of(const void* memory) const {
  return std::size_t{1} << classes_[place_of(memory) / kChunk];
}

}  // namespace penstock::simulation
