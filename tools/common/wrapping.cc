// SPDX-License-Identifier: Apache-2.0

#include "tools/common/wrapping.h"

#include <algorithm>

namespace penstock::tools {
namespace {

constexpr auto kNone = std::string_view::npos;

// The columns that text takes on a terminal.
std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  bool is_code = false;
  for (const char byte : text) {
    if (byte == '\033') is_code = true;
    else if (is_code) is_code = byte != 'm';
    else if ((static_cast<unsigned char>(byte) & 0xc0) != 0x80) ++width;  // Not the second byte of a letter, or later.
  }
  return width;
}

// Finds the last blank before which the line fits, else the first one.
std::size_t break_of(std::string_view line, std::size_t from, std::size_t columns) {
  std::size_t best = line.find(' ', from);
  for (std::size_t blank = best; blank != kNone && width_of(line.substr(0, blank)) <= columns;
       blank = line.find(' ', blank + 1)) {
    best = blank;
  }
  return best;
}

void add_trimmed(std::string& text, std::string_view line) {
  text += line.substr(0, line.find_last_not_of(' ') + 1);
  text += '\n';
}

// Finds where the last column begins of those that begin within `columns`; 0 if the line has no columns.
std::size_t last_column_of(std::string_view line, std::size_t columns) {
  std::size_t column = 0;
  for (std::size_t gap = line.find("  ", line.find_first_not_of(' '));
       gap != kNone && width_of(line.substr(0, gap)) <= columns; gap = line.find("  ", column)) {
    column = std::min(line.find_first_not_of(' ', gap), line.size());
  }
  return column;
}

// Finds where a sentence goes on below itself: two columns in.
std::size_t hang_of_sentence(std::string_view line) { return std::min(line.find_first_not_of(' '), line.size()) + 2; }

// Breaks a line that is too wide.
std::string broken(std::string_view line, std::size_t columns) {
  constexpr std::size_t kIndent = 4;
  const std::size_t column = last_column_of(line, columns);
  if (column == 0) return wrapped_line(line, hang_of_sentence(line), columns);
  if (width_of(line.substr(0, column)) < columns * 3 / 4) return wrapped_line(line, column, columns);
  std::string text;
  add_trimmed(text, line.substr(0, column));
  return text + wrapped_line(std::string(kIndent, ' ').append(line.substr(column)), kIndent, columns);
}

}  // namespace

std::string wrapped_line(std::string_view line, std::size_t hang, std::size_t columns) {
  std::string text;
  const std::size_t indent = width_of(line.substr(0, hang));
  for (std::size_t from = hang, before = 0; before + width_of(line) > columns; from = 0, before = indent) {
    const std::size_t at = break_of(line, from, columns - std::min(before, columns));
    if (at == kNone) break;
    add_trimmed(text, line.substr(0, at));
    line.remove_prefix(std::min(line.find_first_not_of(' ', at), line.size()));
    text.append(indent, ' ');
  }
  add_trimmed(text, line);
  return text;
}

std::string wrapped(std::string_view lines, std::size_t columns) {
  std::string text;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    const bool is_whole = line.size() < lines.size();
    if (width_of(line) > columns) text += broken(line, columns);
    else text.append(line).append("\n");
    if (!is_whole) text.pop_back();
    lines.remove_prefix(line.size() + (is_whole ? 1 : 0));
  }
  return text;
}

}  // namespace penstock::tools
