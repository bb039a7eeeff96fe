// SPDX-License-Identifier: Apache-2.0

// Traces of prompts without their words: for each request its tokens and the hashes of its blocks, where an equal hash
// means an equal beginning up to there. A file has one JSON object a line, in the form that Mooncake's public traces
// have: `input_length` and `hash_ids`, besides others that are passed over.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::tools {

struct TraceRequest {
  std::uint64_t tokens = 0;
  std::vector<std::uint64_t> blocks;  // Whole blocks: the last tokens may be in none.
};

// At most `requests_most`, from the beginning; 0: all. "-" is standard input. Fails with the line that makes no sense.
std::vector<TraceRequest> read_trace(const std::string& path, std::uint64_t block_tokens, std::uint64_t requests_most);

}  // namespace penstock::tools
