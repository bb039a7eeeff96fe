// SPDX-License-Identifier: Apache-2.0

#include "model/program/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>
#include <vector>

#include "model/words.h"

namespace penstock::tools {
namespace {

enum class Kind { plain, seconds, hours, bytes, bytes_per_s, money };

Kind kind_of(std::string_view name) {
  const auto ends = [&](std::string_view unit) {
    return name == unit || (name.ends_with(unit) && name[name.size() - unit.size() - 1] == '_');
  };
  if (ends("bytes_per_s")) return Kind::bytes_per_s;
  if (name.ends_with("_per_s")) return Kind::plain;
  if (ends("s") || ends("seconds")) return Kind::seconds;
  if (ends("hours")) return Kind::hours;
  if (ends("bytes")) return Kind::bytes;
  return ends("money") ? Kind::money : Kind::plain;
}

struct InputWords {
  std::string_view name;
  const char* words;
  std::array<const char*, 3> options;
  std::string_view constant{};  // The constant that is this input, which --set may give.
};

constexpr InputWords kInputs[] = {
    {"buffer_bytes", "bytes of one I/O", {"--buffer"}},
    {"buffers", "host buffers of a worker", {"--buffers"}},
    {"bytes", "size", {"--size-gb", "--size", "--parameters"}},
    {"checkpoints", "checkpoints in the run", {"--checkpoints", "--every"}},
    {"contexts", "GPUs with a context", {"--contexts"}},
    {"drive_bytes_per_s", "rate of a drive", {"--drive-gb-per-s", "--write-gb-per-s"}},
    {"drive_cache_bytes", "cache of a node's drives", {"--drive-cache-gb"}},
    {"drive_write_bytes_per_s", "rate of a drive's writes", {}},
    {"drives_per_node", "drives in each node", {"--drives"}},
    {"fabric_bytes_per_s", "rate of shared storage", {"--fabric-gb-per-s"}},
    {"file_system", "shared file system", {"--file-system"}},
    {"file_system_bytes", "its size", {"--file-system-tb"}},
    {"file_system_bytes_per_s", "its rate", {}},
    {"files", "files one after the other", {"--files"}},
    {"gain", "gain asked for", {"--gain-percent"}},
    {"gpu_hour_money", "$ for a GPU and hour", {"--price"}, "price.gpu_hour"},
    {"hold_out_every", "every so many points one is left out", {"--hold-out"}},
    {"ios", "I/Os for one registration", {"--ios"}},
    {"is_write", "from the GPU to the drive", {"--write"}},
    {"link_bytes_per_s", "rate of the link", {"--link-gbit", "--calibrate"}},
    {"measured_bytes_per_s", "rate measured here", {"--calibrate"}},
    {"mtbf_s", "from one failure to the next", {"--mtbf-hours"}},
    {"network_bytes_per_s", "rate of the network", {"--network-gbit"}},
    {"nodes", "nodes", {"--nodes"}},
    {"offered_bytes_per_s", "rate of the file system that is offered", {"--offer-gb-per-s"}},
    {"offered_read_bytes_per_s", "the same for loads", {"--offer-gb-per-s"}},
    {"offered_month_money", "$ a month for it", {"--offer-month"}},
    {"optimizer_bytes", "optimizer's state for a parameter", {"--optimizer"}},
    {"parameters", "parameters", {"--parameters"}},
    {"ranks", "GPUs of all nodes", {"--ranks"}},
    {"replicated", "every rank moves everything", {"--replicated"}},
    {"restart_s", "from a failure to the load", {"--restart-s"}},
    {"run_hours", "length of the run", {"--hours"}},
    {"setup_hours", "set-up of a node", {"--setup-hours"}},
    {"setup_money", "$ for the set-up besides", {"--setup-money"}},
    {"setup_s", "set-up besides", {"--setup-us"}},
    {"sharded", "each rank moves its part", {"--one-rank"}},
    {"snapshot_s", "to copy the state out of the way", {}},
    {"window_s", "window", {"--window"}},
    {"weight_bytes", "a weight", {"--precision"}},
    {"workers", "workers that share the NIC", {"--workers"}},
};

const InputWords* words_of(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kInputs), std::end(kInputs), [&](const InputWords& one) { return one.name == name; });
  return found == std::end(kInputs) ? nullptr : found;
}

}  // namespace

std::string worded(const model::Json& value, std::string_view name) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_number()) return value.dump(-1, ' ', false, model::Json::error_handler_t::replace);
  const double number = value.get<double>();
  switch (kind_of(name)) {
    case Kind::seconds: return model::time_in_words(number);
    case Kind::hours: return model::time_in_words(number * 3600);
    case Kind::bytes: return model::size_in_words(number);
    case Kind::bytes_per_s: return model::rate_in_words(number);
    case Kind::money: return fmt::format("{:.2f}", number);
    case Kind::plain: break;
  }
  return model::count_in_words(number);
}

std::string label_for_worded(const model::Column& column) {
  const Kind kind = kind_of(column.name);
  for (const auto& [of, unit] : {std::pair{Kind::seconds, ", s"}, {Kind::hours, ", h"}, {Kind::bytes, ", B"}}) {
    if (kind == of && column.label.ends_with(unit)) return column.label.substr(0, column.label.size() - 3);
  }
  return column.label;
}

std::string input_in_words(std::string_view name) {
  const InputWords* found = words_of(name);
  return found == nullptr ? std::string(name) : found->words;
}

std::vector<std::string> options_of_input(std::string_view name) {
  std::vector<std::string> options;
  const InputWords* found = words_of(name);
  if (found == nullptr) return options;
  for (const char* option : found->options) {
    if (option != nullptr) options.emplace_back(option);
  }
  return options;
}

std::string_view constant_of_input(std::string_view name) {
  const InputWords* found = words_of(name);
  return found == nullptr ? std::string_view() : found->constant;
}

}  // namespace penstock::tools
