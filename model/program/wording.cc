// SPDX-License-Identifier: Apache-2.0

#include "model/program/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

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
  constexpr std::pair<std::string_view, const char*> kWords[] = {
      {"buffer_bytes", "bytes of one I/O"},
      {"buffers", "host buffers of a worker"},
      {"bytes", "size"},
      {"checkpoints", "checkpoints in the run"},
      {"contexts", "GPUs with a context"},
      {"drive_bytes_per_s", "rate of a drive"},
      {"drive_cache_bytes", "cache of a node's drives"},
      {"drive_write_bytes_per_s", "rate of a drive's writes"},
      {"drives_per_node", "drives in each node"},
      {"fabric_bytes_per_s", "rate of shared storage"},
      {"file_system", "shared file system"},
      {"file_system_bytes_per_s", "its rate"},
      {"files", "files one after the other"},
      {"gain", "gain asked for"},
      {"hold_out_every", "every so many points one is left out"},
      {"ios", "I/Os for one registration"},
      {"link_bytes_per_s", "rate of the link"},
      {"measured_bytes_per_s", "rate measured here"},
      {"mtbf_s", "from one failure to the next"},
      {"network_bytes_per_s", "rate of the network"},
      {"optimizer_bytes", "optimizer's state for a parameter"},
      {"ranks", "GPUs"},
      {"replicated", "every rank moves everything"},
      {"restart_s", "from a failure to the load"},
      {"run_hours", "length of the run"},
      {"setup_s", "set-up besides"},
      {"sharded", "each rank moves its part"},
      {"snapshot_s", "to copy the state out of the way"},
      {"window_s", "window"},
      {"weight_bytes", "a weight"},
      {"workers", "workers that share the NIC"},
  };
  const auto* found =
      std::find_if(std::begin(kWords), std::end(kWords), [&](const auto& one) { return one.first == name; });
  return found == std::end(kWords) ? std::string(name) : found->second;
}

}  // namespace penstock::tools
