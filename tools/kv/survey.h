// SPDX-License-Identifier: Apache-2.0

// Surveys stores from outside, by their journals alone, without a session and unnoticed by their writers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kv/format.h"

namespace penstock::tools {

struct SurveyedStore {
  std::string folder;
  std::string problem;  // A sentence that says why nothing is known of it, or "".
  kv::Name name{};
  std::uint64_t capacity_bytes = 0;
  std::uint64_t extent_bytes = 0;
  std::uint64_t used_bytes = 0;  // The bytes of its slots.
  std::uint64_t chunk_bytes = 0;
  std::uint64_t journal_bytes = 0;
  std::uint64_t torn_bytes = 0;   // Bytes at the end of the journal that make no record.
  std::uint64_t misplaced = 0;    // Chunks in the journal whose slot is impossible.
  bool is_closed = false;         // The last writer closed it properly.
  std::optional<int> writer;      // The process that has it open for writing, if this machine shows one.
  std::vector<kv::Chunk> chunks;  // In the journal's order.
};

// The folders of stores at or below this one, sorted. Fails if there are none.
std::vector<std::string> store_folders(const std::string& folder);
SurveyedStore survey(const std::string& folder);
// Surveys all of store_folders().
std::vector<SurveyedStore> survey_all(const std::string& folder);

std::string hexadecimal(const kv::Name& name);

}  // namespace penstock::tools
