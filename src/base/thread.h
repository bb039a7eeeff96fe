// SPDX-License-Identifier: Apache-2.0

// Starts a thread of the library's own. It gets no signals: they are the application's.
#pragma once

#include <pthread.h>

namespace penstock::core {

// False where no thread can be had. `name` is cut to fifteen characters. The stack is what the process gives by
// default, but no less than the CUDA driver gets along with.
bool start_thread(pthread_t& thread, const char* name, void (*body)(void*), void* argument);
// Runs body(argument) on a thread of its own and waits for it, for what takes more stack than callers may have; on the
// caller's where no thread can be had.
void run_apart(const char* name, void (*body)(void*), void* argument);

}  // namespace penstock::core
