// SPDX-License-Identifier: Apache-2.0

#include "python/native/no_gil.h"

#include <atomic>

namespace penstock::python {
namespace {

std::atomic<bool> ending{false};
std::atomic<int> taking_gil{0};

}  // namespace

void begin_ending() {
  ending = true;
  while (taking_gil != 0) ::usleep(100);
}

bool is_ending() { return ending; }

// Counts itself first, so that either begin_ending() sees it, or it sees the end.
bool may_take_gil() {
  ++taking_gil;
  if (!ending) return true;
  --taking_gil;
  return false;
}

void took_gil() { --taking_gil; }

}  // namespace penstock::python
