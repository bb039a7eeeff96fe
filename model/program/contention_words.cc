// SPDX-License-Identifier: Apache-2.0

#include "model/program/contention_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "tools/common/context.h"
#include "tools/common/failure.h"

namespace penstock::tools {

model::Stream stream_of_pair(const std::string& pair) {
  const std::size_t sign = pair.find('=');
  if (sign == std::string::npos || sign == 0 || sign + 1 == pair.size()) {
    throw Failure(fmt::format("'{}' is not STORE=GPU or STORE+STORE=GPU", pair), kUsage);
  }
  model::Stream stream;
  stream.name = pair;
  stream.gpu = pair.substr(sign + 1);
  for (std::size_t begin = 0; begin < sign;) {
    const std::size_t end = std::min(pair.find('+', begin), sign);
    stream.stores.push_back(pair.substr(begin, end - begin));
    begin = end + 1;
  }
  return stream;
}

std::array<unsigned, 4> stage_depths(const std::string& text) {
  std::vector<unsigned> numbers;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (true) {
    const auto [after, error] = std::from_chars(at, end, numbers.emplace_back());
    const bool is_wrong = error != std::errc{} || (after != end && (*after != ',' || after + 1 == end));
    if (is_wrong || numbers.size() > 4 || (after == end && numbers.size() != 1 && numbers.size() != 4)) {
      throw Failure(fmt::format("--stage-depth '{}': a number, or four with commas between", text), kUsage);
    }
    if (after == end) break;
    at = after + 1;
  }
  std::array<unsigned, 4> depths{};
  for (std::size_t i = 0; i < depths.size(); ++i) depths.at(i) = numbers[numbers.size() == 1 ? 0 : i];
  return depths;
}

}  // namespace penstock::tools
