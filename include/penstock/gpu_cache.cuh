/* The cache of a file's blocks in device memory: which frame has a block, and who may write to a frame. A part of
 * penstock/gpu.cuh; programs include that.
 *
 * A frame's word says which block it has, how often the frame was claimed, and a phase. Who reads a frame looks at the
 * word before and after: where it is the same, nobody has written to the frame meanwhile. So readers are not counted,
 * and nobody waits for them. Who wants a block that no frame has claims one by the clock, asks for the bytes, and
 * writes them if it has the frame still. Others may wait for that a while, and then read by themselves: nobody's
 * progress hangs on another group.
 *
 * [experimental] All of this header; penstock.h says what that means.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef PENSTOCK_GPU_CACHE_CUH_
#define PENSTOCK_GPU_CACHE_CUH_

#include "penstock/gpu_layout.cuh"

namespace penstock::gpu::detail {

// A frame, and the word that it had.
struct Frame {
  Long number = 0;
  Long word = 0;  // 0: no frame.
};

// A group's leader alone calls it.
class Cache {
 public:
  PENSTOCK_GPU_INLINE explicit Cache(const Layout& shared) : shared_(shared) {}

  // The block's frame: full, being filled, or none. Bytes of a full one may be loaded behind it.
  PENSTOCK_GPU_INLINE Frame find(Long block) const {
    const Long set = set_of(block);
    const Word used = look(&shared_.sets[set].used);
    Frame found;
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (Word way = 0; way < kWays; ++way) {
      const Long word = look(&shared_.sets[set].frames[way]);
      if (is_of(word, block) && (found.word == 0 || phase_of(word) == kFull)) found = {set * kWays + way, word};
    }
    if (phase_of(found.word) != kFull) return found;
    const Word bit = 1u << found.number % kWays;
    if ((used & bit) == 0) set_bits(&shared_.sets[set].used, bit);
    fence_here();
    return found;
  }

  // Claims a frame for the block, and returns it as asked for. None if all of the set are being filled, or if another
  // group was at it, too: look again.
  PENSTOCK_GPU_INLINE Frame claim(Long block) const {
    const Long set = set_of(block);
    CacheSet& there = shared_.sets[set];
    const Word used = look(&there.used), hand = look(&there.hand) % kWays;
    Word passed = 0;
    for (Word step = 0; step < 2 * kWays; ++step) {
      const Word way = (hand + step) % kWays;
      const Long word = look(&there.frames[way]), phase = phase_of(word);
      const bool is_first_round = step < kWays;
      if (phase == kFilling || (phase == kAsked && is_first_round)) continue;
      if (phase == kFull && is_first_round && (used >> way & 1) != 0) {
        passed |= 1u << way;
        continue;
      }
      const Frame claimed{set * kWays + way, (block + 1) << 24 | ((word + 4) & 0xfffffc) | kAsked};
      if (!exchange(&there.frames[way], word, claimed.word)) return {};
      clear_bits(&there.used, passed | 1u << way);
      store(&there.hand, way + 1);
      if (is_alone(block, claimed)) return claimed;
      drop(claimed);
      return {};
    }
    return {};
  }

  // Turns a frame that was asked for into one that this group writes to. False if another has claimed it.
  PENSTOCK_GPU_INLINE bool begin_filling(Frame& frame) const {
    const Long wanted = (frame.word & ~Long{3}) | kFilling;
    if (!exchange(word_of(frame), frame.word, wanted)) return false;
    frame.word = wanted;
    fence_here();  // Whoever loads a byte that is written from now on sees the new word behind it.
    return true;
  }
  // Behind the group's stores.
  PENSTOCK_GPU_INLINE void end_filling(const Frame& frame) const { release_here(word_of(frame), frame.word | kFull); }
  // Gives up a frame that is asked for or being filled.
  PENSTOCK_GPU_INLINE void drop(const Frame& frame) const {
    (void)exchange(word_of(frame), frame.word, frame.word & 0xfffffc);
  }
  // Behind loads of its bytes, and a fence.
  PENSTOCK_GPU_INLINE bool is_same(const Frame& frame) const { return look(word_of(frame)) == frame.word; }

  static PENSTOCK_GPU_INLINE Long phase_of(Long word) { return word & 3; }

 private:
  static PENSTOCK_GPU_INLINE bool is_of(Long word, Long block) { return word >> 24 == block + 1; }
  PENSTOCK_GPU_INLINE Long set_of(Long block) const {
    return ((block * 0x9e3779b97f4a7c15ull) >> 32) * shared_.set_count >> 32;
  }
  PENSTOCK_GPU_INLINE Long* word_of(const Frame& frame) const {
    return &shared_.sets[frame.number / kWays].frames[frame.number % kWays];
  }
  // Of groups that claim frames for one block at the same time, all but one see the others, or all do.
  PENSTOCK_GPU_INLINE bool is_alone(Long block, const Frame& own) const {
    fence_both();
    const Long set = own.number / kWays;
    for (Word way = 0; way < kWays; ++way) {
      const Long word = look(&shared_.sets[set].frames[way]);
      if (way != own.number % kWays && is_of(word, block)) return false;
    }
    return true;
  }

  const Layout& shared_;
};

}  // namespace penstock::gpu::detail

#endif /* PENSTOCK_GPU_CACHE_CUH_ */
