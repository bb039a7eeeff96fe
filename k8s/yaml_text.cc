// SPDX-License-Identifier: Apache-2.0

#include "k8s/yaml_text.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace penstock::tools::k8s {
namespace {

using nlohmann::ordered_json;

// False for text that YAML 1.1 or 1.2 read as a number, boolean, date or null: yaml-cpp would leave "on" unquoted.
bool is_plain(std::string_view text) {
  constexpr std::string_view kWords[] = {"true", "false", "yes", "no", "on", "off", "null", "y", "n", "nan", "inf"};
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower.empty() || std::find(std::begin(kWords), std::end(kWords), lower) != std::end(kWords)) return false;
  if (std::isalpha(static_cast<unsigned char>(lower[0])) == 0 && lower[0] != '/') return false;
  return lower.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789/._-") == std::string::npos;
}

void emit(YAML::Emitter& out, const ordered_json& value) {
  switch (value.type()) {
    case ordered_json::value_t::object:
      if (value.empty()) out << YAML::Flow;
      out << YAML::BeginMap;
      for (const auto& [key, each] : value.items()) {
        out << YAML::Key;
        emit(out, key);
        out << YAML::Value;
        emit(out, each);
      }
      out << YAML::EndMap;
      break;
    case ordered_json::value_t::array:
      if (value.empty()) out << YAML::Flow;
      out << YAML::BeginSeq;
      for (const ordered_json& each : value) emit(out, each);
      out << YAML::EndSeq;
      break;
    case ordered_json::value_t::string: {
      std::string_view text = value.get_ref<const std::string&>();
      // A literal block always ends with exactly one newline.
      const bool is_block = text.find('\n') < text.size() - 1 && text.ends_with('\n') && !text.ends_with("\n\n");
      if (is_block) text.remove_suffix(1);
      if (is_block) out << YAML::Literal;
      else if (!is_plain(text)) out << YAML::DoubleQuoted;
      out << std::string(text);
      break;
    }
    case ordered_json::value_t::boolean: out << value.get<bool>(); break;
    default: out << value.dump(); break;  // Numbers, null.
  }
}

}  // namespace

std::string yaml_text(const ordered_json& value) {
  YAML::Emitter out;
  out.SetIndent(2);
  emit(out, value);
  return std::string(out.c_str()) + "\n";
}

}  // namespace penstock::tools::k8s
