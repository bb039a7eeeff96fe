// SPDX-License-Identifier: Apache-2.0

// Text that comes from elsewhere (a file's name, /sys, a configuration file, another process) made fit for a terminal,
// a log or a line of a report: it can move no cursor, set no title, turn no text around and begin no line of its own.
#pragma once

#include <string>
#include <string_view>

namespace penstock::core {

// Every byte of what is no text (control characters, C1 ones too, bytes that are no UTF-8) or that turns text around is
// shown as \x1b; all else stays as it is. `kept`: control characters of ASCII to let by, such as "\n" for text of
// several lines.
std::string printable(std::string_view text, std::string_view kept = "");

// True where all of the text is UTF-8, control characters included.
bool is_utf8(std::string_view text);

}  // namespace penstock::core
