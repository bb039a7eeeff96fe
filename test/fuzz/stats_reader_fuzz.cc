// SPDX-License-Identifier: Apache-2.0

// The shared segment of another process. The input: its size in words, whether its header is put right where it would
// be refused at once, then its first bytes, which go on repeating.
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "fuzz/fuzz.h"
#include "stats/layout.h"
#include "stats/reader.h"

namespace penstock::fuzz {
namespace {

using namespace core;

constexpr std::uint32_t kWordsMax = 1u << 14;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// Of exactly its size, so that reading past its end is seen.
std::unique_ptr<std::byte, Free> allocate(std::size_t size) {
  void* memory = nullptr;
  FUZZ_CHECK(::posix_memalign(&memory, 64, size) == 0);
  return std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(memory));
}

void put_right(std::span<std::byte> segment) {
  StatsHeader header;
  if (segment.size() < sizeof header) return;
  std::memcpy(&header, segment.data(), sizeof header);
  std::memcpy(header.magic, kStatsMagic, sizeof header.magic);
  header.version = kStatsVersion;
  header.header_bytes = sizeof header;
  header.segment_bytes = segment.size();
  header.cufile_bytes = sizeof(CufileSection);
  std::memcpy(segment.data(), &header, sizeof header);
}

void check_name(const std::string& name) {
  FUZZ_CHECK(name.size() <= sizeof(StatsLabel));
  FUZZ_CHECK(std::all_of(name.begin(), name.end(), [](char letter) { return letter >= ' ' && letter <= '~'; }));
}

void check(const StatsSnapshot& snapshot, const StatsHeader& header) {
  check_name(snapshot.library);
  const std::uint64_t ways = std::uint64_t{header.paths} * 2;
  FUZZ_CHECK(snapshot.rows.size() <= ways * header.reasons);
  FUZZ_CHECK(snapshot.histograms.size() <= ways);
  for (const StatsRow& row : snapshot.rows) {
    check_name(row.path);
    check_name(row.reason);
    FUZZ_CHECK(row.bytes != 0 || row.operations != 0);
  }
  for (const StatsHistogram& histogram : snapshot.histograms) {
    check_name(histogram.path);
    FUZZ_CHECK(histogram.sizes.size() == header.size_buckets);
    FUZZ_CHECK(histogram.latencies.size() == header.latency_buckets);
    for (const double quantile : {0.0, 0.5, 0.99, 1.0}) {
      FUZZ_CHECK(latency_quantile(histogram.latencies, quantile) <= latency_floor(kLatencyBuckets));
    }
  }
}

void run(Decisions decisions) {
  const std::size_t size = decisions.number<std::uint16_t>() % kWordsMax * sizeof(std::uint64_t);
  const bool right = decisions.yes();
  const std::span<const std::uint8_t> pattern = decisions.rest();
  const auto memory = allocate(size);
  const std::span<std::byte> segment(memory.get(), size);
  for (std::size_t i = 0; i < size; ++i) {
    segment[i] = pattern.empty() ? std::byte{0} : static_cast<std::byte>(pattern[i % pattern.size()]);
  }
  if (right) put_right(segment);
  const Result<StatsSnapshot> snapshot = read_segment(segment);
  if (!snapshot.ok()) {
    FUZZ_CHECK(snapshot.status().is(Code::bad_setting) || snapshot.status().is(Code::unsupported));
    return;
  }
  StatsHeader header;
  FUZZ_CHECK(size >= sizeof header);
  std::memcpy(&header, segment.data(), sizeof header);
  check(*snapshot, header);
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  penstock::fuzz::run({data, size});
  return 0;
}
