/* What kernels and the library share: the layout of a file's value and of the slots by which kernels ask for bytes, and
 * the accesses to them. A part of penstock/gpu.cuh; programs include that.
 *
 * [experimental] All of this header; penstock.h says what that means.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_GPU_LAYOUT_CUH_
#define PENSTOCK_GPU_LAYOUT_CUH_

#if defined(__CUDACC__)
#define PENSTOCK_GPU_INLINE __device__ inline
#define PENSTOCK_GPU_CALL __device__ __noinline__
#define PENSTOCK_GPU_BOTH __host__ __device__ inline
#else
#define PENSTOCK_GPU_INLINE inline
#define PENSTOCK_GPU_CALL inline
#define PENSTOCK_GPU_BOTH inline
#include <sched.h>
#include <string.h>
#include <time.h>
#endif

namespace penstock::gpu {

using Word = unsigned;
using Long = unsigned long long;
static_assert(sizeof(Word) == 4 && sizeof(Long) == 8, "the layout that kernels share with the library");

enum class Error : int {
  none = 0,
  closed = 1,      // The file or its session was closed.
  timed_out = 2,   // The deadline passed before the library had answered.
  proxy_gone = 3,  // A thread of the library that answers has ended.
  ring_full = 4,   // The deadline passed before a slot was free.
  os = 5,          // The library's read failed; `detail` is an errno.
  refused = 6      // The library refused the read; `detail` is a penstock_code.
};

// ---- What kernels share with the library ----------------------------------------------------------------------------

constexpr Word kLayout = 5;  // Another number is another layout, which gpu.h refuses.

// What a kernel asks for, in pinned host memory that only kernels write: one store of it needs no fence, since each
// half tells its number, and the library waits until they agree.
struct alignas(16) Request {
  Long place;  // Offset << 8, and the lowest byte of the request's number.
  Long what;   // Kind << 62, number << 32, bytes.
};
constexpr Word kNumberMask = 0x3fffffffu;
constexpr Long kOffsetEnd = Long{1} << 56;
constexpr Word kRead = 0, kPrefetch = 1;   // Kinds.
constexpr Word kPrefetchBytes = 2u << 20;  // The most of one request.
PENSTOCK_GPU_BOTH Request request(Word kind, Word number, Long offset, Word bytes) {
  return {offset << 8 | (number & 0xff), Long{kind} << 62 | Long{number} << 32 | bytes};
}

// The library's answer to the request, in pinned host memory that only the library writes.
struct alignas(64) Slot {
  // Number of the newest request that was answered << 32, error << 24, the bytes that were read, and kInDevice where
  // they are in the slot's device memory.
  Long answer;
  int detail;
};
constexpr Word kInDevice = 1u << 23;
PENSTOCK_GPU_BOTH Long answer(Word number, Error error, Word moved) {
  return Long{number} << 32 | Long{static_cast<Word>(error)} << 24 | moved;
}
PENSTOCK_GPU_BOTH Word number_of(Long answer) { return static_cast<Word>(answer >> 32); }
PENSTOCK_GPU_BOTH Error error_of(Long answer) { return static_cast<Error>(answer >> 24 & 0xff); }
PENSTOCK_GPU_BOTH Word moved_of(Long answer) { return static_cast<Word>(answer & (kInDevice - 1)); }
PENSTOCK_GPU_BOTH bool is_in_device(Long answer) { return (answer & kInDevice) != 0; }

// In pinned host memory, written by the library. Loads of one place in host memory come one after the other, 0.95
// million a second from a whole GPU (one H200, 2026-11-29): so there are many of it, all alike, and groups look at
// different ones.
struct alignas(64) Control {
  Error over;       // Not none: no request is answered any more.
  Word generation;  // Raised before the file may change.
};
constexpr Word kControls = 2048;

// In device memory.
struct alignas(64) Seen {
  Long what;  // When a group looked at the generation, in 1024 ns of the GPU's clock << 16, and what it found.
};
constexpr Word kSeen = 256;  // Groups look at different ones.
struct alignas(64) Standing {
  Word generation;  // The one in which pages and cached blocks are the file's; 0: a kernel has seen another.
  Seen seen[kSeen];
};
// Where looks are shared (detail::shares_looks), one holds that long for other groups, too. The library waits longer,
// from the generation's change until it lets the file be changed, so that a clock of the GPU's that goes on by whole
// milliseconds does no harm.
constexpr Long kLookHoldsNs = 500'000, kChangeWaitsNs = 10'000'000;

// In device memory, written by kernels.
struct alignas(64) Counts {
  Long resident_reads, resident_bytes;
  Long ring_reads, ring_bytes;
  Long repeated;  // Reads of either other way that saw the generation change, and went by the ring again.
  Long failed;
  Long cached_reads, cached_bytes;
  Long fetched;  // Blocks that were not in the cache.
};
constexpr Word kCountParts = 64;  // So that blocks seldom count in the same place.

// Slots whose requests share a cache line, which one thread of the library looks at.
constexpr Word kSlotsOfLine = 4;

// Owners of slots, in device memory: (number of the request << 2) + one of these.
constexpr Word kFree = 0, kTaken = 1, kAbandoned = 2;

// Frames of the cache, in device memory, each for a block of slot_bytes of the file. A block is kept in one set, which
// its number tells. One line of the GPU's memory.
constexpr Word kWays = 15;
constexpr Word kBlockBits = 34, kGenerations = 64;  // A block of another generation is another block.
struct alignas(128) CacheSet {
  Long frames[kWays];  // (Generation << kBlockBits) + block + 1 << 24, how often it was claimed << 2, and a phase.
  Word used;           // A bit for each frame that was read since the clock's hand came by.
  Word hand;
};
constexpr Long kEmpty = 0;
constexpr Long kAsked = 1;    // Its block is wanted; nothing is written to it, so that others may claim it.
constexpr Long kFilling = 2;  // One group writes to it, and waits for nobody meanwhile.
constexpr Long kFull = 3;

struct Layout {
  Word struct_size, layout;
  Long size;
  const Long* extents;      // In device memory: where each extent of the file is registered, or 0; odd: it is gone.
  const Control* controls;              // kControls of them.
  const Slot* slots;
  Request* requests;             // Of each slot.
  const unsigned char* staging;  // In pinned host memory, slot_bytes for each slot.
  Word* owners;
  Counts* counts;
  Standing* standing;
  Long timeout_ns;
  unsigned short looks;  // 1: pages and cached blocks are the file's only while the generation stays what it is.
  unsigned short extent_shift;
  Word set_count;
  Word slot_count, slot_bytes;
  CacheSet* sets;                          // Null: there is no cache.
  unsigned char* frames;                   // slot_bytes for each frame of each set.
  const unsigned char* staging_in_device;  // As much as `staging`; null: there is none.
};
static_assert(sizeof(Layout) == 128, "as large as penstock_gpu_value");

// ---- Memory and time, of the GPU and of the host --------------------------------------------------------------------

namespace detail {

// With PENSTOCK_GPU_SHARED_LOOKS, groups rely on one another's looks for kLookHoldsNs by the GPU's clock. Experimental,
// and has run on no GPU: where that clock stands still, as some virtual GPU's might, kernels would read bytes from
// before a change for ever.
#if !defined(__CUDACC__)
inline bool shares_looks = false;  // A test's choice.
#elif defined(PENSTOCK_GPU_SHARED_LOOKS)
constexpr bool shares_looks = true;
#else
constexpr bool shares_looks = false;
#endif

struct alignas(16) Sixteen {
  Word words[4];
};

#if defined(__CUDACC__)
PENSTOCK_GPU_INLINE Word acquire(const Word* at) {
  Word value;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
PENSTOCK_GPU_INLINE Long acquire(const Long* at) {
  Long value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}
PENSTOCK_GPU_INLINE void release(Word* at, Word value) {
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
PENSTOCK_GPU_INLINE void post(Request* at, const Request& request) {
  asm volatile("st.relaxed.sys.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(request.place), "l"(request.what) : "memory");
}
// For other threads of the GPU, in device memory.
PENSTOCK_GPU_INLINE void release_here(Word* at, Word value) {
  asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
PENSTOCK_GPU_INLINE void release_here(Long* at, Long value) {
  asm volatile("st.release.gpu.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
PENSTOCK_GPU_INLINE Word acquire_here(const Word* at) {
  Word value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
PENSTOCK_GPU_INLINE bool exchange(Long* at, Long expected, Long wanted) {
  Long found;
  asm volatile("atom.acq_rel.gpu.cas.b64 %0, [%1], %2, %3;"
               : "=l"(found)
               : "l"(at), "l"(expected), "l"(wanted)
               : "memory");
  return found == expected;
}
PENSTOCK_GPU_INLINE void set_bits(Word* at, Word bits) {
  asm volatile("red.relaxed.gpu.or.b32 [%0], %1;" ::"l"(at), "r"(bits) : "memory");
}
PENSTOCK_GPU_INLINE void clear_bits(Word* at, Word bits) {
  asm volatile("red.relaxed.gpu.and.b32 [%0], %1;" ::"l"(at), "r"(~bits) : "memory");
}
PENSTOCK_GPU_INLINE Long look(const Long* at) {
  Long value;
  asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}
// Of this GPU's threads: what each wrote before, or what each reads behind.
PENSTOCK_GPU_INLINE void fence_here() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
// Of two threads that each write, fence and look at what the other writes, one at least sees it.
PENSTOCK_GPU_INLINE void fence_both() { asm volatile("fence.sc.gpu;" ::: "memory"); }
PENSTOCK_GPU_INLINE bool exchange(Word* at, Word expected, Word wanted) {
  Word found;
  asm volatile("atom.acq_rel.gpu.cas.b32 %0, [%1], %2, %3;"
               : "=r"(found)
               : "l"(at), "r"(expected), "r"(wanted)
               : "memory");
  return found == expected;
}
PENSTOCK_GPU_INLINE void add(Long* at, Long value) {
  asm volatile("red.relaxed.gpu.add.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
PENSTOCK_GPU_INLINE Word look(const Word* at) {
  Word value;
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
PENSTOCK_GPU_INLINE void fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
PENSTOCK_GPU_INLINE Long now_ns() {
  Long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
  return time;
}
PENSTOCK_GPU_INLINE void pause(Word nanoseconds) { asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds) : "memory"); }
PENSTOCK_GPU_INLINE Word lane_number() {
  const Word thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  return (blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z)) * (blockDim.x * blockDim.y * blockDim.z) +
         thread;
}
// Loads of host memory, past all caches.
PENSTOCK_GPU_INLINE void load(Sixteen& to, const Sixteen* from) {
  asm volatile("ld.relaxed.sys.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to.words[0]), "=r"(to.words[1]), "=r"(to.words[2]), "=r"(to.words[3])
               : "l"(from));
}
PENSTOCK_GPU_INLINE void load(Word& to, const Word* from) {
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(to) : "l"(from));
}
PENSTOCK_GPU_INLINE void load(unsigned char& to, const unsigned char* from) {
  Word value;
  asm volatile("ld.relaxed.sys.u8 %0, [%1];" : "=r"(value) : "l"(from));
  to = static_cast<unsigned char>(value);
}
// Stores that other groups may read meanwhile.
PENSTOCK_GPU_INLINE void store(Sixteen* to, const Sixteen& from) {
  asm volatile("st.relaxed.sys.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(from.words[0]), "r"(from.words[1]),
               "r"(from.words[2]), "r"(from.words[3]));
}
PENSTOCK_GPU_INLINE void store(Word* to, Word from) {
  asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(to), "r"(from));
}
PENSTOCK_GPU_INLINE void store(unsigned char* to, unsigned char from) {
  asm volatile("st.relaxed.sys.u8 [%0], %1;" ::"l"(to), "r"(Word{from}));
}
#else
// Where host memory stands in for a GPU: reads registered pages as that GPU would, and returns false for other memory.
inline bool (*fetch_pages)(void* to, const void* from, unsigned long size) = nullptr;
// Where a test's scheduler lets one thread run at a time: gives way to another, and tells the time.
inline void (*give_way)() = nullptr;
inline Long (*scheduled_time)() = nullptr;
inline void step() {
  if (give_way != nullptr) give_way();
}
inline Word acquire(const Word* at) {
  step();
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
inline Long acquire(const Long* at) {
  step();
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
inline void release(Word* at, Word value) {
  step();
  __atomic_store_n(at, value, __ATOMIC_RELEASE);
}
inline void post(Request* at, const Request& request) {
  __atomic_store_n(&at->place, request.place, __ATOMIC_RELAXED);
  __atomic_store_n(&at->what, request.what, __ATOMIC_RELEASE);
}
inline Word acquire_here(const Word* at) { return acquire(at); }
inline void release_here(Word* at, Word value) { release(at, value); }
inline void release_here(Long* at, Long value) {
  step();
  __atomic_store_n(at, value, __ATOMIC_RELEASE);
}
inline bool exchange(Long* at, Long expected, Long wanted) {
  step();
  return __atomic_compare_exchange_n(at, &expected, wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
inline void set_bits(Word* at, Word bits) { __atomic_fetch_or(at, bits, __ATOMIC_RELAXED); }
inline void clear_bits(Word* at, Word bits) { __atomic_fetch_and(at, ~bits, __ATOMIC_RELAXED); }
inline Long look(const Long* at) {
  step();
  return __atomic_load_n(at, __ATOMIC_RELAXED);
}
inline void fence_here() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
inline void fence_both() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline bool exchange(Word* at, Word expected, Word wanted) {
  step();
  return __atomic_compare_exchange_n(at, &expected, wanted, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
inline void add(Long* at, Long value) { __atomic_fetch_add(at, value, __ATOMIC_RELAXED); }
inline Word look(const Word* at) {
  step();
  return __atomic_load_n(at, __ATOMIC_RELAXED);
}
inline void fence() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
inline Long now_ns() {
  if (scheduled_time != nullptr) return scheduled_time();
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<Long>(now.tv_sec) * 1000000000u + static_cast<Long>(now.tv_nsec);
}
inline void pause(Word) { give_way != nullptr ? give_way() : void(::sched_yield()); }
inline Word lane_number() {
  static Word last = 0;
  thread_local const Word own = __atomic_fetch_add(&last, 1u, __ATOMIC_RELAXED);
  return own;
}
inline void load_plain(unsigned char& to, const unsigned char* from) { to = __atomic_load_n(from, __ATOMIC_RELAXED); }
inline void load_plain(Word& to, const Word* from) { to = look(from); }
inline void load_plain(Sixteen& to, const Sixteen* from) {
  for (Word i = 0; i < 4; ++i) to.words[i] = look(&from->words[i]);
}
template <typename Unit>
void load(Unit& to, const Unit* from) {
  if (fetch_pages == nullptr || !fetch_pages(&to, from, sizeof to)) load_plain(to, from);
}
inline void store(unsigned char* to, unsigned char from) { __atomic_store_n(to, from, __ATOMIC_RELAXED); }
inline void store(Word* to, Word from) { __atomic_store_n(to, from, __ATOMIC_RELAXED); }
inline void store(Sixteen* to, const Sixteen& from) {
  for (Word i = 0; i < 4; ++i) store(&to->words[i], from.words[i]);
}
#endif

}  // namespace detail
}  // namespace penstock::gpu

#endif /* PENSTOCK_GPU_LAYOUT_CUH_ */
