// SPDX-License-Identifier: Apache-2.0

// penstock help WORD, for a word that is no command: a path, a reason, or a line with the name of one, an error of
// cuFile or of the system, or a word in the tools' tables and sentences. `penstock settings` explains settings; main()
// asks it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/common/command_line.h"
#include "tools/common/terminal.h"

namespace penstock::tools {

// Names with the sentences that are told of them.
using Topics = std::vector<std::pair<std::string, std::string>>;

// Adds the command. `commands` are proposed beside other topics where there is no such word.
void add_help(CommandLine& command, Topics commands);

// Nothing if it is no such word.
std::optional<Text> topic_text(std::string_view asked);

}  // namespace penstock::tools
