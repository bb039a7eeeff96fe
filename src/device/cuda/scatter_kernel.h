// SPDX-License-Identifier: Apache-2.0

// The kernel that makes many small copies at once, as PTX: the driver compiles it for any GPU of compute capability 5.2
// and later. The list of copies travels with the launch, so the caller need not keep it. Bytes may lie anywhere:
// sixteen are copied at a time if both ends of a copy are equally far from a multiple of sixteen, otherwise one at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::core {

struct ScatterPiece {
  std::uint64_t to;
  std::uint64_t from;
  std::uint64_t size;
};

// The kernel's first argument. A launch may have 4096 bytes of them.
struct ScatterList {
  static constexpr std::size_t kPiecesMax = 128;
  ScatterPiece pieces[kPiecesMax];
};
static_assert(sizeof(ScatterList) == 3072);

// The kernel's second argument: the last block writes `value` to `word` once all bytes are visible to a reader of the
// word. Blocks count themselves in `counter`, in device memory, which is zero before and after. Without a word nothing
// is written.
struct ScatterEnd {
  std::uint64_t word = 0;
  std::uint64_t counter = 0;
  std::uint64_t value = 0;
};
static_assert(sizeof(ScatterEnd) == 24);

// Grid: x counts the pieces, y the blocks for each. A thread of a block moves sixteen bytes at a time.
inline constexpr unsigned kScatterThreads = 256;
inline constexpr std::size_t kScatterBytesOfBlock = 16 * kScatterThreads;

inline constexpr char kScatterKernelName[] = "penstock_scatter";
inline constexpr char kScatterKernel[] = R"ptx(
.version 7.0
.target sm_52
.address_size 64

.visible .entry penstock_scatter(.param .align 8 .b8 pieces[3072],  // {to, from, size}[128]
                                 .param .align 8 .b8 end[24])       // {word, counter, value}
{
  .reg .pred %p<8>;
  .reg .b16 %byte;
  .reg .b32 %r<4>;
  .reg .b32 %w<4>;
  .reg .b64 %piece, %to, %from, %size, %first, %step, %head, %count, %i, %a, %b;
  mov.u32 %r0, %ctaid.x;
  mov.u64 %piece, pieces;
  mad.wide.u32 %piece, %r0, 24, %piece;
  ld.param.u64 %to, [%piece];
  ld.param.u64 %from, [%piece+8];
  ld.param.u64 %size, [%piece+16];
  cvta.to.global.u64 %to, %to;
  cvta.to.global.u64 %from, %from;
  mov.u32 %r0, %ctaid.y;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %nctaid.y;
  mad.lo.u32 %r0, %r0, %r1, %r2;
  mul.lo.u32 %r3, %r3, %r1;
  cvt.u64.u32 %first, %r0;           // number of this thread among those of the piece
  cvt.u64.u32 %step, %r3;            // how many they are
  mov.u64 %head, %size;              // bytes one by one: all, where the two ends do not align together
  xor.b64 %a, %to, %from;
  and.b64 %a, %a, 15;
  setp.ne.u64 %p0, %a, 0;
  @%p0 bra HEAD;
  neg.s64 %head, %to;
  and.b64 %head, %head, 15;
  min.u64 %head, %head, %size;
HEAD:
  mov.u64 %i, %first;
HEAD_LOOP:
  setp.ge.u64 %p1, %i, %head;
  @%p1 bra MIDDLE;
  add.u64 %a, %from, %i;
  add.u64 %b, %to, %i;
  ld.global.u8 %byte, [%a];
  st.global.u8 [%b], %byte;
  add.u64 %i, %i, %step;
  bra HEAD_LOOP;
MIDDLE:
  add.u64 %from, %from, %head;
  add.u64 %to, %to, %head;
  sub.u64 %size, %size, %head;
  shr.u64 %count, %size, 4;          // sixteens
  mov.u64 %i, %first;
MIDDLE_LOOP:
  setp.ge.u64 %p2, %i, %count;
  @%p2 bra TAIL;
  shl.b64 %b, %i, 4;
  add.u64 %a, %from, %b;
  add.u64 %b, %to, %b;
  ld.global.v4.u32 {%w0, %w1, %w2, %w3}, [%a];
  st.global.v4.u32 [%b], {%w0, %w1, %w2, %w3};
  add.u64 %i, %i, %step;
  bra MIDDLE_LOOP;
TAIL:
  and.b64 %head, %size, 15;
  setp.ge.u64 %p3, %first, %head;
  @%p3 bra DONE;
  shl.b64 %count, %count, 4;
  add.u64 %count, %count, %first;
  add.u64 %a, %from, %count;
  add.u64 %b, %to, %count;
  ld.global.u8 %byte, [%a];
  st.global.u8 [%b], %byte;
DONE:
  ld.param.u64 %to, [end];
  setp.eq.u64 %p4, %to, 0;
  @%p4 bra OUT;
  bar.sync 0;
  setp.ne.u32 %p5, %r2, 0;
  @%p5 bra OUT;
  ld.param.u64 %from, [end+8];
  ld.param.u64 %size, [end+16];
  cvta.to.global.u64 %to, %to;
  cvta.to.global.u64 %from, %from;
  mov.u32 %r0, %nctaid.x;
  mov.u32 %r1, %nctaid.y;
  mul.lo.u32 %r0, %r0, %r1;
  sub.u32 %r0, %r0, 1;
  membar.sys;                        // this block's bytes, before it counts itself
  atom.global.inc.u32 %r1, [%from], %r0;  // back to zero behind the last one
  setp.ne.u32 %p6, %r1, %r0;
  @%p6 bra OUT;
  membar.sys;                        // all blocks' bytes, before the word
  cvt.u32.u64 %r3, %size;
  st.volatile.global.u32 [%to], %r3;
OUT:
  ret;
}
)ptx";

}  // namespace penstock::core
