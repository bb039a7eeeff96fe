// SPDX-License-Identifier: Apache-2.0

// Starts a thread of the library's own. It blocks all signals, which belong to the application.
#pragma once

#include <pthread.h>

namespace penstock::core {

// Returns false if no thread can be created. The thread has its name, cut to fifteen characters, before `body` begins.
// The stack has the process's default size, but at least the size that the CUDA driver needs.
bool start_thread(pthread_t& thread, const char* name, void (*body)(void*), void* argument);
// Runs body(argument) on a new thread and waits for it, for work that needs more stack than the caller may have. Runs
// it on the caller's thread if no other can be had.
void run_apart(const char* name, void (*body)(void*), void* argument);

}  // namespace penstock::core
