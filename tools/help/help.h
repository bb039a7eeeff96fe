// SPDX-License-Identifier: Apache-2.0

// penstock help WORD, where the word is no command: a path, a reason, or an error of cuFile or of the system, as they
// stand in reports and logs, or what the tools' tables and sentences say. Settings are told by `penstock settings`,
// which main() asks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/command_line.h"
#include "tools/common/terminal.h"

namespace penstock::tools {

// For what help lists alone: main() takes the word itself.
void add_help(CommandLine& command);

// Nothing where it is no such word.
std::optional<Text> topic_text(std::string_view word);
std::vector<std::string> topics();  // The names of paths, reasons and cuFile's errors, and words.

}  // namespace penstock::tools
