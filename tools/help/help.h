// SPDX-License-Identifier: Apache-2.0

// penstock help WORD, for a word that is no command: a path, a reason, an error of cuFile or of the system, or a word
// in the tools' tables and sentences. `penstock settings` explains settings; main() asks it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/command_line.h"
#include "tools/common/terminal.h"

namespace penstock::tools {

// Adds the command only so that help lists it: main() reads the word itself.
void add_help(CommandLine& command);

// Nothing if it is no such word.
std::optional<Text> topic_text(std::string_view word);
std::vector<std::string> topics();  // The names of paths, reasons and cuFile's errors, and words.

}  // namespace penstock::tools
