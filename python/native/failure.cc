// SPDX-License-Identifier: Apache-2.0

#include "python/native/failure.h"

#include <nanobind/stl/string.h>

#include <string>

#include "penstock/penstock.hpp"
#include "python/native/engine.h"

namespace nb = nanobind;

namespace penstock::python {

namespace {

// Decodes a file's name as os.fsdecode() does. Returns None for an empty one.
nb::object file_name(const std::string& bytes) {
  if (bytes.empty()) return nb::none();
  return nb::steal(PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
}

}  // namespace

nb::object exception_of(const penstock_status& status, nb::object report, const std::string& file) {
  const std::string sentence = detail::whole_text(
      512, [&](char* text, std::size_t capacity) { return engine().status_message(status, text, capacity); });
  const nb::module_ errors = nb::module_::import_("penstock.errors");
  return errors.attr("of_status")(status.domain, status.code, engine().status_driver(status),
                                  status.step != nullptr ? status.step : "", sentence, report, file_name(file));
}

nb::object end_of(const penstock_status& status, const nb::object& report) {
  try {
    return status.code == 0 ? nb::none() : exception_of(status, report);
  } catch (const nb::python_error& error) {
    return nb::borrow(error.value());
  }
}

void raise(nb::object exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

void raise_type_error(const char* sentence) {
  PyErr_SetString(PyExc_TypeError, sentence);
  throw nb::python_error();
}

void raise_value_error(const char* sentence) {
  PyErr_SetString(PyExc_ValueError, sentence);
  throw nb::python_error();
}

penstock_status own_status(penstock_code code, const char* step) { return {PENSTOCK_DOMAIN_PENSTOCK, 0, code, step}; }

}  // namespace penstock::python
