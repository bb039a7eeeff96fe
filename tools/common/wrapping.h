// SPDX-License-Identifier: Apache-2.0

// Breaks lines between words where they are wider than a terminal. Pages do so to what they collect, and print() to all
// that goes to a terminal. Pure. It takes text that is safe to print.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::tools {

// Breaks one line; it goes on below itself at the offset `hang`. The text ends with a newline, and without blanks.
std::string wrapped_line(std::string_view line, std::size_t hang, std::size_t columns);

// Breaks those lines that are too wide. A line of columns, which two blanks separate, goes on below its last one; where
// that begins far to the right, it has a line of its own. Others go on two columns in. Codes of colours take no room.
std::string wrapped(std::string_view lines, std::size_t columns);

}  // namespace penstock::tools
