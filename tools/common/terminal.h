// SPDX-License-Identifier: Apache-2.0

// The only way by which the tools write to stdout and stderr. A caller need not think of where a name came from: every
// argument that is text is escaped (base/printable.h), and only the format, which is a literal, may hold newlines and
// control the cursor. Text of several lines that is put together first is a Text.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/printable.h"

namespace penstock::tools {

using core::printable;

class Text;

// Shown on a terminal alone, unless the user asked for it or against it.
enum class Color : std::uint8_t { green, yellow, red, bold };

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
  // Formats like print(): a newline in an argument ends no line.
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
  // The same, in a colour where colours are shown.
  static Text painted(Color color, std::string_view words);
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

// "always", "never", or "auto": on a terminal that is not dumb, where NO_COLOR (no-color.org) is not set.
void show_colors(std::string_view when);
// For text of people: the terminal's width, within reason; 100 where the output goes elsewhere.
std::size_t output_columns();

// The whole terminal, for a page that stays and changes. The old content comes back with the end of this object, and
// also when a signal, of a crash or of an interruption that the command does not heed, ends the process. One at a time,
// and only where there can be one.
class Screen {
 public:
  struct Size {
    std::size_t columns, rows;
  };
  using Time = std::chrono::steady_clock::time_point;

  static bool is_possible();  // Print() reaches a terminal with a cursor to move.
  Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();

  Size size() const;  // Now.
  // In one write. Lines that are too many or too long are cut off. False if the terminal is gone.
  bool show(const std::vector<Text>& lines);
  // The key that was pressed until `end`; 0 for none, also when the size changes, and when it is interrupted.
  char key_until(Time end);

 private:
  int keyboard_;  // -1 where there is none.
};

}  // namespace penstock::tools
