// The one sink for what the library has to say. It writes nothing to stdout or stderr by itself: without a sink,
// messages are dropped. The sink may be called from any thread.
#pragma once

namespace penstock::core {

enum class LogLevel : unsigned char { error, warning, info, debug };

using LogSink = void (*)(void* context, LogLevel level, const char* message);

void set_log_sink(LogSink sink, void* context);
void log_message(LogLevel level, const char* message);

// For a broken invariant, also in release builds: reports through the sink and aborts. Wrong bytes in a model's
// weights are worse than a crash.
[[noreturn]] void invariant_broken(const char* expression, const char* file, int line);

}  // namespace penstock::core

#define PENSTOCK_INVARIANT(expression) \
  ((expression) ? static_cast<void>(0) : ::penstock::core::invariant_broken(#expression, __FILE__, __LINE__))
