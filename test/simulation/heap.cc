// SPDX-License-Identifier: Apache-2.0

#include "simulation/heap.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "libc_heap.h"
#include "simulation/scheduler.h"
#include "simulation/steady_heap.h"

namespace {

constexpr std::size_t kPage = 4096, kUnit = 16;
constexpr std::size_t kPages = std::size_t{1} << 24;
constexpr std::uintptr_t kBegin = 0x1000'0000'0000;  // The same in each run and on each machine: nothing else is there.
constexpr unsigned char kBehind = 0xab, kFresh = 0xcd;

struct Allocation {
  std::size_t size = 0, pages = 0;
  unsigned char* begin = nullptr;
  unsigned char* first_page() const { return begin - reinterpret_cast<std::uintptr_t>(begin) % kPage; }
  std::size_t bytes_of_pages() const { return pages * kPage; }
};

penstock::simulation::SteadyHeap steady;
bool is_steady = false;
Allocation* allocations = nullptr;  // By the page that each begins in; null: the heap is not guarded.
std::atomic<std::size_t> pages_given{0};
decltype(&::syscall) really_call = nullptr;  // Found before: looking for it may allocate.

// Before the run begins.
bool is_of_libc() { return !is_steady && allocations == nullptr; }

std::size_t number_of(const void* memory) { return (reinterpret_cast<std::uintptr_t>(memory) - kBegin) / kPage; }
bool is_guarded(const void* memory) {
  return allocations != nullptr && reinterpret_cast<std::uintptr_t>(memory) >= kBegin && number_of(memory) < kPages;
}
bool allow(const Allocation& one, int access) {
  return really_call(SYS_mprotect, one.first_page(), one.bytes_of_pages(), static_cast<long>(access)) == 0;
}

[[noreturn]] void blame(const char* what) { penstock::simulation::scheduler().fail(what); }

// It ends where its last page does, so far as its alignment allows.
void* allocate_guarded(std::size_t alignment, std::size_t size) {
  if (size > kPages * kPage / 2) return errno = ENOMEM, nullptr;
  const std::size_t rounded = std::max((size + kUnit - 1) / kUnit, std::size_t{1}) * kUnit;
  const std::size_t pages = (rounded + kPage - 1) / kPage, skipped = alignment / kPage;
  const std::size_t first = pages_given.fetch_add(pages + skipped + 1);  // The last one is never there.
  if (first + pages + skipped >= kPages) blame("the guarded heap is full");
  const std::uintptr_t last = kBegin + (first + skipped + pages) * kPage - rounded;
  const Allocation made{size, pages, reinterpret_cast<unsigned char*>(last / alignment * alignment)};
  if (!allow(made, PROT_READ | PROT_WRITE)) blame("the kernel has no more memory for the guarded heap");
  allocations[number_of(made.begin)] = made;
  std::memset(made.begin, kFresh, size);
  std::fill(made.begin + size, made.first_page() + made.bytes_of_pages(), kBehind);
  return made.begin;
}

Allocation& allocation_of(void* memory) {
  Allocation& known = allocations[number_of(memory)];
  if (known.begin != memory) blame("memory is freed that is not allocated, or freed twice");
  return known;
}

void free_guarded(void* memory) {
  Allocation& known = allocation_of(memory);
  const auto is_written = [](unsigned char byte) { return byte != kBehind; };
  if (std::any_of(known.begin + known.size, known.first_page() + known.bytes_of_pages(), is_written))
    blame("memory is written behind the end of an allocation");
  const int before = errno;
  if (!allow(known, PROT_NONE)) blame("the kernel does not guard what is freed");
  errno = before;
  known = {};
}

void* allocate(std::size_t alignment, std::size_t size) {
  return is_steady ? steady.allocate(alignment, size) : allocate_guarded(alignment, size);
}

std::size_t size_of(void* memory) { return is_guarded(memory) ? allocation_of(memory).size : steady.size_of(memory); }

void guard() {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const table = ::mmap(nullptr, kPages * sizeof(Allocation), PROT_READ | PROT_WRITE, kFlags, -1, 0);
  void* const pages =
      ::mmap(reinterpret_cast<void*>(kBegin), kPages * kPage, PROT_NONE, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
  if (table == MAP_FAILED || pages == MAP_FAILED) blame("there is no room for the guarded heap");
  really_call = REAL(syscall);
  allocations = static_cast<Allocation*>(table);
}

}  // namespace

void penstock::simulation::begin_heap(bool is_guarded) {
  if (is_guarded) return guard();
  if (!steady.begin()) blame("there is no room for the heap");
  is_steady = true;
}

extern "C" {

void* malloc(std::size_t size) { return is_of_libc() ? __libc_malloc(size) : allocate(kUnit, size); }
void* calloc(std::size_t count, std::size_t size) {
  if (is_of_libc()) return __libc_calloc(count, size);
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return errno = ENOMEM, nullptr;
  void* const memory = allocate(kUnit, bytes);
  return memory == nullptr ? nullptr : std::memset(memory, 0, bytes);
}
void free(void* memory) {
  if (is_guarded(memory)) free_guarded(memory);
  else if (steady.owns(memory)) steady.free(memory);
  else __libc_free(memory);
}
void* realloc(void* memory, std::size_t size) {
  if (memory == nullptr) return malloc(size);
  if (!is_guarded(memory) && !steady.owns(memory)) return __libc_realloc(memory, size);
  if (size == 0) return free(memory), nullptr;
  void* const moved = allocate(kUnit, size);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, memory, std::min(size, size_of(memory)));
  free(memory);
  return moved;
}
void* memalign(std::size_t alignment, std::size_t size) {
  return is_of_libc() ? __libc_memalign(alignment, size) : allocate(std::max(alignment, kUnit), size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  void* const memory = memalign(alignment, size);
  if (memory != nullptr) *out = memory;
  return memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"
