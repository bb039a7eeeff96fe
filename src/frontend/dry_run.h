// SPDX-License-Identifier: Apache-2.0

// What would become of a request: every path's verdict, how it would be cut, and by whom moved. Nothing is moved,
// registered or pinned. Memory is given by what it is, so that it need not exist; request.base counts for its alignment
// alone.
#pragma once

#include <string>

#include "session/session.h"

namespace penstock::core {

// Listed paths first, in their order. Returns how many verdicts were written.
Result<unsigned> explain(Session& session, std::uint64_t file, const PointerFacts& memory, Op op,
                         Verdict (&verdicts)[kPathCount]);
// Of the path, so far as machine and settings tell before a file is known.
Verdict outlook(const Session& session, PathId path);
// As text, of the first `lines_max` chunks a line.
Result<std::string> plan_text(Session& session, const RawRequest& request, const PointerFacts& memory,
                              unsigned lines_max);
Result<Choice> choice(Session& session, const RawRequest& request, const PointerFacts& memory);

}  // namespace penstock::core
