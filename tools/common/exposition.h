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
  // The name without the ending "_total" of a counter, or "_info" of an info, whose value is always 1.
  const char* name;
  MetricType type;
  const char* help;       // A sentence in ASCII, without backslashes, quotes and newlines.
  const char* unit = "";  // "bytes" or "seconds": the name then ends with it.
};

class Exposition {
 public:
  explicit Exposition(MetricFormat format = MetricFormat::prometheus) : format_(format) {}

  void begin(const Family& family);
  // Adds a sample of the family that was begun last. A histogram's samples have a `suffix`: "_bucket", "_sum",
  // "_count".
  template <typename Number>
  void add(const Labels& labels, Number value, const char* suffix = "") {
    add_text(labels, fmt::format("{}", value), suffix);
  }
  // Returns the page. After it nothing can be added.
  std::string finish();

 private:
  void add_text(const Labels& labels, const std::string& value, const char* suffix);

  const MetricFormat format_;
  std::string sample_name_;
  std::string text_;
};

}  // namespace penstock::tools
