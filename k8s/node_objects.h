// SPDX-License-Identifier: Apache-2.0

// The objects of `penstock serve` on each node with a GPU, for `penstock-k8s render`: those of deploy/manifests, which
// are built into the tool. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "k8s/plan.h"

namespace penstock::tools::k8s {

extern const std::string_view kNodeManifest;  // The text of deploy/manifests/penstock.yaml.

// Adds the objects, with the manifest's image replaced.
void add_node_objects(const std::string& image, std::vector<Rendered>& objects);

}  // namespace penstock::tools::k8s
