// SPDX-License-Identifier: Apache-2.0

// The kernel that copies on held streams, as PTX: the driver compiles it for whatever GPU there is, of compute
// capability 5.2 and later. It takes the device address of a StreamCopy, with any number of bytes (also 0) at any
// address. One thread of a block reads the StreamCopy for all, by plain loads: kernels that begin after the stream was
// released see what the CPU wrote before. Volatile loads from host memory are serialized over all blocks: 2.7 us a
// block, 100 us for the 32 blocks of a mebibyte (one H100, 2026-11-25).
#pragma once

namespace penstock::core {

inline constexpr char kCopyKernelName[] = "penstock_copy";
inline constexpr char kCopyKernel[] = R"ptx(
.version 7.0
.target sm_52
.address_size 64

.shared .align 8 .b64 what[3];

.visible .entry penstock_copy(.param .u64 descriptor)  // {to, from, size}, read when the copy begins.
{
  .reg .pred %p<8>;
  .reg .b32 %r<8>;
  .reg .b32 %v<4>;
  .reg .b32 %w<16>;
  .reg .b64 %rd<24>;
  .reg .b16 %h<2>;
  mov.u32 %r2, %tid.x;
  setp.ne.u32 %p4, %r2, 0;
  @%p4 bra TOLD;
  ld.param.u64 %rd3, [descriptor];
  cvta.to.global.u64 %rd3, %rd3;
  ld.global.v2.u64 {%rd0, %rd1}, [%rd3];
  ld.global.u64 %rd2, [%rd3+16];
  st.shared.u64 [what], %rd0;
  st.shared.u64 [what+8], %rd1;
  st.shared.u64 [what+16], %rd2;
TOLD:
  bar.sync 0;
  ld.shared.u64 %rd0, [what];
  ld.shared.u64 %rd1, [what+8];
  ld.shared.u64 %rd2, [what+16];
  cvta.to.global.u64 %rd0, %rd0;
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r0, %ctaid.x;
  mov.u32 %r1, %ntid.x;
  mov.u32 %r3, %nctaid.x;
  mad.wide.u32 %rd3, %r0, %r1, 0;
  cvt.u64.u32 %rd4, %r2;
  add.u64 %rd3, %rd3, %rd4;          // index of this thread
  mul.wide.u32 %rd4, %r3, %r1;       // threads in all
  xor.b64 %rd5, %rd0, %rd1;
  and.b64 %rd5, %rd5, 15;
  setp.ne.u64 %p0, %rd5, 0;
  mov.u64 %rd6, %rd2;                // head bytes: everything where the two do not align together
  @%p0 bra HEAD;
  neg.s64 %rd6, %rd0;
  and.b64 %rd6, %rd6, 15;
  min.u64 %rd6, %rd6, %rd2;
HEAD:
  mov.u64 %rd7, %rd3;
HEAD_LOOP:
  setp.ge.u64 %p1, %rd7, %rd6;
  @%p1 bra MIDDLE;
  add.u64 %rd8, %rd1, %rd7;
  add.u64 %rd9, %rd0, %rd7;
  ld.global.u8 %h0, [%rd8];
  st.global.u8 [%rd9], %h0;
  add.u64 %rd7, %rd7, %rd4;
  bra HEAD_LOOP;
MIDDLE:
  sub.u64 %rd10, %rd2, %rd6;         // bytes behind the head
  shr.u64 %rd11, %rd10, 4;           // sixteens
  add.u64 %rd12, %rd0, %rd6;
  add.u64 %rd13, %rd1, %rd6;
  mov.u64 %rd7, %rd3;
  // unrolled by four
  mul.lo.u64 %rd16, %rd4, 3;
MIDDLE4:
  add.u64 %rd17, %rd7, %rd16;
  setp.ge.u64 %p2, %rd17, %rd11;
  @%p2 bra MIDDLE_LOOP;
  shl.b64 %rd8, %rd7, 4;
  shl.b64 %rd18, %rd4, 4;
  add.u64 %rd9, %rd13, %rd8;
  add.u64 %rd19, %rd9, %rd18;
  add.u64 %rd20, %rd19, %rd18;
  add.u64 %rd21, %rd20, %rd18;
  ld.global.v4.u32 {%w0,%w1,%w2,%w3}, [%rd9];
  ld.global.v4.u32 {%w4,%w5,%w6,%w7}, [%rd19];
  ld.global.v4.u32 {%w8,%w9,%w10,%w11}, [%rd20];
  ld.global.v4.u32 {%w12,%w13,%w14,%w15}, [%rd21];
  add.u64 %rd9, %rd12, %rd8;
  add.u64 %rd19, %rd9, %rd18;
  add.u64 %rd20, %rd19, %rd18;
  add.u64 %rd21, %rd20, %rd18;
  st.global.v4.u32 [%rd9], {%w0,%w1,%w2,%w3};
  st.global.v4.u32 [%rd19], {%w4,%w5,%w6,%w7};
  st.global.v4.u32 [%rd20], {%w8,%w9,%w10,%w11};
  st.global.v4.u32 [%rd21], {%w12,%w13,%w14,%w15};
  add.u64 %rd7, %rd17, %rd4;
  bra MIDDLE4;
MIDDLE_LOOP:
  setp.ge.u64 %p2, %rd7, %rd11;
  @%p2 bra TAIL;
  shl.b64 %rd8, %rd7, 4;
  add.u64 %rd9, %rd13, %rd8;
  ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%rd9];
  add.u64 %rd9, %rd12, %rd8;
  st.global.v4.u32 [%rd9], {%v0, %v1, %v2, %v3};
  add.u64 %rd7, %rd7, %rd4;
  bra MIDDLE_LOOP;
TAIL:
  and.b64 %rd14, %rd10, 15;
  setp.ge.u64 %p3, %rd3, %rd14;
  @%p3 bra DONE;
  shl.b64 %rd15, %rd11, 4;
  add.u64 %rd15, %rd15, %rd3;
  add.u64 %rd8, %rd13, %rd15;
  add.u64 %rd9, %rd12, %rd15;
  ld.global.u8 %h0, [%rd8];
  st.global.u8 [%rd9], %h0;
DONE:
  ret;
}
)ptx";

}  // namespace penstock::core
