// SPDX-License-Identifier: Apache-2.0

#include "tools/kv/trace.h"

#include <fmt/format.h>

#include <string_view>

#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kTraceBytesMost = std::size_t{1} << 30;
constexpr std::uint64_t kTokensMost = std::uint64_t{1} << 32;

[[noreturn]] void fail_line(const std::string& path, std::size_t line, const std::string& why) {
  throw Failure(fmt::format("{}: line {}: {}", path, line, why));
}

// Under its name, or the other one that traces have it by.
const Json* member(const Json& object, const char* name, const char* other) {
  auto found = object.find(name);
  if (found == object.end()) found = object.find(other);
  return found == object.end() ? nullptr : &*found;
}

TraceRequest request_in(const std::string& path, std::size_t number, std::string_view line,
                        std::uint64_t block_tokens) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) fail_line(path, number, "expected a JSON object");
  const Json* const tokens = member(object, "input_length", "input_tokens");
  const Json* const blocks = member(object, "hash_ids", "block_hashes");
  if (tokens == nullptr || !tokens->is_number_unsigned() || tokens->get<std::uint64_t>() > kTokensMost) {
    fail_line(path, number, "expected 'input_length', the tokens of the prompt");
  }
  if (blocks == nullptr || !blocks->is_array()) fail_line(path, number, "expected 'hash_ids', a list of numbers");
  TraceRequest request{tokens->get<std::uint64_t>(), {}};
  const std::uint64_t whole = request.tokens / block_tokens, all = (request.tokens + block_tokens - 1) / block_tokens;
  if (blocks->size() != whole && blocks->size() != all) {
    fail_line(path, number,
              fmt::format("{} 'hash_ids' for {} tokens, expected {} of {} tokens each: is --block-tokens right?",
                          blocks->size(), request.tokens, all, block_tokens));
  }
  for (const Json& block : *blocks) {
    if (!block.is_number_unsigned()) fail_line(path, number, "'hash_ids' has something that is no number");
    if (request.blocks.size() < whole) request.blocks.push_back(block.get<std::uint64_t>());
  }
  return request;
}

}  // namespace

std::vector<TraceRequest> read_trace(const std::string& path, std::uint64_t block_tokens, std::uint64_t requests_most) {
  const std::string text = read_bounded(path, kTraceBytesMost);
  if (text.size() > kTraceBytesMost) throw Failure(path + ": it is larger than a trace may be, which is 1 GiB");
  std::vector<TraceRequest> requests;
  std::string_view rest = text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (requests_most != 0 && requests.size() == requests_most) break;
    requests.push_back(request_in(path, number, line, block_tokens));
  }
  if (requests.empty()) throw Failure(path + ": there is no request in it");
  return requests;
}

}  // namespace penstock::tools
