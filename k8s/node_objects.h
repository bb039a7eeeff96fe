// SPDX-License-Identifier: Apache-2.0

// The objects of `penstock serve` on each node with a GPU, for `penstock-k8s render`: those of deploy/manifests, which
// the tool carries. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "k8s/plan.h"

namespace penstock::tools::k8s {

extern const std::string_view kNodeManifest;  // All of deploy/manifests/penstock.yaml.

// With another image than the manifest's.
void add_node_objects(const std::string& image, std::vector<Rendered>& objects);

}  // namespace penstock::tools::k8s
