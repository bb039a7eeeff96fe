// SPDX-License-Identifier: Apache-2.0

#include "python/native/failure.h"

#include <nanobind/stl/string.h>

#include <string>

#include "python/native/engine.h"

namespace nb = nanobind;

namespace penstock::python {

nb::object exception_of(const penstock_status& status, nb::object report) {
  std::string sentence(512, '\0');
  const std::size_t length = engine().status_message(status, sentence.data(), sentence.size());
  if (length >= sentence.size()) {
    sentence.resize(length + 1);
    engine().status_message(status, sentence.data(), sentence.size());
  }
  sentence.resize(length);
  const nb::module_ errors = nb::module_::import_("penstock.errors");
  return errors.attr("of_status")(status.domain, status.code, engine().status_driver(status),
                                  status.step != nullptr ? status.step : "", sentence, report);
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
