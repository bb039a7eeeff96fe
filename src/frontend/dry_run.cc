// SPDX-License-Identifier: Apache-2.0

#include "frontend/dry_run.h"

#include <algorithm>

namespace penstock::core {
namespace {

// Calls look(flight) if the request could be made.
template <typename Look>
Status look_at(Session& session, const RawRequest& request, const PointerFacts& memory, Look look) {
  const PinnedFile file(session, request.file);
  Flight flight;
  Status status = session.check(request, file.get(), flight.request);
  flight.request.facts = memory;
  flight.required = request.required;
  if (status.ok()) status = session.engine().router().choose(flight);
  if (status.ok()) look(flight);
  return status;
}

}  // namespace

Result<unsigned> explain(Session& session, std::uint64_t handle, const PointerFacts& memory, Op op,
                         Verdict (&verdicts)[kPathCount]) {
  const PinnedFile file(session, handle);
  if (!file) return failure(Code::not_registered, "explain the file");
  return session.engine().router().judge_all(*file, memory, op, verdicts);
}

Verdict outlook(const Session& session, PathId path) {
  const Config& config = session.config();
  if (!traits_of(path).userspace && std::find(config.paths.begin(), config.paths.end(), path) == config.paths.end())
    return refused(path, Reason::not_listed);
  const Reason reason = outlook_of(path, path_settings(config));
  return reason == Reason::none ? usable(path) : refused(path, reason);
}

Result<std::string> plan_text(Session& session, const RawRequest& request, const PointerFacts& memory,
                              unsigned lines_max) {
  std::string text;
  const Status status =
      look_at(session, request, memory, [&](Flight& flight) { text = session.engine().plan_text(flight, lines_max); });
  if (!status.ok()) return status;
  return text;
}

Result<Choice> choice(Session& session, const RawRequest& request, const PointerFacts& memory) {
  Choice made;
  const Status status =
      look_at(session, request, memory, [&](Flight& flight) { made = session.engine().choice(flight); });
  if (!status.ok()) return status;
  return made;
}

}  // namespace penstock::core
