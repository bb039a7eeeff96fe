// SPDX-License-Identifier: Apache-2.0

// A DeepSpeed configuration as a JSON document, read as hostile: its size and depth are bounded, and no key may be
// given twice. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace penstock::tools {

constexpr std::size_t kDeepSpeedBytesMax = 1u << 20;

using DeepSpeedValue = nlohmann::json;  // Its objects are sorted: a file may have a hundred thousand keys.

struct DeepSpeedDocument {
  DeepSpeedValue root;               // An object; null where there is a fault.
  std::map<std::string, int> lines;  // Of each key, by its full name: "aio.block_size".
  std::string fault;                 // Why it cannot be read; "" where it can.
  int line = 0;                      // Of the fault,
  int column = 0;                    // 0 where the line alone is known.
};

DeepSpeedDocument parse_deepspeed(std::string_view text);

}  // namespace penstock::tools
