// SPDX-License-Identifier: Apache-2.0

// Refuses allocations to the thread that asks for it. Replaces operator new of the whole program: one file of a program
// includes this, and its name ends in shortage_test.cc, since such files are compiled by themselves.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace penstock {

inline constexpr long kAllAllocations = -1;
// How many allocations the thread may make before all are refused, or one.
inline thread_local long allocations_left = kAllAllocations;
inline thread_local bool is_one_refused = false;

inline void* allocate_if_left(std::size_t size, std::size_t align = alignof(std::max_align_t)) {
  if (allocations_left == 0) {
    if (is_one_refused) allocations_left = kAllAllocations;
    return nullptr;
  }
  if (allocations_left > 0) --allocations_left;
  return std::aligned_alloc(align, std::max<std::size_t>((size + align - 1) / align * align, align));
}
inline void* allocate_or_throw(std::size_t size, std::size_t align = alignof(std::max_align_t)) {
  void* const memory = allocate_if_left(size, align);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// Calls `work` with so many allocations; `one`: the next one is refused, and those behind it are not.
template <typename Work>
auto with_allocations(long count, Work work, bool one = false) {
  struct Limit {
    Limit(long most, bool once) {
      allocations_left = most;
      is_one_refused = once;
    }
    ~Limit() { allocations_left = kAllAllocations; }
  } const limit(count, one);
  return work();
}

class ShortMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer's own allocation functions are in use";
#endif
  }
};

}  // namespace penstock

// Not inlined: GCC would warn of free() for what it saw come from new.
void* operator new(std::size_t size) { return penstock::allocate_or_throw(size); }
void* operator new(std::size_t size, std::align_val_t align) {
  return penstock::allocate_or_throw(size, static_cast<std::size_t>(align));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return penstock::allocate_if_left(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
