// SPDX-License-Identifier: Apache-2.0

#include "tools/check/deepspeed_config.h"

#include <algorithm>
#include <charconv>

#include "settings/words.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kFindingsMax = 256;  // A file can have a million unknown keys.

std::string in_small_letters(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text;
}

std::string value_text(const DeepSpeedValue& value) {
  if (value.is_object()) return "{ ... }";
  if (value.is_array()) return "[ ... ]";
  return core::shown(value.dump(-1, ' ', true, DeepSpeedValue::error_handler_t::replace));
}

// Null where the default counts.
const DeepSpeedValue* fitting(const DeepSpeedConfig& config, const DeepSpeedKey& key) {
  const DeepSpeedValue* value = config.find(std::string(key.block) + "." + std::string(key.name));
  return value != nullptr && is_of_kind(key, *value) ? value : nullptr;
}

bool fits_int64(const DeepSpeedValue& value) {
  return !value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX;
}

}  // namespace

bool is_of_kind(const DeepSpeedKey& key, const DeepSpeedValue& value) {
  switch (key.kind) {
    case DeepSpeedKind::boolean: return value.is_boolean();
    case DeepSpeedKind::whole: return value.is_number_integer() && fits_int64(value);
    case DeepSpeedKind::fraction: return value.is_number() && value.get<double>() >= 0 && value.get<double>() <= 1;
    case DeepSpeedKind::path: return value.is_string() && !value.get<std::string>().empty();
    case DeepSpeedKind::block: return value.is_object();
    case DeepSpeedKind::word: break;
  }
  if (!value.is_string()) return false;
  const std::string text = value.get<std::string>();
  return core::any_word(key.words, [&](std::string_view word) { return core::same_word(word, text); });
}

const DeepSpeedValue* DeepSpeedConfig::find(std::string_view name) const {
  const DeepSpeedValue* at = &document_.root;
  while (!name.empty()) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    if (!at->is_object()) return nullptr;
    const auto found = at->find(std::string(name.substr(0, dot)));
    if (found == at->end() || found->is_null()) return nullptr;
    at = &*found;
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  return at;
}

int DeepSpeedConfig::line(const std::string& name) const {
  const auto found = document_.lines.find(name);
  return found == document_.lines.end() ? 0 : found->second;
}

bool DeepSpeedConfig::is_on(std::string_view block, std::string_view name) const {
  const DeepSpeedKey* key = deepspeed_key(block, name);
  const DeepSpeedValue* value = fitting(*this, *key);
  return value != nullptr ? value->get<bool>() : std::string_view(key->initial) == "true";
}

std::int64_t DeepSpeedConfig::number(std::string_view block, std::string_view name) const {
  const DeepSpeedKey* key = deepspeed_key(block, name);
  if (const DeepSpeedValue* value = fitting(*this, *key)) return value->get<std::int64_t>();
  const std::string_view initial(key->initial);
  std::int64_t number = 0;
  std::from_chars(initial.data(), initial.data() + initial.size(), number);
  return number;
}

std::string DeepSpeedConfig::word(std::string_view block, std::string_view name) const {
  const DeepSpeedKey* key = deepspeed_key(block, name);
  const DeepSpeedValue* value = fitting(*this, *key);
  return value != nullptr ? in_small_letters(value->get<std::string>()) : key->initial;
}

int DeepSpeedConfig::stage() const {
  const DeepSpeedValue* value = find("zero_optimization.stage");
  const bool is_known = value != nullptr && value->is_number_integer() && *value >= 0 && *value <= 3;
  return is_known ? value->get<int>() : 0;
}

bool DeepSpeedConfig::has_writer() const {
  const DeepSpeedValue* writer = find("checkpoint.writer");
  return writer != nullptr && writer->is_object();
}

void DeepSpeedFindings::add(Severity severity, const char* code, const std::string& key, Text text) {
  if (list_.size() >= kFindingsMax) return;
  const DeepSpeedValue* value = config_.find(key);
  list_.push_back({.severity = severity,
                   .code = code,
                   .key = key,
                   .value = value != nullptr ? value_text(*value) : "",
                   .line = config_.line(key),
                   .expected = std::move(text.expected),
                   .cause = std::move(text.cause),
                   .remedy = std::move(text.remedy)});
}

std::vector<DeepSpeedFinding> DeepSpeedFindings::worst_first() const {
  std::vector<DeepSpeedFinding> list = list_;
  std::stable_sort(list.begin(), list.end(), [](const DeepSpeedFinding& one, const DeepSpeedFinding& other) {
    return one.severity > other.severity;
  });
  return list;
}

}  // namespace penstock::tools
