// SPDX-License-Identifier: Apache-2.0

// The only way in which the tools write to stdout and stderr. Callers need not care where a name came from: every
// argument that is text is escaped (base/printable.h), and only the format, a literal, may hold newlines and control
// the cursor. Text of several lines that is put together first is a Text.
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

// Colours are shown on a terminal only, unless the user asks for them or turns them off.
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
void write_document(std::string_view safe);
void write_error(std::string_view safe);
// After this call no line is broken: their form is another program's.
void show_long_lines();

}  // namespace terminal

// Text that is safe to print: everything is escaped except the newlines between its lines, and tabs.
class Text {
 public:
  Text() = default;
  explicit Text(std::string_view lines) : safe_(printable(lines, "\n\t")) {}
  // Formats like print(): a newline in an argument does not end a line.
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
  // Makes text in a colour, if colours are shown.
  static Text painted(Color color, std::string_view words);
  const std::string& string() const { return safe_; }

 private:
  std::string safe_;
};

// Prints a document for programs (JSON, CSV, YAML), whose lines are never broken.
inline void print_document(const Text& text) { terminal::write_document(text.string()); }

// Both break lines that are wider than the terminal they go to. Neither throws if the output does not arrive:
// flush_output() reports that.
template <typename... Args>
void print(terminal::Format<Args...> format, const Args&... args) {
  terminal::write_out(fmt::format(format, terminal::shown(args)...));
}
template <typename... Args>
void print_error(terminal::Format<Args...> format, const Args&... args) {
  terminal::write_error(fmt::format(format, terminal::shown(args)...));
}

// False if any output of print() did not arrive: the disk is full, or the pipe closed. errno is that of the last flush.
bool flush_output();

bool output_is_terminal();  // The output of print().
bool error_is_terminal();   // The output of print_error().

// Turns colours on or off: "always", "never", or "auto", which means on if the output goes to a terminal that is not
// dumb and NO_COLOR (no-color.org) is not set.
void show_colors(std::string_view when);
// The width for text that people read: the terminal's, within reason; 100 if the output goes elsewhere.
std::size_t output_columns();

// The whole terminal, for a page that stays and changes. The old content comes back when this object is destroyed, and
// also when a signal ends the process (after a crash, or an interruption that the command ignores). Only one may exist
// at a time, and only if is_possible().
class Screen {
 public:
  struct Size {
    std::size_t columns, rows;
  };
  using Time = std::chrono::steady_clock::time_point;

  static bool is_possible();  // True if print() writes to a terminal whose cursor can be moved.
  Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();

  Size size() const;  // The size at this moment.
  // Shows the lines in one write. Lines that are too many or too long are cut off. False if the terminal is gone.
  bool show(const std::vector<Text>& lines);
  // The key that is pressed before `end`; 0 if none is, and when the size changes or an interruption comes.
  char key_until(Time end);

 private:
  int keyboard_;  // -1 if there is no keyboard.
};

}  // namespace penstock::tools
