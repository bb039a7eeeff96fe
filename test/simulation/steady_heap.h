// SPDX-License-Identifier: Apache-2.0

// The heap of most runs, whose addresses are the same on each machine. Those of the C library's heap depend on its
// version; and where a wait of the C++ library queues depends on the address of what it waits for, so that a seed meant
// another run where the library was another one. For the scheduler's threads, of which one runs at a time.
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
  static constexpr unsigned kClasses = 40;  // Each is of pieces of twice the size.

  void* carve(unsigned of_class);

  Free* free_[kClasses] = {};
  std::byte* next_[kClasses] = {};  // What is left of the chunk that pieces of a class were last cut from.
  std::byte* end_[kClasses] = {};
  std::byte* unused_ = nullptr;
  unsigned char* classes_ = nullptr;  // Of each chunk.
};

}  // namespace penstock::simulation
