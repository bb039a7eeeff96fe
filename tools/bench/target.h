// SPDX-License-Identifier: Apache-2.0

// The files that bench works on, opened as the settings ask, and the range of each. Refuses, with a sentence, to
// overwrite data unasked and to reach past a file's end.
#pragma once

#include <optional>
#include <vector>

#include "tools/bench/settings.h"
#include "tools/common/extents.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"

namespace penstock::tools {

struct Target {
  std::vector<OpenFile> files;
  std::vector<Range> ranges;            // One for each file.
  std::unique_ptr<Unfinished> created;  // The file if it is new: it is removed again unless it is kept.

  bool is_new() const { return created != nullptr; }
  std::uint64_t size() const;
  std::uint64_t block_count() const;
  // Empties a new file again, so that each pass writes to blocks that were never written.
  void renew() const;
};

Target open_target(const BenchSettings& settings);

}  // namespace penstock::tools
