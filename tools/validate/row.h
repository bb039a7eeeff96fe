// SPDX-License-Identifier: Apache-2.0

// What `penstock validate` says of one thing: a state, a sentence, and where something is wrong, what to do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/common/context.h"

namespace penstock::tools::validate {

enum class State : std::uint8_t {
  pass,
  fail,
  unknown,  // Nothing here tells.
  not_applicable
};
const char* state_name(State state);  // "pass", "fail", "unknown", "not_applicable"

enum class Layer : std::uint8_t { drivers = 1, fabric = 2, transfer = 3 };
const char* layer_title(Layer layer);

// Of storage: whether a direct path may serve it.
enum class Reach : std::uint8_t {
  none,      // No row of storage.
  no,        // It goes through host memory.
  once_set,  // So it does until a setting is changed.
  now        // As the machine is set; the path's self-test decides.
};
const char* reach_name(Reach reach);  // "", "no", "once_set", "now"

struct RowName {
  std::string code;
  std::string subject;  // Of a row that may be any of its code: "".
};

struct Row {
  Layer layer = Layer::drivers;
  const char* code = "";  // Stable: "nvidia_fs_version".
  std::string subject;    // What it was found on: "mlx5_0 port 1", "/data"; may be empty.
  std::string where;      // What a folder lies on, which folders a drive holds: "ext4 on nvme0n1"; may be empty.
  State state = State::unknown;
  std::string sentence;     // Without a capital and a full stop.
  std::string remedy;       // One sentence; of a pass none.
  std::string source;       // Who says so, where it is not this machine itself.
  bool is_default = false;  // In doubt for no other reason than how things come.
  Reach reach = Reach::none;
  Json details = nullptr;
  std::vector<RowName> may_follow_from;  // What would explain it, the likeliest first.
  std::optional<RowName> follows_from;   // The one of these that fails: whoever repairs that has repaired this as well.

  RowName name() const { return {code, subject}; }
};
using Rows = std::vector<Row>;

std::string subject_text(const Row& row);  // "/data (ext4 on nvme0n1)"; "" where there is none.

// Says of each row that did not pass which failed one it follows from. Once, when all rows are there.
void settle_causes(Rows& rows);
// The failed row that it all begins with; `row` itself where it follows from none.
const Row& cause_of(const Rows& rows, const Row& row);

// 1 where something failed, 0 where something passed and nothing failed, 77 where nothing could be judged.
int exit_code_of(const Rows& rows);

}  // namespace penstock::tools::validate
