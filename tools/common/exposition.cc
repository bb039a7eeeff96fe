// SPDX-License-Identifier: Apache-2.0

#include "tools/common/exposition.h"

namespace penstock::tools {
namespace {

// Escapes a value. Values are names that others chose and may hold any bytes; the page must be UTF-8.
void append_escaped(std::string& page, const std::string& value) {
  for (const char letter : value) {
    if (letter == '\n') page += "\\n";
    else if (letter == '\\' || letter == '"') page.append(1, '\\').append(1, letter);
    else page += letter < ' ' || letter > '~' ? '?' : letter;
  }
}

const char* suffix_of(MetricType type) {
  if (type == MetricType::counter) return "_total";
  return type == MetricType::info ? "_info" : "";
}

const char* type_name(MetricType type, MetricFormat format) {
  switch (type) {
    case MetricType::counter: return "counter";
    case MetricType::gauge: return "gauge";
    case MetricType::histogram: return "histogram";
    case MetricType::info: break;
  }
  return format == MetricFormat::openmetrics ? "info" : "gauge";
}

}  // namespace

void Exposition::begin(const Family& family) {
  sample_name_ = std::string(family.name) + suffix_of(family.type);
  const std::string name = format_ == MetricFormat::openmetrics ? family.name : sample_name_;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, family.help, name, type_name(family.type, format_));
  if (format_ == MetricFormat::openmetrics && *family.unit != '\0') {
    text_ += fmt::format("# UNIT {} {}\n", name, family.unit);
  }
}

void Exposition::add_text(const Labels& labels, const std::string& value, const char* suffix) {
  text_.append(sample_name_).append(suffix);
  const char* between = "{";
  for (const auto& [label, text] : labels) {
    text_.append(between).append(label).append("=\"");
    append_escaped(text_, text);
    text_ += '"';
    between = ",";
  }
  text_.append(labels.empty() ? " " : "} ").append(value).append("\n");
}

std::string Exposition::finish() {
  if (format_ == MetricFormat::openmetrics) text_ += "# EOF\n";
  return std::move(text_);
}

}  // namespace penstock::tools
