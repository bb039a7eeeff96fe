// SPDX-License-Identifier: Apache-2.0

// Finds the topic of `penstock help` that a question in a person's own words is about. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock::tools {

struct Entry {
  std::string topic;
  std::string name;  // The topic's own name, or another that people have for it: "slow saves" of the topic "save".
  std::string text;  // The sentences that are told of it.
};

// The topic that most of the words name or tell of; several where they fit alike.
std::vector<std::string> closest_topics(std::string_view question, const std::vector<Entry>& entries);

}  // namespace penstock::tools
