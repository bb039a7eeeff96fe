// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/time_log.h"

#include <fmt/format.h>

#include "tools/common/units.h"

namespace penstock::tools {

void TimeLog::add(double measured_before, const Interval& interval) {
  const auto us = [&](double quantile) { return static_cast<double>(interval.latency_ns.quantile(quantile)) / 1e3; };
  text_ += fmt::format("{:.6f},{:.6f},{},{:.6f},{},{:.3f},{:.3f}\n", measured_before + interval.begin,
                       measured_before + interval.end, interval.bytes,
                       gigabytes(interval.bytes) / (interval.end - interval.begin), interval.latency_ns.count(),
                       us(0.5), us(0.99));
}

}  // namespace penstock::tools
