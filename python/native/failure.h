// SPDX-License-Identifier: Apache-2.0

// Converts a penstock_status to an exception of penstock.errors.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "penstock/penstock.h"

namespace penstock::python {

// Makes the exception for a status that is not 0, of a class of penstock.errors. It names the file if that has a name.
// Call it with the GIL held.
nanobind::object exception_of(const penstock_status& status, nanobind::object report = nanobind::none(),
                              const std::string& file = {});
// Makes the exception for a request that has ended, or None if it succeeded. Where none can be made, it is the one that
// the making failed with, so that whoever waits for the request gets one. Call it with the GIL held.
nanobind::object end_of(const penstock_status& status, const nanobind::object& report);
[[noreturn]] void raise(nanobind::object exception);
[[noreturn]] void raise_type_error(const char* sentence);
[[noreturn]] void raise_value_error(const char* sentence);

// Makes a status like the library's, for a failure found before the library is called.
penstock_status own_status(penstock_code code, const char* step);

inline void check(const penstock_status& status, const std::string& file = {}) {
  if (status.code != 0) raise(exception_of(status, nanobind::none(), file));
}

}  // namespace penstock::python
