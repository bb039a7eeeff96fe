// SPDX-License-Identifier: Apache-2.0

// How a request is cut into chunks: whatever it is, they tile it, and each is what the storage can take.
#include <algorithm>
#include <limits>
#include <string_view>

#include "base/align.h"
#include "fuzz/fuzz.h"
#include "plan/plan.h"

namespace penstock::fuzz {
namespace {

using namespace core;

constexpr std::uint64_t kLookedAtMax = 200;  // Chunks at either end.
constexpr std::uint64_t kOffsetMax = std::numeric_limits<std::int64_t>::max();

void check_chunk(const Request& request, const Limits& limits, const Plan& plan, std::uint64_t index) {
  const Chunk chunk = plan.chunk(index);
  const bool widens = limits.staged && request.op == Op::read && chunk.io_mode == IoMode::o_direct;
  FUZZ_CHECK(chunk.size > 0);
  FUZZ_CHECK(chunk.file_offset - request.file_offset == chunk.buffer_offset);
  FUZZ_CHECK(chunk.io_offset <= chunk.file_offset);
  FUZZ_CHECK(chunk.io_offset + chunk.io_size >= chunk.file_offset + chunk.size);
  FUZZ_CHECK(widens || (chunk.io_offset == chunk.file_offset && chunk.io_size == chunk.size));
  if (chunk.io_mode == IoMode::o_direct) {
    FUZZ_CHECK(limits.file_align > 1);
    FUZZ_CHECK(is_aligned(chunk.io_offset | chunk.io_size, limits.file_align));
    FUZZ_CHECK(limits.staged || is_aligned(request.buffer_address + chunk.buffer_offset, limits.memory_align));
    FUZZ_CHECK(chunk.io_size <= limits.chunk_max);
  } else if (index < plan.head_count() || index - plan.head_count() >= plan.middle_count()) {
    // A head or a tail; of a write, up to the page's boundary.
    FUZZ_CHECK(chunk.size < (request.op == Op::write ? std::max(limits.file_align, limits.page) : limits.file_align));
  } else if (limits.file_align > 1 && request.op == Op::write) {
    FUZZ_CHECK(chunk.flush);
  } else {
    FUZZ_CHECK(!chunk.flush);
  }
  FUZZ_CHECK(chunk.size <= limits.chunk_max);
  char line[200];
  FUZZ_CHECK(format_chunk(chunk, request.op, line) == std::string_view(line).size());
}

void run(Decisions decisions) {
  Limits limits;
  limits.file_align = 1u << decisions.below(17);
  limits.memory_align = 1u << decisions.below(13);
  limits.chunk_max = (1 + decisions.number<std::uint16_t>()) * std::uint64_t{65536};
  limits.staged = decisions.yes();
  Request request;
  request.op = decisions.yes() ? Op::write : Op::read;
  request.buffer_address = decisions.number<std::uint64_t>();
  // What a session lets through: nothing ends behind the largest offset that a file can have.
  request.file_offset = decisions.number<std::uint64_t>() % (kOffsetMax + 1);
  request.size = decisions.number<std::uint64_t>() >> decisions.below(64);
  request.size = std::min(request.size, kOffsetMax - request.file_offset);

  const Plan plan(request, limits);
  const std::uint64_t count = plan.chunk_count();
  FUZZ_CHECK((count == 0) == (request.size == 0));
  std::uint64_t next = request.file_offset;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i == kLookedAtMax && count > 2 * kLookedAtMax) {
      i = count - kLookedAtMax;
      next = plan.chunk(i).file_offset;
    }
    check_chunk(request, limits, plan, i);
    FUZZ_CHECK(plan.chunk(i).file_offset == next);
    next += plan.chunk(i).size;
  }
  FUZZ_CHECK(next == request.file_offset + request.size);
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  penstock::fuzz::run({data, size});
  return 0;
}
