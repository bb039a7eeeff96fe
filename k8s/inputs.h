// SPDX-License-Identifier: Apache-2.0

// Reads the inputs of a lint: files, folders with everything below them, standard input.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "k8s/manifest.h"

namespace penstock::tools::k8s {

constexpr std::size_t kFilesMax = 10'000;
constexpr std::size_t kInputBytesMax = std::size_t{256} << 20;  // Limit over all files.
constexpr std::size_t kInputValuesMax = 20'000'000;  // Limit over all files; aliases count with their contents.

// Limits for a dump that a cluster printed.
constexpr Bounds kDumpBounds = {.bytes = kInputBytesMax, .values = kInputValuesMax};

// Throws Failure, as for wrong usage, if a file cannot be opened. "-" is standard input, named <stdin>.
std::deque<Manifest> read_inputs(const std::vector<std::string>& names, Bounds each = {});

}  // namespace penstock::tools::k8s
