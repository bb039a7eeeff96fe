// SPDX-License-Identifier: Apache-2.0

// Looks up a symbol in an open library.
#pragma once

#include <dlfcn.h>

namespace penstock::python {

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace penstock::python
