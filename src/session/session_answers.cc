// SPDX-License-Identifier: Apache-2.0

// What a session tells of requests that nobody makes: every path's verdict, how one would be cut, and by whom moved.
#include <algorithm>
#include <string>

#include "session/session.h"

namespace penstock::core {
namespace {

const char* policy_name(Policy policy) {
  switch (policy) {
    case Policy::throughput: return "throughput";
    case Policy::cpu: return "cpu";
    case Policy::balanced: break;
  }
  return "balanced";
}

std::string text_of(const Choice& choice) {
  if (choice.by == Choice::By::size) return "by the caller's own thread";
  std::string text = "by up to " + std::to_string(choice.threads) + " threads";
  if (choice.by == Choice::By::measurement) text += ", as measured";
  if (choice.by == Choice::By::first_guess) text += " to begin with, to be tuned";
  return text + "; each " + std::to_string(choice.depth) + " chunks at once; policy " + choice.policy;
}

}  // namespace

Result<unsigned> Session::explain(std::uint64_t handle, const PointerFacts& memory, Op op,
                                  Verdict (&verdicts)[kPathCount]) {
  File* const file = files_.pin(handle);
  if (file == nullptr) return failure(Code::not_registered, "explain the file");
  unsigned count = 0;
  for (const auto& path : paths_) verdicts[count++] = path->judge(*file, memory, op);
  files_.unpin(handle);
  for (const PathRow& row : kPaths) {
    // A path that moves nothing is no choice that anybody misses.
    if (!config_.paths.contains(row.id) && !row.traits.pretends)
      verdicts[count++] = refused(row.id, Reason::not_listed);
  }
  return count;
}

Status Session::look_at(const RawRequest& request, const PointerFacts& memory, const Look& look) {
  File* file = files_.pin(request.file);
  Checked checked;
  Status status = check_request(request, file, checked);
  checked.memory = memory;
  if (status.ok()) status = choose(checked);
  if (status.ok()) {
    prepare(checked, SubmitMode::dry_run);
    look(checked, plan_for(checked, chunk_for(checked)));
  }
  if (file != nullptr) files_.unpin(request.file);
  return status;
}

Result<std::string> Session::plan_text(const RawRequest& request, const PointerFacts& memory, unsigned lines_max) {
  std::string text;
  const Status status = look_at(request, memory, [&](const Checked& checked, const Plan& plan) {
    const std::uint64_t lines = std::min<std::uint64_t>(plan.chunk_count(), lines_max);
    char line[200];
    for (std::uint64_t i = 0; i < lines; ++i) {
      text.append(line, format_chunk(plan.chunk(i), request.op, line)).push_back('\n');
    }
    if (lines < plan.chunk_count()) text += "... and " + std::to_string(plan.chunk_count() - lines) + " more\n";
    if (!traits_of(checked.report.path).pretends) text += text_of(choice_of(checked, plan)) + '\n';
  });
  if (!status.ok()) return status;
  return text;
}

Result<Choice> Session::choice(const RawRequest& request, const PointerFacts& memory) {
  Choice made;
  const Status status =
      look_at(request, memory, [&](const Checked& checked, const Plan& plan) { made = choice_of(checked, plan); });
  if (!status.ok()) return status;
  return made;
}

Choice Session::choice_of(const Checked& checked, const Plan& plan) const {
  Choice made{.path = checked.report.path, .policy = policy_name(config_.policy)};
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(plan.chunk_count(), 2); ++i) {
    made.chunk = std::max(made.chunk, plan.chunk(i).size);  // The first may be a head.
  }
  if (is_small(checked)) {
    made.by = Choice::By::size;
    return made;
  }
  made.threads = threads_for(checked, plan);
  made.depth = shapes_.large.depth;
  if (!is_tuned(checked, plan)) return made;
  const Tuner::Finding finding = tuner_.finding({checked.input.op, plan.middle_way(), checked.input.size});
  made.threads = std::min(made.threads, finding.threads);
  made.by = finding.settled ? Choice::By::measurement : Choice::By::first_guess;
  return made;
}

}  // namespace penstock::core
