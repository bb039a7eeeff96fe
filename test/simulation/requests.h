// SPDX-License-Identifier: Apache-2.0

// A program with one session and some threads, which read and write files in every way of penstock.h that needs no GPU,
// while files are cut, grown, punched and replaced. A seed chooses its settings, its requests and what goes wrong. Each
// answer is compared with what the disk knows; what is wrong ends the process.
#pragma once

#include <cstdint>
#include <functional>

#include "penstock/penstock.h"
#include "simulation/scheduler.h"

namespace penstock::simulation {

struct Tally {
  std::uint64_t requests = 0, failed = 0, canceled = 0, late = 0;
};

// How often transfers fail, in which way.
void draw_weather(Random& random);
// Calls this with each setting of a session, and a value of it that was drawn.
void draw_settings(Random& random, const std::function<void(const char* name, const char* value)>& set);
// True once such settings required a path, which not every request can take.
bool may_refuse_for_want_of_a_path();
// By settings that are drawn anew.
penstock_status open_session(Random& random, penstock_session** session);

// The scheduler must have begun.
Tally run_requests();

}  // namespace penstock::simulation
