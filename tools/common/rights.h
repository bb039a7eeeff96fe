// SPDX-License-Identifier: Apache-2.0

// What this process lacks to look at all others, as the kernel has it for /proc/PID/fd: uid 0, CAP_SYS_PTRACE for those
// with more capabilities, and CAP_DAC_READ_SEARCH (or CAP_DAC_OVERRIDE) for other users' folders. Containers give root
// few capabilities, so uid 0 alone says nothing.
#pragma once

#include <string>
#include <string_view>

namespace penstock::tools {

struct Rights {
  bool is_root = false;
  bool may_trace = false;
  bool may_read_all = false;
};

Rights own_rights();
// Of the text of /proc/self/status; none of what it does not tell.
Rights rights_in(std::string_view status);

// "run penstock as root", or what root lacks here: what would have it look at any process.
std::string remedy_of(const Rights& rights);
// "1 process may not be looked at: " and the remedy. Short, for a line of a terminal.
std::string hidden_text(unsigned processes, const Rights& rights);

}  // namespace penstock::tools
