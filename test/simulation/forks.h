// SPDX-License-Identifier: Apache-2.0

// A fork at any moment, of a program whose other threads are within calls. The child has none of them, and what they
// had locked stays locked. It may use nothing of its parent's, is told so by each call, and opens what it needs anew.
#pragma once

#include <memory>

#include "simulation/asked.h"

namespace penstock::simulation {

// Of the parent's.
struct Inherited {
  penstock_session* session;
  std::shared_ptr<Handle> handle;
  penstock_queue* queue;  // Null: it has none.
  const Place& place;
};

// Returns when the child has ended; fails the run where it found something.
void fork_a_child(Random& random, const Inherited& inherited);

}  // namespace penstock::simulation
