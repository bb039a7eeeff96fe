// SPDX-License-Identifier: Apache-2.0

// Releases the GIL within a block. When the process ends, threads other than the main one block for ever instead of
// taking it again: CPython would end them in a destructor, which would abort the process.
#pragma once

#include <Python.h>
#include <unistd.h>

namespace penstock::python {

// Marks the end of the process: from here on handles and requests in flight are leaked. Closing them would wait for
// requests, and one that a dead file server never answers would hang the process.
void begin_ending();  // Call it without the GIL; waits for threads that are about to take it.
bool is_ending();
// True if a thread may take the GIL again: then it calls took_gil(). False once the process ends.
bool may_take_gil();
void took_gil();

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
