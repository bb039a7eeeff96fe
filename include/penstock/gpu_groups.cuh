/* Groups of threads that read together, and how they copy. A part of penstock/gpu.cuh; programs include that.
 *
 * [experimental] All of this header; penstock.h says what that means.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_GPU_GROUPS_CUH_
#define PENSTOCK_GPU_GROUPS_CUH_

#include "penstock/gpu_layout.cuh"

namespace penstock::gpu {

namespace detail {

// Copies whole units, and returns their bytes. Several loads of each thread are under way at once. `kIsShared`: others
// may read meanwhile what is written.
template <bool kIsShared, typename Unit, typename Group>
PENSTOCK_GPU_INLINE Long copy_units(const Group& group, unsigned char* to, const unsigned char* from, Long bytes) {
  constexpr Word kAtOnce = sizeof(Unit) == 16 ? 8 : sizeof(Unit) == 4 ? 4 : 1;
  const Long count = bytes / sizeof(Unit);
  const Word step = static_cast<Word>(group.size());
  for (Long at = group.thread_rank(); at < count; at += Long{step} * kAtOnce) {
    Unit units[kAtOnce];
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (Word i = 0; i < kAtOnce; ++i) {
      if (at + Long{step} * i < count) load(units[i], reinterpret_cast<const Unit*>(from) + at + Long{step} * i);
    }
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (Word i = 0; i < kAtOnce; ++i) {
      if (at + Long{step} * i >= count) continue;
      if (kIsShared) store(reinterpret_cast<Unit*>(to) + at + Long{step} * i, units[i]);
      else reinterpret_cast<Unit*>(to)[at + Long{step} * i] = units[i];
    }
  }
  return count * sizeof(Unit);
}

// In units of 16 bytes or 4 as far as both places allow it.
template <bool kIsShared = false, typename Group>
PENSTOCK_GPU_INLINE void copy(const Group& group, unsigned char* to, const unsigned char* from, Long bytes) {
  const Long apart = reinterpret_cast<Long>(to) ^ reinterpret_cast<Long>(from);
  const Long unit = apart % 16 == 0 ? 16 : apart % 4 == 0 ? 4 : 1;
  Long done = (0 - reinterpret_cast<Long>(from)) & (unit - 1);
  if (done > bytes) done = bytes;
  copy_units<kIsShared, unsigned char>(group, to, from, done);
  if (unit == 16) done += copy_units<kIsShared, Sixteen>(group, to + done, from + done, bytes - done);
  if (unit == 4) done += copy_units<kIsShared, Word>(group, to + done, from + done, bytes - done);
  copy_units<kIsShared, unsigned char>(group, to + done, from + done, bytes - done);
}

}  // namespace detail

// ---- Groups ---------------------------------------------------------------------------------------------------------

struct Thread {
  PENSTOCK_GPU_INLINE Word thread_rank() const { return 0; }
  PENSTOCK_GPU_INLINE Word size() const { return 1; }
  PENSTOCK_GPU_INLINE void sync() const {}
  template <typename Value>
  PENSTOCK_GPU_INLINE Value shfl(Value value, Word) const {
    return value;
  }
};

#if defined(__CUDACC__)
struct Warp {
  PENSTOCK_GPU_INLINE Word thread_rank() const {
    Word lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
  }
  PENSTOCK_GPU_INLINE Word size() const { return 32; }
  PENSTOCK_GPU_INLINE void sync() const { __syncwarp(); }
  template <typename Value>
  PENSTOCK_GPU_INLINE Value shfl(Value value, Word from) const {
    return __shfl_sync(0xffffffffu, value, from);
  }
};

struct Block {
  PENSTOCK_GPU_INLINE Word thread_rank() const {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
  PENSTOCK_GPU_INLINE Word size() const { return blockDim.x * blockDim.y * blockDim.z; }
  PENSTOCK_GPU_INLINE void sync() const { __syncthreads(); }
  template <typename Value>
  PENSTOCK_GPU_INLINE Value shfl(Value value, Word from) const {
    __shared__ Value shared;
    __syncthreads();
    if (thread_rank() == from) shared = value;
    __syncthreads();
    return shared;
  }
};
#endif

}  // namespace penstock::gpu

#endif /* PENSTOCK_GPU_GROUPS_CUH_ */
