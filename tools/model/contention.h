// SPDX-License-Identifier: Apache-2.0

// `penstock model contention`: how bytes contend in a PCIe tree. The face of model/pcie.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock::tools {

void add_model_contention(CLI::App& parent, int& exit_code);

}  // namespace penstock::tools
