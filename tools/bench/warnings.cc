// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/common/machine_use.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

constexpr double kNegligible = 0.03;  // A part of the bytes.
constexpr double kWide = 0.05;        // Half of the interval, as a part of the rate.

double part(std::uint64_t some, std::uint64_t all) { return static_cast<double>(some) / static_cast<double>(all); }

// The part that came from the page cache: from the kernel's count of bytes fetched, or else from the library's own.
std::optional<double> share_from_cache(const Evidence& evidence) {
  if (evidence.drive_bytes) return std::max(0.0, 1 - part(*evidence.drive_bytes, evidence.bytes));
  const std::uint64_t told = evidence.direct_bytes + evidence.cached_bytes;
  if (told == 0) return std::nullopt;
  return part(evidence.cached_bytes, told);
}

void add_blend(const Evidence& evidence, std::vector<Warning>& list) {
  const auto share = share_from_cache(evidence);
  if (!share || *share < kNegligible || *share > 1 - kNegligible) return;
  list.push_back(
      {"blended", fmt::format("{:.0f} % of the bytes came from the page cache and the rest from the drive, so "
                              "this is the rate of neither; --direct measures the drive, --warm the cache, "
                              "--drop-cache a first load",
                              100 * *share)});
}

void add_over_read(const Evidence& evidence, std::vector<Warning>& list) {
  if (!evidence.drive_bytes || part(*evidence.drive_bytes, evidence.bytes) <= 1 + kNegligible) return;
  list.push_back({"over_read", fmt::format("{} were fetched from the drive for {} that were asked for, {:.3g} times as "
                                           "much: larger blocks, or blocks on the drive's boundaries, waste less",
                                           format_size(*evidence.drive_bytes), format_size(evidence.bytes),
                                           part(*evidence.drive_bytes, evidence.bytes))});
}

void add_misaligned(const BenchSettings& settings, const Evidence& evidence, std::vector<Warning>& list) {
  const std::uint32_t align = evidence.direct_align;
  if (!settings.direct || align == 0 || (settings.block_size % align == 0 && settings.offset % align == 0)) return;
  const bool block = settings.block_size % align != 0;
  list.push_back(
      {"misaligned", fmt::format("--{} {} is no multiple of {}, which O_DIRECT asks for here, so parts of the "
                                 "requests cannot be direct as they are",
                                 block ? "bs" : "offset", block ? settings.block_size : settings.offset, align)});
}

void add_not_direct(const BenchSettings& settings, const Evidence& evidence, std::vector<Warning>& list) {
  if (evidence.not_direct.empty() || (!settings.direct && part(evidence.direct_bytes, evidence.bytes) < kNegligible))
    return;
  list.push_back({"not_direct", "O_DIRECT is not direct here: " + evidence.not_direct});
}

void add_few_blocks(const BenchSettings& settings, const Evidence& evidence, std::vector<Warning>& list) {
  const std::uint64_t flights = std::uint64_t{settings.threads} * settings.depth;
  if (flights <= 1 || evidence.block_count >= flights) return;
  list.push_back(
      {"few_blocks", fmt::format("the size has {} block{}, fewer than the {} requests that may be in flight; "
                                 "use a larger file or smaller blocks",
                                 evidence.block_count, evidence.block_count == 1 ? "" : "s", flights)});
}

// The difference of the halves as a part of the first one's rate. A drift is a part of the rate of both together.
double change_of_rate(double drift) {
  constexpr double kFirstMin = 0.01;  // The first half may have moved next to nothing.
  const double first = std::max(1 - drift / 2, kFirstMin);
  const double change = std::abs(drift) / first;
  return drift < 0 ? std::min(change, 1.0) : change;
}

void add_doubts(const BenchSettings& settings, const Evidence& evidence, std::vector<Warning>& list) {
  const Estimate& told = evidence.estimate;
  if (settings.verify) return;  // Such a run is a proof and no measurement.
  if (is_shared(evidence.harm_by_others)) {
    const char* reach = told.has_interval() ? "; the interval reaches up to what the rate may be without them" : "";
    list.push_back({"shared", shared_text(evidence.share_of_others) + reach});
  }
  if (!told.has_interval()) {
    list.push_back({"no_interval", fmt::format("{} measured stretch{} of time {} too few for an interval; --time 5 or "
                                               "--repeat 10 give one",
                                               told.batches.size(), told.batches.size() == 1 ? "" : "es",
                                               told.batches.size() == 1 ? "is" : "are")});
    return;
  }
  if (told.drift != 0) {
    list.push_back({"drift", fmt::format("the second half was {:.1f} % {} than the first, and the interval has both; "
                                         "--ramp 5 leaves the beginning out",
                                         100 * change_of_rate(told.drift), told.drift < 0 ? "slower" : "faster")});
  }
  if (told.half_width() > kWide * told.rate) {
    list.push_back({"wide", fmt::format("the true rate lies between {:.3f} and {:.3f} GB/s (95 %); measure for longer "
                                        "(--time 30), or while nothing else runs",
                                        told.low / 1e9, told.high / 1e9)});
  }
}

}  // namespace

std::vector<Warning> warnings_of(const BenchSettings& settings, const Evidence& evidence) {
  std::vector<Warning> list;
  if (evidence.bytes == 0) return list;
  if (!evidence.other_for_cufile.empty()) list.push_back({"cufile_json", evidence.other_for_cufile});
  if (!settings.is_write()) {
    add_blend(evidence, list);
    add_over_read(evidence, list);
  }
  add_misaligned(settings, evidence, list);
  add_not_direct(settings, evidence, list);
  add_few_blocks(settings, evidence, list);
  add_doubts(settings, evidence, list);
  return list;
}

}  // namespace penstock::tools
