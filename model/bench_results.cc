// SPDX-License-Identifier: Apache-2.0

#include "model/bench_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/input.h"

namespace penstock::model {
namespace {

using nlohmann::json;

double positive_at(const json& object, const char* section, const char* key, const std::string& where) {
  const json* found = object.contains(section) && object[section].contains(key) ? &object[section][key] : nullptr;
  if (found == nullptr || !found->is_number()) {
    throw InvalidInput(
        fmt::format("{}: there is no number {}.{}; give what 'penstock bench --json' prints", where, section, key));
  }
  require_positive(fmt::format("{}: {}.{}", where, section, key), found->get<double>(), 1e18);
  return found->get<double>();
}

// The path that moved most of the bytes.
std::string path_of(const json& result) {
  std::string path = "unknown path";
  double most = 0;
  if (!result.contains("bytes_by_path") || !result["bytes_by_path"].is_object()) return path;
  for (const auto& [name, bytes] : result["bytes_by_path"].items()) {
    if (!bytes.is_number() || bytes.get<double>() <= most) continue;
    most = bytes.get<double>();
    path = name;
  }
  return path;
}

Measurement measurement_of(const json& result, const std::string& where) {
  if (!result.is_object() || !result.contains("settings") || !result["settings"].is_object() ||
      !result.contains("result") || !result["result"].is_object()) {
    throw InvalidInput(where + " is no result of 'penstock bench --json'");
  }
  Measurement one;
  one.block_bytes = positive_at(result, "settings", "block_size", where);
  one.threads = positive_at(result, "settings", "threads", where);
  one.depth = positive_at(result, "settings", "depth", where);
  one.bytes_per_s = positive_at(result, "result", "bytes", where) / positive_at(result, "result", "seconds", where);
  const json& operation = result["settings"].value("rw", json());
  one.operation = operation.is_string() ? operation.get<std::string>() : "read";
  const json direct = result["result"].value("direct_bytes", json(0)),
             cached = result["result"].value("cached_bytes", json(0));
  one.is_direct = direct.is_number() && cached.is_number() && direct.get<double>() > cached.get<double>();
  one.group = fmt::format("{}, {}, {}", one.operation, path_of(result), one.is_direct ? "O_DIRECT" : "page cache");
  return one;
}

void add_value(const json& value, std::string_view name, std::vector<Measurement>& all) {
  const auto add = [&](const json& one) {
    all.push_back(measurement_of(one, fmt::format("{}, result {}", name, all.size() + 1)));
  };
  const bool is_sweep = value.is_object() && value.contains("results") && value["results"].is_array();
  if (!is_sweep && !value.is_array()) return add(value);
  for (const json& element : is_sweep ? value["results"] : value) add(element);
}

}  // namespace

std::vector<Measurement> bench_results(const std::string& text, std::string_view name) {
  std::vector<Measurement> all;
  std::istringstream stream(text);
  while (stream >> std::ws && !stream.eof()) {
    json value;
    try {
      stream >> value;
    } catch (const json::exception&) {
      throw InvalidInput(fmt::format("{}: what follows result {} is no JSON", name, all.size()));
    }
    add_value(value, name, all);
  }
  if (all.empty()) throw InvalidInput(fmt::format("{} holds no result of 'penstock bench --json'", name));
  return all;
}

}  // namespace penstock::model
