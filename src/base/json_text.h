// SPDX-License-Identifier: Apache-2.0

// Writes JSON as text, one value a line.
//
//   JsonText json;
//   json.open("", '{').add("version", 1).add("name", text).close('}');
//
// The library makes no tree of nlohmann's: the destructor of one allocates memory, and terminates the process if there
// is none.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>

namespace penstock::core {

// The text in quotes. Bytes that are not UTF-8 are replaced.
std::string json_quoted(const std::string& text);

// In a list the names are "".
class JsonText {
 public:
  JsonText& open(const std::string& name, char bracket);
  JsonText& close(char bracket);
  JsonText& add(const std::string& name, const std::string& value) { return add_value(name, json_quoted(value)); }
  JsonText& add(const std::string& name, std::integral auto number) { return add_value(name, std::to_string(number)); }
  JsonText& add_seconds(const std::string& name, std::uint64_t nanoseconds);

  const std::string& text() const { return text_; }

 private:
  JsonText& add_value(const std::string& name, const std::string& value);

  std::string text_;
  bool is_first_ = true;
};

}  // namespace penstock::core
