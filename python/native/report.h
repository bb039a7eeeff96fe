// SPDX-License-Identifier: Apache-2.0

// Reports of transfers, and paths' verdicts, as Python objects.
#pragma once

#include <nanobind/nanobind.h>

#include "kv/queue_pool.h"
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

// They give the bytes by the names of paths, and of reasons, without those that moved nothing.
nanobind::dict by_path_name(const kv::MovedBytes& moved);
nanobind::dict by_reason_name(const kv::MovedBytes& moved);
nanobind::dict verdict_of(const penstock_verdict& verdict);
void bind_report(nanobind::module_& module);

}  // namespace penstock::python
