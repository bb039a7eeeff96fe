// SPDX-License-Identifier: Apache-2.0

// Reports of transfers, and paths' verdicts, as Python objects.
#pragma once

#include <nanobind/nanobind.h>

#include "penstock/penstock.h"

namespace penstock::python {

struct Report {
  penstock_report raw{};
};

inline Report empty_report() {
  Report report;
  report.raw.struct_size = sizeof report.raw;
  return report;
}

nanobind::dict verdict_of(const penstock_verdict& verdict);
void bind_report(nanobind::module_& module);

}  // namespace penstock::python
