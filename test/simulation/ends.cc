// SPDX-License-Identifier: Apache-2.0

#include "simulation/ends.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "simulation/files.h"
#include "simulation/gpu.h"
#include "simulation/nvfs.h"

namespace penstock::simulation {
namespace {

constexpr Nanoseconds kMillisecond = 1'000'000;

void be_over_behind_all() {
  if (ends().is_exiting()) ends().be_over();
}

// Before all other constructors, so that exit() calls it behind what any of them has told it to call.
[[gnu::constructor(101)]] void come_last() { (void)std::atexit(be_over_behind_all); }

}  // namespace

Ends& ends() {
  static auto* const only = new Ends;
  return *only;
}

void Ends::begin(std::function<void()> keep) {
  keep_ = std::move(keep);
  is_due_ = is_exiting_ = false;
}

void Ends::draw(Random& random, const Tally& tally) {
  tally_ = &tally;
  const bool is_killed = random.one_in(2);
  const Nanoseconds span = random.one_in(2) ? 20 * kMillisecond : 2000 * kMillisecond;
  scheduler().at(scheduler().now() + random.below(span), [this, is_killed] {
    if (is_killed && !is_exiting_) be_over();
    is_due_ = true;
  });
}

void Ends::exit_if_due() {
  if (is_due_ && !is_exiting_) exit_now();
}

void Ends::exit_now() {
  is_exiting_ = true;
  exiting_ = scheduler().current();
  if (gpu().is_there() && scheduler().random().one_in(2)) gpu().shut_down();
  scheduler().end_values();
  std::exit(0);
}

void Ends::be_over() {
  Moving::land_all();
  if (const char* const lost = nvfs().lost_with_process()) scheduler().fail(lost);
  keep_();
  ::_exit(0);
}

}  // namespace penstock::simulation
