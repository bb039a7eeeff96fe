// SPDX-License-Identifier: Apache-2.0

// A page of metrics, in Prometheus's text format (version 0.0.4) or in OpenMetrics 1.0, which differ in how families
// are named and how the page ends. The caller gives each family once, with all its samples. Pure.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace penstock::tools {

enum class MetricFormat { prometheus, openmetrics };

enum class MetricType { counter, gauge, histogram, info };

using Labels = std::vector<std::pair<std::string, std::string>>;

struct Family {
  const char* name;  // Without the "_total" of a counter and the "_info" of an info, which is always 1.
  MetricType type;
  const char* help;       // A sentence. In ASCII, without backslashes, quotes and newlines.
  const char* unit = "";  // "bytes" or "seconds", which the name then ends with.
};

class Exposition {
 public:
  explicit Exposition(MetricFormat format = MetricFormat::prometheus) : format_(format) {}

  void begin(const Family& family);
  // Adds a sample of the family that was begun last. `suffix` is a histogram's: "_bucket", "_sum", "_count".
  template <typename Number>
  void add(const Labels& labels, Number value, const char* suffix = "") {
    add_text(labels, fmt::format("{}", value), suffix);
  }
  // The page. Nothing can be added any more.
  std::string finish();

 private:
  void add_text(const Labels& labels, const std::string& value, const char* suffix);

  const MetricFormat format_;
  std::string sample_name_;
  std::string text_;
};

}  // namespace penstock::tools
