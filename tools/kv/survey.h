// SPDX-License-Identifier: Apache-2.0

// Stores as their folders tell of them: by the journal alone, without a session, and without their writer's knowledge.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kv/format.h"

namespace penstock::tools {

struct SurveyedStore {
  std::string folder;
  std::string problem;  // A sentence on why nothing is known of it, or "".
  kv::Name name{};
  std::uint64_t capacity_bytes = 0;
  std::uint64_t extent_bytes = 0;
  std::uint64_t used_bytes = 0;  // Of slots.
  std::uint64_t chunk_bytes = 0;
  std::uint64_t journal_bytes = 0;
  std::uint64_t torn_bytes = 0;   // Bytes at the journal's end that make no record.
  std::uint64_t misplaced = 0;    // Chunks of the journal whose slot cannot be.
  bool is_closed = false;         // Its last writer ended in order.
  std::optional<int> writer;      // A process that has it open for writing, as far as this machine tells.
  std::vector<kv::Chunk> chunks;  // In the journal's order.
};

// The folders of stores at or below this one, sorted. Fails where there is none.
std::vector<std::string> store_folders(const std::string& folder);
SurveyedStore survey(const std::string& folder);
// All of store_folders().
std::vector<SurveyedStore> survey_all(const std::string& folder);

std::string hexadecimal(const kv::Name& name);

}  // namespace penstock::tools
