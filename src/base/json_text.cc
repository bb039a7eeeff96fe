// SPDX-License-Identifier: Apache-2.0

#include "base/json_text.h"

#include <nlohmann/json.hpp>

namespace penstock::core {

std::string json_quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

JsonText& JsonText::open(const std::string& name, char bracket) {
  add_value(name, std::string(1, bracket));
  is_first_ = true;
  return *this;
}

JsonText& JsonText::close(char bracket) {
  text_ += bracket;
  is_first_ = false;
  return *this;
}

JsonText& JsonText::add_seconds(const std::string& name, std::uint64_t nanoseconds) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const std::string digits = std::to_string(kSecond + nanoseconds % kSecond).substr(1);
  return add_value(name, std::to_string(nanoseconds / kSecond) + "." + digits);
}

JsonText& JsonText::add_value(const std::string& name, const std::string& value) {
  if (!is_first_) text_ += ",";
  if (!text_.empty()) text_ += "\n";
  if (!name.empty()) text_ += json_quoted(name) + ": ";
  text_ += value;
  is_first_ = false;
  return *this;
}

}  // namespace penstock::core
