// SPDX-License-Identifier: Apache-2.0

#include "tools/common/rights.h"

#include <fmt/format.h>
#include <linux/capability.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "tools/common/cufile_mappings.h"

namespace penstock::tools {
namespace {

// Reads a number in a line that begins with `name`: the word of this index behind the name.
std::optional<std::uint64_t> number_behind(std::string_view status, std::string_view name, unsigned word, int base) {
  const std::size_t at = status.find("\n" + std::string(name) + ":");
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view line = status.substr(at + 1 + name.size() + 1);
  line = line.substr(0, line.find('\n'));
  for (unsigned i = 0; i <= word; ++i) {
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return std::nullopt;
    line.remove_prefix(begin);
    if (i < word) line.remove_prefix(std::min(line.find_first_of(" \t"), line.size()));
  }
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number, base);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

}  // namespace

Rights rights_in(std::string_view status) {
  constexpr unsigned kEffective = 1;  // The index in "Uid:": real, effective, saved, file system.
  const std::uint64_t held = number_behind(status, "CapEff", 0, 16).value_or(0);
  const auto has = [&](unsigned capability) { return (held >> capability & 1) != 0; };
  return {.is_root = number_behind(status, "Uid", kEffective, 10) == 0u,
          .may_trace = has(CAP_SYS_PTRACE),
          .may_read_all = has(CAP_DAC_READ_SEARCH) || has(CAP_DAC_OVERRIDE)};
}

Rights own_rights() { return rights_in(text_of_proc("/proc/self/status")); }

std::string remedy_of(const Rights& rights) {
  if (!rights.is_root) return "run penstock as root";
  if (rights.may_trace && rights.may_read_all) {
    return "root has SYS_PTRACE and DAC_READ_SEARCH here, so a security module or a user namespace forbids it";
  }
  if (rights.may_trace) return "root lacks the capability DAC_READ_SEARCH here";
  if (rights.may_read_all) return "root lacks the capability SYS_PTRACE here";
  return "root lacks the capabilities SYS_PTRACE and DAC_READ_SEARCH here";
}

std::string hidden_text(unsigned processes, const Rights& rights) {
  return fmt::format("{} process{} cannot be looked at: {}", processes, processes == 1 ? "" : "es", remedy_of(rights));
}

}  // namespace penstock::tools
