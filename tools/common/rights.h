// SPDX-License-Identifier: Apache-2.0

// The rights that this process would need to look at all others, as the kernel demands them at /proc/PID/fd: uid 0,
// CAP_SYS_PTRACE for processes with more capabilities, and CAP_DAC_READ_SEARCH (or CAP_DAC_OVERRIDE) for other users'
// folders. Containers give root few capabilities, so uid 0 alone says nothing.
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
// Parses the text of /proc/self/status; a right that the text does not name counts as missing.
Rights rights_in(std::string_view status);

// "run penstock as root", or the rights that root lacks here and that would show any process.
std::string remedy_of(const Rights& rights);
// One short line for a terminal: "1 process cannot be looked at: " and the remedy.
std::string hidden_text(unsigned processes, const Rights& rights);

}  // namespace penstock::tools
