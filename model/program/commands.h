// SPDX-License-Identifier: Apache-2.0

// The commands of penstock-model, each in a source of its name.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools {

void add_checkpoint(CommandLine& command);  // Seconds by each path, how often to save, and what a run loses.
// Benchmark results next to the predictions of a model calibrated on part of them.
void add_compare(CommandLine& command);
void add_constants(CommandLine& command);     // Every number that the models take from a source.
void add_contention(CommandLine& command);    // Contention in a PCIe tree: the command line of model/pcie.
void add_cost(CommandLine& command);          // The cost of a run and its checkpoints on rented machines.
void add_latency(CommandLine& command);       // One I/O, hop by hop.
void add_load(CommandLine& command);          // In checkpoint.cc: the same in the other direction.
void add_registration(CommandLine& command);  // The cost of registering memory, and when registering once pays.

}  // namespace penstock::tools
