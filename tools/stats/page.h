// SPDX-License-Identifier: Apache-2.0

// The bytes that processes move now, for people and for programs. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/common/terminal.h"
#include "tools/stats/drives.h"
#include "tools/stats/rates.h"

namespace penstock::tools {

struct TopView {
  MachineRate machine;
  std::vector<DriveRate> drives;
};

// No line is wider than `columns`, and there are at most `rows`; processes that find no room are counted. Columns do
// not move when numbers change. `has_blocks`: the terminal can show Unicode's block characters, of which the graph of
// the last seconds is made.
std::vector<Text> top_page(const TopView& view, Screen::Size size, bool has_blocks);

// Each path's share of the bytes, the largest first: "bounce 60 %, host 40 %"; "-" if there are none.
std::string paths_text(const Ways& ways);

// {"schema", "seconds", "read_bytes_per_second", "written_bytes_per_second", "ways", "processes":
//   [{"pid", "command", "read_bytes_per_second", "written_bytes_per_second", "gpus", "ways": [{"path", "reason", "op",
//   "bytes_per_second", "operations_per_second"}]}], "drives": [{"name", "read_bytes_per_second",
//   "written_bytes_per_second", "busy"}], "hidden_processes", "processes_not_looked_at"}
nlohmann::ordered_json top_json(const TopView& view);

}  // namespace penstock::tools
