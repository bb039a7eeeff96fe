// SPDX-License-Identifier: Apache-2.0

// The files that the words of a command line mean.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace penstock::tools {

constexpr std::size_t kFilesMost = 10'000;  // Below one folder, or of one pattern.

// A folder means the regular files below it, in order of their names, by no link to another folder; a word that is no
// file's name, but has *, ? or [ in it, means what a shell would make of it; any other word means itself. A folder
// without files, or with too many, and a pattern that nothing matches, are Failures.
std::vector<std::string> files_of(const std::vector<std::string>& words);

}  // namespace penstock::tools
