// SPDX-License-Identifier: Apache-2.0

#include "device/cuda/checksum_kernel.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checksum/polynomial.h"
#include "device/device.h"

namespace penstock::core {
namespace {

constexpr unsigned kWords = 4;  // Words of a row that one thread reads.
constexpr std::size_t kRowBytes = 4 * kWords * kChecksumThreads;
// The kernel's text relies on this, and on the layout of ChecksumBlock, which it reads sixteen bytes at a time.
static_assert(kRowBytes == 4096);
static_assert(sizeof(ChecksumBlock) == 32 && offsetof(ChecksumBlock, bytes) == 8 && offsetof(ChecksumBlock, sum) == 12);

constexpr char kHead[] = R"ptx(
.version 7.0
.target sm_52
.address_size 64
)ptx";

constexpr char kBegin[] = R"ptx(
.visible .entry penstock_crc32c(.param .u64 blocks)
{
  .shared .align 4 .b8 table[4096];   // Products of x^(8 * 4096) with each byte of a word.
  .shared .align 4 .b8 parts[32];     // Of eight warps.
  .shared .align 16 .b8 block[16];
  .reg .pred %odd, %q;
  .reg .b32 %t, %rows, %base, %i, %v, %mask, %sum, %seed;
  .reg .b32 %before;                  // Bytes of this thread's sixteen that lie before the block, if above 0.
  .reg .b32 %s<4>, %w<4>, %b<4>, %x<4>;
  .reg .b64 %p, %a, %e;
  mov.u32 %t, %tid.x;
  mov.u32 %base, table;
  mad.lo.u32 %i, %t, 4, %base;
  mov.u64 %a, steps;
  mad.wide.u32 %a, %t, 4, %a;
  ld.global.u32 %v, [%a];
  st.shared.u32 [%i], %v;
  ld.global.u32 %v, [%a+1024];
  st.shared.u32 [%i+1024], %v;
  ld.global.u32 %v, [%a+2048];
  st.shared.u32 [%i+2048], %v;
  ld.global.u32 %v, [%a+3072];
  st.shared.u32 [%i+3072], %v;
  ld.param.u64 %e, [blocks];
  cvta.to.global.u64 %e, %e;
  mov.u32 %i, %ctaid.x;
  mad.wide.u32 %e, %i, 32, %e;
  mov.u32 %seed, 0;
  setp.ne.u32 %q, %t, 0;
  @%q bra LOADED;
  ld.global.v4.u32 {%w0, %w1, %w2, %seed}, [%e];
  st.shared.u32 [block], %w0;
  st.shared.u32 [block+4], %w1;
  st.shared.u32 [block+8], %w2;
LOADED:
  bar.sync 0;
  ld.shared.u64 %p, [block];
  cvta.to.global.u64 %p, %p;
  ld.shared.u32 %v, [block+8];
  add.u32 %rows, %v, 4095;
  shr.u32 %rows, %rows, 12;
  shl.b32 %before, %rows, 12;
  sub.u32 %before, %before, %v;
  cvt.u64.u32 %a, %before;
  sub.u64 %p, %p, %a;
  mad.wide.u32 %p, %t, 16, %p;
  shl.b32 %i, %t, 4;
  sub.s32 %before, %before, %i;
  mov.u32 %s0, 0;
  mov.u32 %s1, 0;
  mov.u32 %s2, 0;
  mov.u32 %s3, 0;
ROW:
  and.b64 %a, %p, 15;
  setp.ne.u64 %odd, %a, 0;
  setp.gt.s32 %q, %before, 0;
  or.pred %odd, %odd, %q;
  @%odd bra BYTES;
  ld.global.v4.u32 {%w0, %w1, %w2, %w3}, [%p];
  bra STEP;
BYTES:
)ptx";

// Reads byte $ of its word, which is byte # of sixteen.
constexpr char kByte[] = R"ptx(  setp.le.s32 %q, %before, #;
  mov.u32 %b$, 0;
  @%q ld.global.u8 %b$, [%p+#];
)ptx";

constexpr char kWordOfBytes[] = R"ptx(  bfi.b32 %b0, %b1, %b0, 8, 8;
  bfi.b32 %b2, %b3, %b2, 8, 8;
  bfi.b32 %w$, %b2, %b0, 16, 16;
)ptx";

constexpr char kStepOfWord[] = R"ptx(  and.b32 %x0, %s$, 255;
  bfe.u32 %x1, %s$, 8, 8;
  bfe.u32 %x2, %s$, 16, 8;
  shr.u32 %x3, %s$, 24;
  mad.lo.u32 %x0, %x0, 4, %base;
  mad.lo.u32 %x1, %x1, 4, %base;
  mad.lo.u32 %x2, %x2, 4, %base;
  mad.lo.u32 %x3, %x3, 4, %base;
  ld.shared.u32 %x0, [%x0];
  ld.shared.u32 %x1, [%x1+1024];
  ld.shared.u32 %x2, [%x2+2048];
  ld.shared.u32 %x3, [%x3+3072];
  xor.b32 %x0, %x0, %x1;
  xor.b32 %x2, %x2, %x3;
  xor.b32 %x0, %x0, %x2;
  xor.b32 %s$, %x0, %w$;
)ptx";

constexpr char kAfterRow[] = R"ptx(  mov.u32 %before, 0;
  add.u64 %p, %p, 4096;
  sub.u32 %rows, %rows, 1;
  setp.ne.u32 %q, %rows, 0;
  @%q bra ROW;
  mov.u64 %a, places;
  mad.wide.u32 %a, %t, 16, %a;
  ld.global.v4.u32 {%w0, %w1, %w2, %w3}, [%a];
  mov.u32 %sum, 0;
)ptx";

// Adds the product of %s$ and %w$.
constexpr char kProductOfWord[] = R"ptx(PRODUCT$:
  shr.s32 %mask, %s$, 31;
  and.b32 %mask, %mask, %w$;
  xor.b32 %sum, %sum, %mask;
  shl.b32 %s$, %s$, 1;
  and.b32 %mask, %w$, 1;
  neg.s32 %mask, %mask;
  and.b32 %mask, %mask, 0x82f63b78;
  shr.u32 %w$, %w$, 1;
  xor.b32 %w$, %w$, %mask;
  setp.ne.u32 %q, %s$, 0;
  @%q bra PRODUCT$;
)ptx";

constexpr char kAcrossLanes[] = R"ptx(  shfl.sync.bfly.b32 %v, %sum, @, 31, -1;
  xor.b32 %sum, %sum, %v;
)ptx";

constexpr char kEnd[] = R"ptx(  and.b32 %i, %t, 31;
  setp.ne.u32 %q, %i, 0;
  @%q bra TOGETHER;
  mov.u32 %base, parts;
  shr.u32 %i, %t, 3;
  add.u32 %i, %i, %base;
  st.shared.u32 [%i], %sum;
TOGETHER:
  bar.sync 0;
  setp.ne.u32 %q, %t, 0;
  @%q bra DONE;
  mov.u32 %sum, %seed;
  mov.u32 %i, parts;
  ld.shared.u32 %v, [%i];
  xor.b32 %sum, %sum, %v;
  ld.shared.u32 %v, [%i+4];
  xor.b32 %sum, %sum, %v;
  ld.shared.u32 %v, [%i+8];
  xor.b32 %sum, %sum, %v;
  ld.shared.u32 %v, [%i+12];
  xor.b32 %sum, %sum, %v;
  ld.shared.u32 %v, [%i+16];
  xor.b32 %sum, %sum, %v;
  ld.shared.u32 %v, [%i+20];
  xor.b32 %sum, %sum, %v;
  ld.shared.u32 %v, [%i+24];
  xor.b32 %sum, %sum, %v;
  ld.shared.u32 %v, [%i+28];
  xor.b32 %sum, %sum, %v;
  st.global.u32 [%e+12], %sum;
DONE:
  ret;
}
)ptx";

std::string filled(std::string text, char mark, const std::string& value) {
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += value.size()) {
    text.replace(at, 1, value);
  }
  return text;
}

std::string numbered(const char* text, unsigned number) { return filled(text, '$', std::to_string(number)); }

std::string bytes_of_word(unsigned word) {
  std::string text;
  for (unsigned byte = 0; byte < 4; ++byte) text += filled(numbered(kByte, byte), '#', std::to_string(4 * word + byte));
  return text + numbered(kWordOfBytes, word);
}

std::string array(const char* name, std::span<const std::uint32_t> values) {
  std::string text = ".global .align 16 .u32 " + std::string(name) + "[" + std::to_string(values.size()) + "] = {";
  for (const std::uint32_t value : values) text += std::to_string(value) + ",";
  text.back() = '}';
  return text + ";\n";
}

std::string tables() {
  std::vector<std::uint32_t> steps;
  const polynomial::Products products = polynomial::products_of(polynomial::shift_of(kRowBytes));
  for (const auto& row : products.rows) steps.insert(steps.end(), row.begin(), row.end());
  // A word of the last row has the words to its right after it, and the four bytes by which every checksum is shifted.
  std::array<std::uint32_t, kWords * kChecksumThreads> places{};
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = polynomial::shift_of(4 * (places.size() - i));
  return array("steps", steps) + array("places", places);
}

}  // namespace

std::string checksum_kernel_text() {
  std::string text = kHead + tables() + kBegin;
  for (unsigned word = 0; word < kWords; ++word) text += bytes_of_word(word);
  text += "STEP:\n";
  for (unsigned word = 0; word < kWords; ++word) text += numbered(kStepOfWord, word);
  text += kAfterRow;
  for (unsigned word = 0; word < kWords; ++word) text += numbered(kProductOfWord, word);
  for (const char* distance : {"16", "8", "4", "2", "1"}) text += filled(kAcrossLanes, '@', distance);
  return text + kEnd;
}

}  // namespace penstock::core
