// SPDX-License-Identifier: Apache-2.0

// The commands of penstock-model, each in a source of its name.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_checkpoint(CommandLine& command);    // Seconds by each path, how often to save, what a run loses.
void add_compare(CommandLine& command);       // Benchmark results beside what a model calibrated on part of them says.
void add_constants(CommandLine& command);     // Every number that the models take from a source.
void add_contention(CommandLine& command);    // How bytes contend in a PCIe tree: the face of model/pcie.
void add_cost(CommandLine& command);          // What a run and its checkpoints cost on rented machines.
void add_latency(CommandLine& command);       // One I/O, hop by hop.
void add_load(CommandLine& command);          // In checkpoint.cc: the same way in the other direction.
void add_registration(CommandLine& command);  // What registering memory costs, and when once is enough.

}  // namespace penstock::tools
