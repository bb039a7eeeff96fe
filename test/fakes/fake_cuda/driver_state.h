// SPDX-License-Identifier: Apache-2.0

// A CUDA driver without a GPU: the calls of device/cuda/cuda_api.h and those that tests make beside it, over plain
// memory, as a shared library to be opened in place of libcuda.so.1. Nothing of it is used by the library itself.
//
// Streams work like a GPU's: in order, with events between them, host functions on a thread of the driver's, waiting
// for words, and default streams with their own rules. It is stricter than the real driver:
// - a copy of a stream lands only when its event or stream is waited for, or one for each query, unless something
//   behind it makes progress by itself: host functions, waits, kernels and written words do;
// - a stream or event is used with its own context current, and copies to memory of its own GPU only;
// - using one whose context is gone aborts once another context was made, where the real driver crashes;
// - while a graph is captured, what the real driver refuses is refused, and spoils the capture;
// - what streams do in memory that its GPU does not reach, or not any more, aborts, where a real context is lost;
//   cuMemFree waits for streams, and cuMemUnmap does not;
// - host functions may not call the driver, and as of CUDA 11 run one at a time;
// - with several streams held, copies and kernels of all others are held up, as was measured on an H200 machine.
// Built with PENSTOCK_FAKE_CUDA_11 it lacks what drivers before CUDA 12 lack. The variable PENSTOCK_FAKE_CUDA_INIT
// gives the result of cuInit; PENSTOCK_FAKE_CUDA_WORDS=0 refuses to wait for words; fake_cuda_shut_down() is what the
// end of the process does to a real driver; fake_cuda_fail_at(n) lets the nth piece of work from now on be refused;
// fake_cuda_short_at(n) lets the nth of those and of other calls that take memory find none;
// fake_cuda_refuse_modules(1) lets no module load; fake_cuda_scatters() counts kernels for many small copies,
// fake_cuda_checksums() those for checksums, and fake_cuda_lookups() the questions about addresses;
// fake_cuda_virtual_things() counts what cuMemCreate, cuMemAddressReserve and cuMemMap made and nobody has undone. In
// emulated machines exported_memory.cc has it export real dma-bufs.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "device/cuda/cuda_api.h"
#include "device/cuda/scatter_kernel.h"

namespace penstock::core::cuda {

struct CUctx_st {
  unsigned long long id;
  int device;
  bool alive;
  unsigned users;  // Of a primary one.
};

// The context of a stream or event.
struct Owned {
  CUcontext context = nullptr;
  unsigned long long id = 0;
};

struct Work {
  enum class Kind { nothing, copy, fill, scatter, checksum, call, wait, write, kernel };
  Kind kind = Kind::nothing;
  CUdeviceptr to = 0;
  CUdeviceptr from = 0;
  std::size_t size = 0;
  std::uint32_t value = 0;
  bool to_device = false;
  void (*function)(void*) = nullptr;
  std::vector<ScatterPiece> pieces = {};
  ScatterEnd end = {};
  std::vector<std::pair<CUstream, std::size_t>> after = {};  // Streams, and how far they must be.

  bool goes_by_itself() const { return kind >= Kind::call; }
  bool is_kernel() const { return kind == Kind::kernel || kind == Kind::scatter || kind == Kind::checksum; }
};

struct CUstream_st {
  Owned owner;
  bool blocking = true;  // Synchronizes with the default stream of the context.
  int priority = 0;
  bool capturing = false;
  bool calling = false;  // Its first work is a call that was handed out.
  std::deque<Work> pending = {};
  std::size_t landed = 0;

  std::size_t end() const { return landed + pending.size(); }
};

struct CUevent_st {
  Owned owner;
  CUstream stream = nullptr;
  std::size_t target = 0;
};

}  // namespace penstock::core::cuda

namespace penstock::fake_cuda {

using namespace penstock::core::cuda;
using core::kScatterKernelName;
using core::ScatterList;
using core::ScatterPiece;

struct Block {
  std::size_t size;
  CUcontext context;
  int device;
  unsigned type;
  unsigned managed;
  std::size_t mapped;
  unsigned long long handle = 0;  // Of cuMemCreate, where such memory is mapped.
  bool is_pooled = false;
  unsigned long long number = 0;  // No other allocation has or had it.
};

inline constexpr int kDevices = 2;
inline constexpr CUresult kNotInitialized = 3, kNotFound = 500, kNotPermitted = 800, kNotSupported = 801,
                          kCapturing = 900, kCaptureSpoiled = 901, kAlreadyRegistered = 712, kNotRegistered = 713;
inline constexpr int kCaptureGlobal = 0, kCaptureOfThread = 1;

struct DriverState {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<int> process{0};  // Where cuInit was called: a forked child has no driver.
  CUctx_st contexts[48] = {};   // The first of them are the primary ones.
  unsigned long long last_id = 0;
  std::map<CUdeviceptr, Block> blocks;
  std::deque<CUstream_st> streams;  // Never shrink: a stale handle must stay readable for us to notice it.
  std::deque<CUevent_st> events;
  std::map<std::pair<CUcontext, unsigned long long>, CUstream> legacy_streams;
  std::deque<CUstream> calls;  // Handed out, oldest first.
  unsigned call_threads = 0, busy_call_threads = 0;
  bool threads_started = false;
  bool down = false;
  unsigned captures = 0;
  int capture_mode = 0;
  bool spoiled = false;
  int fail_at = 0;
  int short_at = 0;
  bool modules_refused = false;
  int scatters = 0;        // Launches of the kernel for many small copies.
  int checksums = 0;       // And of the one that makes checksums.
  int lookups = 0;         // Calls that ask for the facts of an address.
  int virtual_things = 0;  // Allocations, reservations and mappings of cuMemCreate and its kin that are alive.
};

// What cuMemCreate gives: the GPU's number, and whether it may be exported.
inline constexpr unsigned long long kCreated = 1ull << 31, kExportable = 1ull << 32, kRdmaCapable = 1ull << 33;

DriverState& driver();
extern thread_local std::vector<CUcontext> stack;
extern thread_local int capture_mode;
extern thread_local bool in_call;

inline CUcontext current() { return stack.empty() ? nullptr : stack.back(); }
CUresult enter();  // The result of every call without a driver. Call it with the lock held.
CUresult check(const Owned& owner);
CUresult outside_capture();
CUresult need_context();
inline CUresult need_memory() {
  return driver().short_at > 0 && --driver().short_at == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
inline void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
inline CUdeviceptr address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }
std::map<CUdeviceptr, Block>::iterator find(CUdeviceptr address);
// Allocates whole pages, so that access to freed memory faults.
inline void* take_pages(std::size_t size) {
  void* const pages = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}
inline void give_back_pages(CUdeviceptr memory, std::size_t size) { ::munmap(pointer(memory), size); }

// ---- Memory of which real dma-bufs can be made, if the environment asks for it. All with the lock held. ----

bool is_memory_exported();
void* take_exported(std::size_t size);                    // Null if there is no room.
bool give_back_exported(CUdeviceptr memory);              // False if it is no such memory.
int export_memory(CUdeviceptr memory, std::size_t size);  // A dma-buf, or -1.

// ---- Streams. All with the lock held. ----

// The stream that a handle means here; null with the reason in `result`.
CUstream resolve(CUstream handle, CUresult& result);
CUresult enqueue(CUstream handle, Work work);
bool step(CUstream stream);  // Does the first piece of work; false where that cannot be done now.
void drive(CUstream stream, std::size_t target, std::unique_lock<std::mutex>& lock);
void drive_all(CUcontext context, std::unique_lock<std::mutex>& lock);
bool is_held(const CUstream_st& stream);
void forget_context(CUcontext context, std::unique_lock<std::mutex>& lock);

}  // namespace penstock::fake_cuda

#define CALL(name, ...) extern "C" [[gnu::visibility("default")]] CUresult name(__VA_ARGS__)
#define ENTER                                             \
  [[maybe_unused]] std::unique_lock lock(driver().mutex); \
  if (const CUresult refused = enter()) return refused
#define REQUIRE(call) \
  if (const CUresult required = (call)) return required
