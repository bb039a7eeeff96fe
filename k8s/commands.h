// SPDX-License-Identifier: Apache-2.0

// The commands of penstock-k8s, each in a source of its name.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools::k8s {

void add_choose(CommandLine& command);       // Which nodes may have which path, and why no better one.
void add_explain_log(CommandLine& command);  // From the log of a pod that fails to what is wrong and what to do.
void add_lint(CommandLine& command);         // What is wrong in manifests, before a cluster sees them.
void add_render(CommandLine& command);       // The objects that give pods one path to one kind of storage.
// From evidence, which direct path a node has to which storage, and what stands in its way first.
void add_verify(CommandLine& command);

}  // namespace penstock::tools::k8s
