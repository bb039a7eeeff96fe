// SPDX-License-Identifier: Apache-2.0

// penstock._native: the parts that the package's Python files build on. Nothing here is public by itself.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "python/native/blocks.h"
#include "python/native/engine.h"
#include "python/native/file.h"
#include "python/native/gpu_file.h"
#include "python/native/kv.h"
#include "python/native/memory.h"
#include "python/native/no_gil.h"
#include "python/native/ranges.h"
#include "python/native/records.h"
#include "python/native/report.h"
#include "python/native/requests.h"
#include "python/native/session.h"

namespace nb = nanobind;

namespace penstock::python {

void bind_distance(nb::module_& module);
void bind_torch_pool(nb::module_& module);
void bind_weights(nb::module_& module);

namespace {

nb::dict describe_engine() {
  nb::dict result;
  result["version"] = engine().version();
  result["library"] = engine().library;
  result["is_cufile"] = engine().is_cufile();
  return result;
}

}  // namespace
}  // namespace penstock::python

NB_MODULE(_native, module) {
  using namespace penstock::python;
  bind_report(module);
  bind_session(module);
  bind_file(module);
  bind_requests(module);
  bind_ranges(module);
  bind_distance(module);
  bind_blocks(module);
  bind_gpu_file(module);
  bind_kv(module);
  bind_records(module);
  bind_torch_pool(module);
  bind_weights(module);
  nb::class_<Pointer>(
      module, "Pointer",
      "Memory by its address, which the caller answers for: of the host or of a device. `owner`, if it is "
      "given, is kept alive while a request uses the memory.")
      .def(
          "__init__",
          [](Pointer* pointer, std::uint64_t address, std::uint64_t nbytes, nb::object owner) {
            new (pointer) Pointer{address, nbytes, std::move(owner)};
          },
          nb::arg("address"), nb::arg("nbytes"), nb::arg("owner").none() = nb::none())
      .def_ro("address", &Pointer::address)
      .def_ro("nbytes", &Pointer::nbytes);
  module.attr("__version__") = PENSTOCK_VERSION;
  module.def("set_library_folder", &set_library_folder);
  module.def("engine", &describe_engine);
  module.def("begin_ending", [] {
    nb::set_leak_warnings(false);  // Objects that remain at exit remain on purpose.
    const nb::gil_scoped_release no_gil;
    begin_ending();
  });
}
