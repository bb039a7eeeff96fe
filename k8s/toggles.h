// SPDX-License-Identifier: Apache-2.0

// What the operators should be told for a node: driver.rdma, useHostMofed, gds and the shared device plugin, each with
// why, by the node's adapter, kernel, driver, storage, and the path that was chosen for it. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "k8s/nodes.h"

namespace penstock::tools::k8s {

struct Toggle {
  const char* key;         // "driver.rdma.enabled"
  std::optional<bool> on;  // Nothing where the labels do not tell.
  std::string why;
};
std::vector<Toggle> toggles_of(const Node& node, const Choice& choice, const std::string& storage);

}  // namespace penstock::tools::k8s
