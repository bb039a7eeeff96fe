// SPDX-License-Identifier: Apache-2.0

// The engine's choice for a request that is not moved: how it would be cut, and which threads would move it.
#include <algorithm>

#include "engine/engine.h"
#include "engine/shared_flight.h"

namespace penstock::core {
namespace {

std::string text_of(const Choice& choice) {
  if (choice.by == Choice::By::size) return "by the caller's own thread";
  std::string text = "by up to " + std::to_string(choice.threads) + " threads";
  if (choice.by == Choice::By::measurement) text += ", as measured";
  if (choice.by == Choice::By::first_guess) text += " to begin with, to be tuned";
  return text + "; each " + std::to_string(choice.depth) + " chunks at once; policy " + choice.policy;
}

}  // namespace

// Shapes and cuts the request as if it were to be moved; moves and commits nothing.
void Engine::dry_run(Flight& flight) const {
  const std::uint64_t chunk = chunk_for(flight);
  router_.shape(flight, fits_small_channel(flight) ? SubmitMode::alone : SubmitMode::many, chunk);
  flight.cut_into_chunks(chunk);
  if (const std::uint64_t cached_chunk = cached_read_chunk_for(flight); cached_chunk > 0)
    flight.cut_into_chunks(cached_chunk);
}

std::string Engine::plan_text(Flight& flight, unsigned lines_max) const {
  dry_run(flight);
  const Plan& plan = flight.plan();
  const std::uint64_t lines = std::min<std::uint64_t>(plan.chunk_count(), lines_max);
  std::string text;
  char line[200];
  for (std::uint64_t i = 0; i < lines; ++i) {
    Chunk chunk = plan.chunk(i);
    chunk.io_mode = flight.query_io_mode(chunk);
    text.append(line, format_chunk(chunk, flight.request.op, line)).push_back('\n');
  }
  if (lines < plan.chunk_count()) text += "... and " + std::to_string(plan.chunk_count() - lines) + " more\n";
  if (!traits_of(flight.report.path).pretends) text += text_of(choice_of(flight)) + '\n';
  if (rules_.placement.by != Placement::By::device) text += "placement " + placement_text(rules_.placement) + '\n';
  return text;
}

Choice Engine::choice(Flight& flight) const {
  dry_run(flight);
  return choice_of(flight);
}

Choice Engine::choice_of(const Flight& flight) const {
  const Plan& plan = flight.plan();
  Choice made{.path = flight.report.path, .policy = rules_.policy};
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(plan.chunk_count(), 2); ++i) {
    made.chunk = std::max(made.chunk, plan.chunk(i).size);  // The first chunk may be a short head.
  }
  const std::uint64_t cached_chunk = cached_read_chunk_for(flight);
  if (cached_chunk == 0 && fits_small_channel(flight)) {
    made.by = Choice::By::size;
    return made;
  }
  made.threads = threads_for(flight, cached_chunk);
  made.depth = cached_chunk > 0 || traits_of(made.path).blocking ? shapes_.small.depth : shapes_.large.depth;
  if (!is_tuned(flight)) return made;
  const Tuner::Finding finding = tuner_.finding({flight.request.op, plan.middle_io_mode(), flight.request.size});
  made.threads = std::min(made.threads, finding.threads);
  made.by = finding.settled ? Choice::By::measurement : Choice::By::first_guess;
  return made;
}

}  // namespace penstock::core
