// SPDX-License-Identifier: Apache-2.0

// The files that a lint was asked for: files, folders with all that is below them, standard input.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "k8s/manifest.h"

namespace penstock::tools::k8s {

constexpr std::size_t kFilesMax = 10'000;
constexpr std::size_t kInputBytesMax = std::size_t{256} << 20;  // Of all files,
constexpr std::size_t kInputValuesMax = 20'000'000;             // aliases counted with all that is in them.

// Of what a cluster printed of itself.
constexpr Bounds kDumpBounds = {.bytes = kInputBytesMax, .values = kInputValuesMax};

// Throws Failure, as for wrong usage, for what cannot be opened. "-" is standard input, and is called <stdin>.
std::deque<Manifest> read_inputs(const std::vector<std::string>& names, Bounds each = {});

}  // namespace penstock::tools::k8s
