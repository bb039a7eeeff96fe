// SPDX-License-Identifier: Apache-2.0

// What `penstock validate` says of one thing: a state, a sentence, and where something is wrong, what to do.
#pragma once

#include <cstdint>
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

struct Row {
  Layer layer = Layer::drivers;
  const char* code = "";  // Stable: "nvidia_fs_version".
  std::string subject;    // What it was found on: "mlx5_0 port 1", "/data"; may be empty.
  State state = State::unknown;
  std::string sentence;  // Without a capital and a full stop.
  std::string remedy;    // One sentence; of a pass none.
  std::string source;    // Who says so, where it is not this machine itself.
  Json details = nullptr;
};
using Rows = std::vector<Row>;

// 1 where something failed, 0 where something passed and nothing failed, 77 where nothing could be judged.
int exit_code_of(const Rows& rows);

}  // namespace penstock::tools::validate
