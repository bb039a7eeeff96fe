// SPDX-License-Identifier: Apache-2.0

// Text from elsewhere (a file's name, /sys, a configuration file, another process), made fit for a terminal, a log or a
// line of a report: it cannot move the cursor, set a title, reverse the text's direction or begin a line.
#pragma once

#include <string>
#include <string_view>

namespace penstock::core {

// Shows every byte that is no text (control characters, also C1; bytes that are no UTF-8), and every character that
// reverses text, as \x1b; all else stays as it is. `kept` are control characters of ASCII that stay, such as "\n" in
// text of several lines.
std::string printable(std::string_view text, std::string_view kept = "");

// True if all of the text is UTF-8; control characters may be in it.
bool is_utf8(std::string_view text);

}  // namespace penstock::core
