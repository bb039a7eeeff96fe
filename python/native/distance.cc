// SPDX-License-Identifier: Apache-2.0

#include "topology/distance.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "python/native/no_gil.h"
#include "topology/mounts.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

int distance(const std::string& path, const std::string& gpu, const std::string& root) {
  const NoGil no_gil;
  const core::Result<core::Root> machine = core::Root::open(root);
  return static_cast<int>(machine.ok() ? core::distance_of(*machine, path, gpu) : core::Distance::unknown);
}

nb::tuple distance_names() {
  return nb::make_tuple(core::distance_name(core::Distance::same_switch),
                        core::distance_name(core::Distance::same_host_bridge),
                        core::distance_name(core::Distance::same_node), core::distance_name(core::Distance::unknown),
                        core::distance_name(core::Distance::apart));
}

}  // namespace

void bind_distance(nb::module_& module) {
  module.def("distance", &distance, nb::arg("path"), nb::arg("gpu"), nb::arg("root") = "");
  module.def("distance_names", &distance_names);
  module.def("is_network_file_system", [](const std::string& type) { return core::is_network_file_system(type); });
}

}  // namespace penstock::python
