// SPDX-License-Identifier: Apache-2.0

// The dry run of a request: every path's verdict, how it would be cut, and by whom moved. Nothing is moved,
// registered or pinned. Memory is given by its facts, so that it need not exist; request.base counts for its
// alignment alone.
#pragma once

#include <string>

#include "session/session.h"

namespace penstock::core {

// Listed paths first, in their order. Returns how many verdicts were written.
Result<unsigned> explain(Session& session, std::uint64_t file, const PointerFacts& memory, Op op,
                         Verdict (&verdicts)[kPathCount]);
// The path's verdict, so far as machine and settings tell before a file is known.
Verdict outlook(const Session& session, PathId path);
// The plan as text, a line for each of the first `lines_max` chunks.
Result<std::string> plan_text(Session& session, const RawRequest& request, const PointerFacts& memory,
                              unsigned lines_max);
Result<Choice> choice(Session& session, const RawRequest& request, const PointerFacts& memory);

}  // namespace penstock::core
