// SPDX-License-Identifier: Apache-2.0

#include "fakes/prometheus_check.h"

#include <cctype>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>
#include <sstream>

#include "tools/common/exposition.h"

namespace penstock::tools {
namespace {

struct Sample {
  std::string name;
  std::string labels;      // As written, "{...}" or "".
  std::string without_le;  // Those of all buckets of one histogram.
  std::optional<double> le;
  double value = 0;
};

class Parser {
 public:
  Parser(PrometheusPage& page, MetricFormat format) : page_(page), is_open_(format == MetricFormat::openmetrics) {}

  void parse(const std::string& text) {
    if (!text.empty() && text.back() != '\n') fault("the last line does not end");
    if (is_open_ && !text.ends_with("# EOF\n")) fault("no # EOF at the end");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      line_ = line;
      take_line(line);
    }
    check_histograms();
  }

 private:
  void fault(const std::string& what) { page_.faults.push_back(what + ": " + line_); }

  void take_line(const std::string& line) {
    if (is_ended_) return fault("something behind # EOF");
    if (line.starts_with("# HELP ")) {
      if (!helped_.insert(line.substr(7, line.find(' ', 7) - 7)).second) fault("a second HELP");
    } else if (line.starts_with("# TYPE ")) {
      take_type(line.substr(7));
    } else if (is_open_ && line.starts_with("# UNIT ")) {
      take_unit(line.substr(7));
    } else if (is_open_ && line == "# EOF") {
      is_ended_ = true;
    } else if (is_open_ && (line.empty() || line.starts_with('#'))) {
      fault("OpenMetrics has no such line");
    } else if (!line.empty() && !line.starts_with('#')) {
      take_sample(line);
    }
  }

  // Of OpenMetrics, whose families have the names of their samples but for an ending.
  std::string sample_name_of(const std::string& family, const std::string& type) const {
    if (!is_open_ || (type != "counter" && type != "info")) return family;
    return family + (type == "counter" ? "_total" : "_info");
  }

  void take_type(const std::string& text) {
    const std::size_t space = text.find(' ');
    const std::string family = text.substr(0, space);
    const std::string type = space == std::string::npos ? "" : text.substr(space + 1);
    const std::string name = sample_name_of(family, type);
    if (type != "counter" && type != "gauge" && type != "histogram" && !(is_open_ && type == "info")) {
      fault("unknown type");
    }
    if (!helped_.contains(family)) fault("no HELP");
    if (!types_.emplace(name, type).second) fault("a second TYPE");
    if (type == "counter" && !name.ends_with("_total")) fault("a counter's name ends with _total");
    if (is_open_ && family.ends_with("_total")) fault("a family's name ends with _total");
  }

  void take_unit(const std::string& text) {
    const std::size_t space = text.find(' ');
    const std::string unit = space == std::string::npos ? "" : text.substr(space + 1);
    if (unit.empty() || !text.substr(0, space).ends_with("_" + unit)) fault("a family's name ends with its unit");
    if (!units_.insert(text.substr(0, space)).second) fault("a second UNIT");
  }

  static bool is_name(const std::string& text) {
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) != 0) return false;
    for (const char c : text) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != ':') return false;
    }
    return true;
  }

  void take_sample(const std::string& line) {
    Sample sample;
    std::size_t at = line.find_first_of("{ ");
    sample.name = line.substr(0, at);
    if (!is_name(sample.name)) return fault("no name");
    const std::size_t labels = at;
    if (at != std::string::npos && line[at] == '{' && !take_labels(line, at, sample)) return fault("bad labels");
    if (at == std::string::npos || line[at] != ' ') return fault("no value");
    sample.labels = line.substr(labels, at - labels);
    char* end = nullptr;
    sample.value = std::strtod(line.c_str() + at + 1, &end);
    if (end == line.c_str() + at + 1 || *end != '\0') return fault("the value is no number");
    if (!page_.values.emplace(sample.name + sample.labels, sample.value).second) fault("twice");
    check_family(sample);
    samples_.push_back(sample);
  }

  // From '{' to behind '}'.
  bool take_labels(const std::string& line, std::size_t& at, Sample& sample) {
    std::set<std::string> seen;
    for (++at; at < line.size() && line[at] != '}';) {
      const std::size_t equals = line.find("=\"", at);
      if (equals == std::string::npos) return false;
      const std::string name = line.substr(at, equals - at);
      std::string value;
      for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] != '\\') {
          value += line[at];
          continue;
        }
        if (++at == line.size() || std::string("\\\"n").find(line[at]) == std::string::npos) return false;
        value += line[at] == 'n' ? '\n' : line[at];
      }
      if (at == line.size() || !is_name(name) || !seen.insert(name).second) return false;
      if (name == "le") {
        sample.le = value == "+Inf" ? std::numeric_limits<double>::infinity() : std::strtod(value.c_str(), nullptr);
      } else {
        sample.without_le += name + "=" + value + "\n";
      }
      if (line[++at] == ',') ++at;
    }
    return at < line.size() && line[at++] == '}';
  }

  std::string family_of(const std::string& name) const {
    for (const char* const suffix : {"_bucket", "_sum", "_count"}) {
      if (!name.ends_with(suffix)) continue;
      const std::string family = name.substr(0, name.size() - std::string(suffix).size());
      const auto found = types_.find(family);
      if (found != types_.end() && found->second == "histogram") return family;
    }
    return name;
  }

  void check_family(const Sample& sample) {
    const auto type = types_.find(family_of(sample.name));
    if (type == types_.end()) return fault("no TYPE before it");
    if (type->first != last_family_ && !families_.insert(type->first).second) fault("its family is in two places");
    last_family_ = type->first;
    if (type->second == "counter" && sample.value < 0) fault("a counter below zero");
    if (sample.name.ends_with("_bucket") && !sample.le) fault("a bucket without le");
  }

  void check_histograms() {
    std::map<std::string, Sample> last;  // Bucket of each histogram.
    std::map<std::string, double> counts;
    for (const Sample& sample : samples_) {
      line_ = sample.name + sample.labels;
      const std::string family = family_of(sample.name);
      if (family == sample.name) continue;
      const std::string key = family + "\n" + sample.without_le;
      if (sample.name.ends_with("_count")) counts[key] = sample.value;
      if (!sample.le) continue;
      const auto before = last.find(key);
      if (before != last.end() && (*before->second.le >= *sample.le || before->second.value > sample.value)) {
        fault("buckets do not rise");
      }
      last[key] = sample;
    }
    for (const auto& [key, bucket] : last) {
      line_ = key;
      if (*bucket.le != std::numeric_limits<double>::infinity()) fault("no bucket +Inf");
      if (counts.count(key) == 0 || counts[key] != bucket.value) fault("_count is not the last bucket");
    }
  }

  PrometheusPage& page_;
  const bool is_open_;  // OpenMetrics.
  bool is_ended_ = false;
  std::string line_;
  std::set<std::string> helped_;
  std::set<std::string> units_;
  std::map<std::string, std::string> types_;
  std::set<std::string> families_;
  std::string last_family_;
  std::vector<Sample> samples_;
};

}  // namespace

PrometheusPage parse_prometheus(const std::string& text) {
  PrometheusPage page;
  Parser(page, MetricFormat::prometheus).parse(text);
  return page;
}

PrometheusPage parse_openmetrics(const std::string& text) {
  PrometheusPage page;
  Parser(page, MetricFormat::openmetrics).parse(text);
  return page;
}

}  // namespace penstock::tools
