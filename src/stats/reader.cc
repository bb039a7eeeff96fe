// SPDX-License-Identifier: Apache-2.0

#include "stats/reader.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <string>

#include "stats/layout.h"

namespace penstock::core {
namespace {

constexpr const char* kStep = "read the statistics";
// More than any version will have; they keep products far from overflow.
constexpr std::uint32_t kPathsMax = 16;
constexpr std::uint32_t kReasonsMax = 256;
constexpr std::uint32_t kShardsMax = 256;
constexpr std::uint32_t kBucketsMax = 256;
constexpr std::uint64_t kWord = sizeof(std::uint64_t);

// A copy of the header, taken once: fields must not change after they were checked.
struct Shape {
  StatsHeader header;
  std::uint64_t sizes_at = 0;  // The offset in a shard.
  std::uint64_t latencies_at = 0;
  std::uint64_t latency_sums_at = 0;
  std::uint64_t direct_bytes_at = 0;  // 0: there are none.
  std::uint64_t saves_at = 0;         // 0: there are none.
  std::uint64_t failures_at = 0;      // 0: there are none.
  std::uint64_t counted_bytes = 0;
};

bool fits(std::uint64_t at, std::uint64_t size, std::uint64_t room) { return at <= room && size <= room - at; }

bool is_sane(const Shape& shape, std::uint64_t room) {
  const StatsHeader& header = shape.header;
  if (header.paths > kPathsMax || header.reasons > kReasonsMax || header.shards > kShardsMax) return false;
  if (header.size_buckets > kBucketsMax || header.latency_buckets > kBucketsMax) return false;
  if (header.header_bytes < sizeof header || header.segment_bytes != room) return false;
  if (header.labels_at % kWord != 0 || header.shards_at % kWord != 0 || header.shard_bytes % kWord != 0) return false;
  if (!fits(header.labels_at, (header.paths + header.reasons) * sizeof(StatsLabel), room)) return false;
  if (header.shard_bytes < shape.counted_bytes || header.shard_bytes > room) return false;
  if (!fits(header.shards_at, header.shards * header.shard_bytes, room)) return false;
  return header.cufile_bytes == sizeof(CufileSection) && header.cufile_at % alignof(CufileSection) == 0 &&
         fits(header.cufile_at, header.cufile_bytes, room);
}

Shape shape_of(const StatsHeader& header) {
  Shape shape{header};
  const std::uint64_t lists = std::uint64_t{header.paths} * 2;
  shape.sizes_at = lists * header.reasons * sizeof(StatsCell);
  shape.latencies_at = shape.sizes_at + lists * header.size_buckets * kWord;
  shape.latency_sums_at = shape.latencies_at + lists * header.latency_buckets * kWord;
  shape.counted_bytes = shape.latency_sums_at + lists * kWord;
  if ((header.features & kStatsHasDirectBytes) != 0) {
    shape.direct_bytes_at = shape.counted_bytes;
    shape.counted_bytes += lists * kWord;
  }
  if ((header.features & kStatsHasSaves) != 0) {
    shape.saves_at = shape.counted_bytes;
    shape.counted_bytes += kSaveNumbers * kWord;
  }
  if ((header.features & kStatsHasFailures) != 0) {
    shape.failures_at = shape.counted_bytes;
    shape.counted_bytes += lists * kWord;
  }
  return shape;
}

// Limits the length, and makes the text fit for a terminal.
std::string text_of(const StatsLabel& label) {
  std::string text(label.text, ::strnlen(label.text, sizeof label.text));
  for (char& letter : text) {
    if (letter < ' ' || letter > '~') letter = '?';
  }
  return text;
}

class Reader {
 public:
  Reader(std::span<const std::byte> segment, const Shape& shape) : segment_(segment), shape_(shape) {}

  // False if two counters have the same name: a reader that uses names would confuse them.
  bool has_names_of_their_own() const {
    return are_different(0, shape_.header.paths) && are_different(shape_.header.paths, shape_.header.reasons);
  }

  StatsSnapshot read() const {
    StatsSnapshot snapshot;
    snapshot.pid = shape_.header.pid;
    snapshot.opened_ns = shape_.header.opened_ns;
    snapshot.library = text_of(shape_.header.library);
    snapshot.has_direct_bytes = shape_.direct_bytes_at != 0;
    for (std::uint32_t path = 0; path < shape_.header.paths; ++path) {
      for (const Op op : {Op::read, Op::write}) read_path(path, op, snapshot);
    }
    for (unsigned i = 0; shape_.saves_at != 0 && i < kSaveNumbers; ++i) {
      snapshot.saves[i] = sum(shape_.saves_at + i * kWord);
    }
    snapshot.cufile = total_of(*reinterpret_cast<const CufileSection*>(segment_.data() + shape_.header.cufile_at));
    return snapshot;
  }

 private:
  void read_path(std::uint32_t path, Op op, StatsSnapshot& snapshot) const {
    bool counted = false;
    for (std::uint32_t reason = 0; reason < shape_.header.reasons; ++reason) {
      const std::uint64_t cell =
          ((std::uint64_t{path} * shape_.header.reasons + reason) * 2 + index_of(op)) * sizeof(StatsCell);
      StatsRow row{label(path), label(shape_.header.paths + reason), op, sum(cell), sum(cell + kWord)};
      // A count without a name means nothing.
      if (row.operations == 0 || row.path.empty() || row.reason.empty()) continue;
      snapshot.rows.push_back(std::move(row));
      counted = true;
    }
    if (!counted) return;
    snapshot.histograms.push_back({.path = label(path),
                                   .op = op,
                                   .sizes = list(shape_.sizes_at, path, op, shape_.header.size_buckets),
                                   .latencies = list(shape_.latencies_at, path, op, shape_.header.latency_buckets),
                                   .latency_sum = list(shape_.latency_sums_at, path, op, 1)[0],
                                   .direct_bytes = one_of(shape_.direct_bytes_at, path, op),
                                   .failures = one_of(shape_.failures_at, path, op)});
  }

  std::uint64_t one_of(std::uint64_t at, std::uint32_t path, Op op) const {
    return at == 0 ? 0 : list(at, path, op, 1)[0];
  }

  bool are_different(std::uint32_t first, std::uint32_t count) const {
    std::set<std::string> seen;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string text = label(first + i);
      if (!text.empty() && !seen.insert(text).second) return false;
    }
    return true;
  }

  static std::uint64_t index_of(Op op) { return static_cast<std::uint64_t>(op); }

  std::string label(std::uint64_t index) const {
    StatsLabel copy;
    std::memcpy(&copy, segment_.data() + shape_.header.labels_at + index * sizeof copy, sizeof copy);
    return text_of(copy);
  }

  std::vector<std::uint64_t> list(std::uint64_t at, std::uint32_t path, Op op, std::uint32_t buckets) const {
    std::vector<std::uint64_t> numbers(buckets);
    const std::uint64_t first = at + (std::uint64_t{path} * 2 + index_of(op)) * buckets * kWord;
    for (std::uint32_t i = 0; i < buckets; ++i) numbers[i] = sum(first + i * kWord);
    return numbers;
  }

  // Adds up one number over all shards.
  std::uint64_t sum(std::uint64_t at) const {
    std::uint64_t total = 0;
    for (std::uint32_t i = 0; i < shape_.header.shards; ++i) {
      const std::byte* const number = segment_.data() + shape_.header.shards_at + i * shape_.header.shard_bytes + at;
      total += load_shared(*reinterpret_cast<const std::uint64_t*>(number));
    }
    return total;
  }

  const std::span<const std::byte> segment_;
  const Shape& shape_;
};

}  // namespace

Result<StatsSnapshot> read_segment(std::span<const std::byte> segment) {
  StatsHeader header;
  const auto address = reinterpret_cast<std::uintptr_t>(segment.data());
  if (segment.size() < sizeof header || address % alignof(CufileSection) != 0) {
    return failure(Code::bad_setting, kStep);
  }
  std::memcpy(&header, segment.data(), sizeof header);
  if (std::memcmp(header.magic, kStatsMagic, sizeof header.magic) != 0) return failure(Code::bad_setting, kStep);
  if (header.version != kStatsVersion) return failure(Code::unsupported, kStep);
  const Shape shape = shape_of(header);
  if (!is_sane(shape, segment.size())) return failure(Code::bad_setting, kStep);
  const Reader reader(segment, shape);
  if (!reader.has_names_of_their_own()) return failure(Code::bad_setting, kStep);
  return reader.read();
}

std::uint64_t latency_quantile(std::span<const std::uint64_t> latencies, double quantile) {
  const double all = std::accumulate(latencies.begin(), latencies.end(), 0.0);
  if (all == 0) return 0;
  double seen = 0;
  unsigned bucket = 0;
  for (; bucket < latencies.size(); ++bucket) {
    seen += static_cast<double>(latencies[bucket]);
    if (seen >= quantile * all) break;
  }
  bucket = std::min(bucket, kLatencyBuckets - 1);
  return (latency_floor(bucket) + latency_floor(bucket + 1)) / 2;
}

}  // namespace penstock::core
