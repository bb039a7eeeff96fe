// Starts a thread of the library's own. It gets no signals: those are the application's.
#pragma once

#include <pthread.h>

namespace penstock::core {

// False where no thread can be had. `name` is cut to fifteen characters.
bool start_thread(pthread_t& thread, const char* name, void (*body)(void*), void* argument);

}  // namespace penstock::core
