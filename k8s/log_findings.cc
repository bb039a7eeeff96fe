// SPDX-License-Identifier: Apache-2.0

#include "k8s/log_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>

#include "facts/finding.h"
#include "k8s/log_causes.h"
#include "penstock/penstock.h"
#include "tools/common/failure.h"

namespace penstock::tools::k8s {
namespace {

constexpr std::size_t kLineMost = std::size_t{64} << 10;  // A longer line is searched in pieces.
constexpr std::size_t kShown = 200;
constexpr std::size_t kUnknownShown = 8;

bool speaks(const LogCause& cause, std::string_view lower) {
  return std::all_of(cause.words.begin(), cause.words.end(),
                     [&](const char* word) { return word == nullptr || lower.find(word) != std::string_view::npos; });
}

// The reason of Penstock's that a line names, as a cause.
const LogCause* reason_of(std::string_view line) {
  static const std::map<std::int32_t, LogCause> causes = [] {
    std::map<std::int32_t, LogCause> all;
    for (const std::int32_t reason : facts::all_reasons()) {
      all[reason] = {penstock_reason_name(reason),
                     {},
                     penstock_reason_sentence(reason),
                     penstock_reason_remedy(reason),
                     "a reason of Penstock's, docs/reference/reasons.md"};
    }
    return all;
  }();
  const std::optional<std::int32_t> reason = facts::reason_in(line);
  return reason ? &causes.at(*reason) : nullptr;
}

void take_unknown(std::string_view line, std::size_t number, const std::string& file, UnknownLines& unknown) {
  if (line.find_first_not_of(" \t") == std::string_view::npos) return;
  if (++unknown.count <= kUnknownShown) unknown.first.push_back(fmt::format("{}:{}", file, number));
}

void take_line(std::string_view line, std::size_t number, const std::string& file, std::vector<LogFinding>& findings,
               UnknownLines& unknown) {
  const LogCause* const cause = cause_of(line);
  if (cause == nullptr) return take_unknown(line, number, file, unknown);
  const auto same = [&](const LogFinding& each) { return std::strcmp(each.cause->id, cause->id) == 0; };
  const auto found = std::find_if(findings.begin(), findings.end(), same);
  if (found != findings.end()) ++found->count;
  else findings.push_back({cause, file, number, 1, std::string(line.substr(0, kShown))});
}

}  // namespace

const LogCause* cause_of(std::string_view line) {
  std::string lower(line);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto* found = std::find_if(std::begin(kLogCauses), std::end(kLogCauses),
                                   [&](const LogCause& cause) { return speaks(cause, lower); });
  return found == std::end(kLogCauses) ? reason_of(line) : found;
}

void read_log(std::FILE* log, const std::string& file, std::vector<LogFinding>& findings, UnknownLines& unknown) {
  std::string buffer(kLineMost, '\0');
  std::size_t number = 1;
  while (std::fgets(buffer.data(), static_cast<int>(buffer.size()), log) != nullptr) {
    std::string_view line(buffer.c_str());
    const bool is_end = line.ends_with('\n');
    while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
    take_line(line, number, file, findings, unknown);
    number += is_end ? 1 : 0;
  }
  if (std::ferror(log) != 0) throw Failure(fmt::format("{}: it cannot be read: {}", file, std::strerror(errno)));
}

}  // namespace penstock::tools::k8s
