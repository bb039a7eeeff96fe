// SPDX-License-Identifier: Apache-2.0

// Lets go of the interpreter's lock for the length of a block. A thread that would take it again when the interpreter
// ends stays there for ever: CPython would end the thread within a destructor, and with that the process.
#pragma once

#include <Python.h>
#include <unistd.h>

#include "python/native/engine.h"

namespace penstock::python {

class NoGil {
 public:
  NoGil() : state_(PyEval_SaveThread()) {}
  ~NoGil() {
    const bool is_main = ::gettid() == ::getpid();
    while (!is_main && !may_take_gil()) ::pause();
    PyEval_RestoreThread(state_);
    if (!is_main) took_gil();
  }
  NoGil(const NoGil&) = delete;
  NoGil& operator=(const NoGil&) = delete;

 private:
  PyThreadState* const state_;
};

}  // namespace penstock::python
