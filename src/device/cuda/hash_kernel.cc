// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/hash_kernel.h"

#include <cstddef>
#include <cstdint>

#include "checksum/hash64.h"
#include "device/cuda/checksum_kernel.h"
#include "device/device.h"

namespace penstock::core {
namespace {

// The kernel's text relies on these.
static_assert(kChecksumThreads == 256 && ChecksumBlock::kBytesMax == Hash64::kBlockBytes);
static_assert(sizeof(ChecksumBlock) == 32 && offsetof(ChecksumBlock, bytes) == 8 &&
              offsetof(ChecksumBlock, hash) == 16);
constexpr unsigned kWordsOfRow = 2 * kChecksumThreads;

// %left: bytes of the block from this thread's sixteen on, if above 0. %key: the number of its first word, times
// kGolden.
constexpr char kHashBegin[] = R"ptx(
.version 7.0
.target sm_52
.address_size 64
.visible .entry penstock_hash64(.param .u64 blocks)
{
  .shared .align 8 .b8 parts[64];     // Of eight warps.
  .shared .align 16 .b8 block[16];
  .reg .pred %odd, %q;
  .reg .b32 %t, %i, %left, %lo, %hi;
  .reg .b64 %e, %p, %a, %x, %w<2>, %key, %sum;
  mov.u32 %t, %tid.x;
  ld.param.u64 %e, [blocks];
  cvta.to.global.u64 %e, %e;
  mov.u32 %i, %ctaid.x;
  mad.wide.u32 %e, %i, 32, %e;
  setp.ne.u32 %q, %t, 0;
  @%q bra LOADED;
  ld.global.v2.u64 {%w0, %w1}, [%e];
  st.shared.v2.u64 [block], {%w0, %w1};
LOADED:
  bar.sync 0;
  ld.shared.u64 %p, [block];
  ld.shared.u32 %left, [block+8];
  cvta.to.global.u64 %p, %p;
  mad.wide.u32 %p, %t, 16, %p;
  shl.b32 %i, %t, 4;
  sub.s32 %left, %left, %i;
  shl.b32 %i, %t, 1;
  add.u32 %i, %i, 1;
  cvt.u64.u32 %key, %i;
  mul.lo.u64 %key, %key, 0x9e3779b97f4a7c15;
  mov.u64 %sum, 0;
ROW:
  setp.le.s32 %q, %left, 0;
  @%q bra ADDED;
  and.b64 %a, %p, 15;
  setp.ne.u64 %odd, %a, 0;
  setp.lt.s32 %q, %left, 16;
  or.pred %odd, %odd, %q;
  @%odd bra BYTES;
  ld.global.v2.u64 {%w0, %w1}, [%p];
  bra MIX;
BYTES:
  mov.u64 %w0, 0;
  mov.u64 %w1, 0;
)ptx";

// Reads byte # of sixteen, which word $ has from bit ~ on.
constexpr char kHashByte[] = R"ptx(  setp.gt.s32 %q, %left, #;
  mov.u64 %x, 0;
  @%q ld.global.u8 %x, [%p+#];
  shl.b64 %x, %x, ~;
  or.b64 %w$, %w$, %x;
)ptx";

// Adds word $, unless the block has ended before it.
constexpr char kMixOfWord[] = R"ptx(  setp.le.s32 %q, %left, #;
  @%q bra ADDED;
  add.u64 %x, %w$, %key;
  shr.u64 %a, %x, 30;
  xor.b64 %x, %x, %a;
  mul.lo.u64 %x, %x, 0xbf58476d1ce4e5b9;
  shr.u64 %a, %x, 27;
  xor.b64 %x, %x, %a;
  mul.lo.u64 %x, %x, 0x94d049bb133111eb;
  shr.u64 %a, %x, 31;
  xor.b64 %x, %x, %a;
  add.u64 %sum, %sum, %x;
  add.u64 %key, %key, ~;
)ptx";

constexpr char kHashAfterRow[] = R"ptx(  add.u64 %p, %p, 4096;
  sub.s32 %left, %left, 4096;
  bra ROW;
ADDED:
)ptx";

constexpr char kHashAcrossLanes[] = R"ptx(  mov.b64 {%lo, %hi}, %sum;
  shfl.sync.bfly.b32 %lo, %lo, ~, 31, -1;
  shfl.sync.bfly.b32 %hi, %hi, ~, 31, -1;
  mov.b64 %x, {%lo, %hi};
  add.u64 %sum, %sum, %x;
)ptx";

constexpr char kHashOfWarps[] = R"ptx(  and.b32 %i, %t, 31;
  setp.ne.u32 %q, %i, 0;
  @%q bra TOGETHER;
  mov.u32 %lo, parts;
  shr.u32 %i, %t, 2;
  add.u32 %i, %i, %lo;
  st.shared.u64 [%i], %sum;
TOGETHER:
  bar.sync 0;
  setp.ne.u32 %q, %t, 0;
  @%q bra DONE;
  mov.u64 %sum, 0;
)ptx";

constexpr char kPartOfWarp[] = R"ptx(  ld.shared.u64 %x, [parts+#];
  add.u64 %sum, %sum, %x;
)ptx";

constexpr char kHashEnd[] = R"ptx(  st.global.u64 [%e+16], %sum;
DONE:
  ret;
}
)ptx";

std::string with_number(std::string text, char mark, std::uint64_t value) {
  const std::string number = std::to_string(value);
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += number.size()) {
    text.replace(at, 1, number);
  }
  return text;
}

}  // namespace

std::string hash_kernel_text() {
  std::string text = kHashBegin;
  for (unsigned byte = 0; byte < 16; ++byte) {
    text += with_number(with_number(with_number(kHashByte, '#', byte), '$', byte / 8), '~', byte % 8 * 8);
  }
  text += "MIX:\n";
  for (unsigned word = 0; word < 2; ++word) {
    const std::uint64_t numbers = word == 0 ? 1 : kWordsOfRow - 1;  // Up to this thread's next word.
    text += with_number(with_number(with_number(kMixOfWord, '#', 8 * word), '$', word), '~', numbers * Hash64::kGolden);
  }
  text += kHashAfterRow;
  for (unsigned distance = 16; distance > 0; distance /= 2) text += with_number(kHashAcrossLanes, '~', distance);
  text += kHashOfWarps;
  for (unsigned warp = 0; warp < kChecksumThreads / 32; ++warp) text += with_number(kPartOfWarp, '#', 8 * warp);
  return text + kHashEnd;
}

}  // namespace penstock::core
