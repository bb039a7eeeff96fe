// SPDX-License-Identifier: Apache-2.0

// The only way by which the tools write to stdout and stderr. Who prints need not think of where a name came from:
// every argument that is text is escaped (base/printable.h), and only the format, which is a literal, may hold newlines
// and what moves the cursor. Text of several lines that is put together first is a Text.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/printable.h"

namespace penstock::tools {

using core::printable;

class Text;

namespace terminal {

template <typename T>
auto shown(const T& value) {
  if constexpr (std::is_same_v<T, Text>) {
    return std::string_view(value.string());
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return printable(std::string_view(value));
  } else {
    static_assert((std::is_arithmetic_v<T> && !std::is_same_v<T, char>) || std::is_same_v<T, const void*>,
                  "print text, numbers and addresses");
    return value;
  }
}

template <typename... Args>
using Format = fmt::format_string<decltype(shown(std::declval<const Args&>()))...>;

void write_out(std::string_view safe);
void write_error(std::string_view safe);

}  // namespace terminal

// Safe to print: escaped, but for the newlines between its lines and for tabs.
class Text {
 public:
  Text() = default;
  explicit Text(std::string_view lines) : safe_(printable(lines, "\n\t")) {}
  // What print() would print: a newline in an argument ends no line.
  template <typename... Args>
  static Text of(terminal::Format<Args...> format, const Args&... args) {
    Text text;
    text.safe_ = fmt::format(format, terminal::shown(args)...);
    return text;
  }
  Text& operator+=(const Text& more) {
    safe_ += more.safe_;
    return *this;
  }
  const std::string& string() const { return safe_; }

 private:
  std::string safe_;
};

// Neither throws where output does not arrive: flush_output() tells.
template <typename... Args>
void print(terminal::Format<Args...> format, const Args&... args) {
  terminal::write_out(fmt::format(format, terminal::shown(args)...));
}
template <typename... Args>
void print_error(terminal::Format<Args...> format, const Args&... args) {
  terminal::write_error(fmt::format(format, terminal::shown(args)...));
}

// False where something that print() was given has not arrived: a full disk, a closed pipe. errno is the last flush's.
bool flush_output();

bool output_is_terminal();  // Of print().
bool error_is_terminal();   // Of print_error().

}  // namespace penstock::tools
