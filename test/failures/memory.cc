// SPDX-License-Identifier: Apache-2.0

#include "failures/memory.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

#include "libc_heap.h"

namespace {

std::atomic<long> first_refused{-1}, count{0}, live{0};
std::atomic<bool> refuses_more{false};

bool is_refused() {
  const long number = count.fetch_add(1), first = first_refused;
  const bool refused = first >= 0 && (refuses_more ? number >= first : number == first);
  if (refused) errno = ENOMEM;
  return refused;
}

void* counted(void* memory) {
  if (memory != nullptr) ++live;
  return memory;
}

}  // namespace

extern "C" {

void* malloc(std::size_t size) { return is_refused() ? nullptr : counted(__libc_malloc(size)); }
void* calloc(std::size_t number, std::size_t size) {
  return is_refused() ? nullptr : counted(__libc_calloc(number, size));
}
void* realloc(void* memory, std::size_t size) {
  if (is_refused()) return nullptr;
  void* const moved = __libc_realloc(memory, size);
  if (memory == nullptr) return counted(moved);
  if (size == 0) --live;
  return moved;
}
void* memalign(std::size_t alignment, std::size_t size) {
  return is_refused() ? nullptr : counted(__libc_memalign(alignment, size));
}
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  *memory = memalign(alignment, size);
  return *memory != nullptr ? 0 : ENOMEM;
}
void free(void* memory) {
  if (memory != nullptr) --live;
  __libc_free(memory);
}

}  // extern "C"

namespace penstock::failures {

void refuse_memory(long first, bool more) {
  first_refused = -1;
  count = 0;
  refuses_more = more;
  first_refused = first;
}

long allocations() { return count; }
long live_allocations() { return live; }

}  // namespace penstock::failures
