// SPDX-License-Identifier: Apache-2.0

// The dry run of a request: every path's verdict, how the request would be cut, and which threads would move it.
// Nothing is moved, registered or pinned. Memory is given by its facts and need not exist; only the alignment of
// request.base counts.
#pragma once

#include <string>

#include "session/session.h"

namespace penstock::core {

// Writes the verdicts of all paths, listed ones first and in their order. Returns their number.
Result<unsigned> explain(Session& session, std::uint64_t file, const PointerFacts& memory, Op op,
                         Verdict (&verdicts)[kPathCount]);
// The verdict of a path as far as machine and settings decide it, before a file is known.
Verdict outlook(const Session& session, PathId path);
// The plan as text: one line for each of the first `lines_max` chunks.
Result<std::string> plan_text(Session& session, const RawRequest& request, const PointerFacts& memory,
                              unsigned lines_max);
Result<Choice> choice(Session& session, const RawRequest& request, const PointerFacts& memory);

}  // namespace penstock::core
