// SPDX-License-Identifier: Apache-2.0

// The commands of penstock-k8s, each in a source of its name.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools::k8s {

void add_choose(CommandLine& command);       // Lists which nodes may have which path, and why no better one.
void add_explain_log(CommandLine& command);  // Explains the log of a failing pod: cause and remedy.
void add_lint(CommandLine& command);         // Finds errors in manifests before they reach a cluster.
void add_render(CommandLine& command);       // Prints the objects that give pods one path to one kind of storage.
// Judges from evidence which direct path a node has to which storage, and the first obstacle.
void add_verify(CommandLine& command);

}  // namespace penstock::tools::k8s
