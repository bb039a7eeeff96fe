// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/results.h"

#include <fmt/format.h>

#include <string_view>

#include "tools/common/failure.h"
#include "tools/common/files.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kSizeMost = std::size_t{64} << 20;

// Any name and kind of value may be missing: null then.
const Json& at(const Json& object, const char* name) {
  static const Json kNothing;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : kNothing;
}

double figure(const Json& rate, const char* name, const std::string& file) {
  const Json& value = at(rate, name);
  // An interval that is very wide ends at 0.
  const double least = std::string_view(name) == "low" ? 0 : 1e-12;
  if (value.is_number() && value.get<double>() >= least && value.get<double>() < 1e12) return value.get<double>();
  throw Failure(fmt::format("{}: its rate has no {}: it was measured too shortly, or by an older penstock; measure it "
                            "again, with --time 5",
                            file, name),
                kUsage);
}

}  // namespace

StoredResult read_result(const std::string& file) {
  const std::string text = read_bounded(file, kSizeMost);
  const Json json = text.size() > kSizeMost ? Json() : Json::parse(text, nullptr, false);
  const Json& result = at(json, "result");
  if (json.is_discarded() || !result.is_object()) {
    throw Failure(file + ": is no result of 'penstock bench --json', of which one is compared", kUsage);
  }
  StoredResult stored;
  stored.file = file;
  stored.settings = at(json, "settings");
  stored.is_with_fsync = at(result, "with_fsync").is_object() && at(at(result, "with_fsync"), "low").is_number();
  const Json& rate = at(result, stored.is_with_fsync ? "with_fsync" : "rate");
  stored.estimate.low = figure(rate, "low", file) * 1e9;
  stored.estimate.high = figure(rate, "high", file) * 1e9;
  stored.estimate.rate = figure(rate, "gb_per_s", file) * 1e9;
  stored.estimate.degrees = figure(rate, "degrees_of_freedom", file);
  return stored;
}

std::vector<std::string> differences_of(const StoredResult& a, const StoredResult& b) {
  std::vector<std::string> all;
  if (a.is_with_fsync != b.is_with_fsync) all.emplace_back("one rate has its fsync in it, the other has none");
  for (const char* name : {"rw", "file", "file_system", "block_size", "offset", "size", "threads", "depth",
                           "descriptor", "memory", "registered", "verify", "warm", "drop_cache", "environment"}) {
    const auto text = [](const Json& value) { return value.dump(-1, ' ', true, Json::error_handler_t::replace); };
    const Json &first = at(a.settings, name), &second = at(b.settings, name);
    if (first != second) all.push_back(fmt::format("{}: {} against {}", name, text(first), text(second)));
  }
  return all;
}

}  // namespace penstock::tools
