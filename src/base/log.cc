#include "base/log.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace penstock::core {
namespace {

// Sink and context change together, so they are published as one pair under a lock that only messages take.
std::mutex sink_mutex;
LogSink current_sink = nullptr;
void* current_context = nullptr;

}  // namespace

void set_log_sink(LogSink sink, void* context) {
  const std::lock_guard lock(sink_mutex);
  current_sink = sink;
  current_context = context;
}

void log_message(LogLevel level, const char* message) {
  const std::lock_guard lock(sink_mutex);
  if (current_sink != nullptr) current_sink(current_context, level, message);
}

void invariant_broken(const char* expression, const char* file, int line) {
  char message[512];
  std::snprintf(message, sizeof message, "invariant broken: %s (%s:%d)", expression, file, line);
  log_message(LogLevel::error, message);
  std::abort();
}

}  // namespace penstock::core
