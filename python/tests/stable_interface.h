// SPDX-License-Identifier: Apache-2.0

// Included before the sources of the module by the test python_stable_interface, which compiles them for the stable
// interface of Python 3.12. Headers of 3.11 lack what that release added to it; the lines below declare what the module
// and nanobind use of that. They declare nothing that is outside the interface.
#pragma once

#include <Python.h>

#if PY_VERSION_HEX < 0x030C0000
#define PY_VECTORCALL_ARGUMENTS_OFFSET (static_cast<size_t>(1) << (8 * sizeof(size_t) - 1))
extern "C" {
PyObject* PyErr_GetRaisedException(void);
void PyErr_SetRaisedException(PyObject* raised);
PyObject* PyObject_Vectorcall(PyObject* called, PyObject* const* arguments, size_t count, PyObject* names);
PyObject* PyObject_VectorcallMethod(PyObject* name, PyObject* const* arguments, size_t count, PyObject* names);
}
#endif
