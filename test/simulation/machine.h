// SPDX-License-Identifier: Apache-2.0

// What a simulated machine tells of itself: the same wherever it is simulated, so that a seed means one run. Its kernel
// lists its symbols, which the seed draws, and how much memory there is; no device and no library is installed, but for
// those that the run plugs in.
#pragma once

#include <string>
#include <string_view>

namespace penstock::simulation {

// A descriptor of a file with this text.
int open_text(const std::string& text);
// True if the simulated machine answers for this name, not the real one.
bool is_of_machine(std::string_view name);
// False if it is not. True: `fd` is a descriptor, or -1 with an errno.
bool open_of_machine(std::string_view name, int& fd);

}  // namespace penstock::simulation
