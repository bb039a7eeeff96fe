// SPDX-License-Identifier: Apache-2.0

// penstock k8s render: the objects that give pods one path to one kind of storage.
#pragma once

#include "tools/common/command_line.h"

namespace penstock::tools::k8s {

void add_render(CommandLine& command);

}  // namespace penstock::tools::k8s
