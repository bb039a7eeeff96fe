// SPDX-License-Identifier: Apache-2.0

// The heap of most runs, whose addresses are the same on each machine. The order in which waits of the C++ library are
// woken depends on the addresses that they wait at, and those of the C library's heap depend on its version: by that
// heap a seed is another run where the C library is another one. For the scheduler's threads, of which one runs at a
// time.
#pragma once

#include <cstddef>

namespace penstock::simulation {

class SteadyHeap {
 public:
  static void* begin_of_all() { return reinterpret_cast<void*>(0x2000'0000'0000); }  // Nothing else is there.
  bool begin();                                                                      // False: there is no room for it.
  bool owns(const void* memory) const;
  void* allocate(std::size_t alignment, std::size_t size);  // Null: there is no room left.
  void free(void* memory);
  std::size_t size_of(const void* memory) const;  // Of what was allocated, rounded up.

 private:
  struct Free {
    Free* next;
  };
  static constexpr unsigned kClasses = 40;  // By size: a piece of a class is twice as large as one of the class before.

  void* carve(unsigned of_class);

  Free* free_[kClasses] = {};
  std::byte* next_[kClasses] = {};  // What is left of the chunk that pieces of a class were last cut from.
  std::byte* end_[kClasses] = {};
  std::byte* unused_ = nullptr;
  unsigned char* classes_ = nullptr;  // Of each chunk.
};

}  // namespace penstock::simulation
