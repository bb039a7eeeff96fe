// SPDX-License-Identifier: Apache-2.0

#include "tools/common/rights.h"

#include <fmt/format.h>
#include <linux/capability.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tools/common/cufile_mappings.h"
#include "topology/text.h"

namespace penstock::tools {
namespace {

// The effective user: the second number of "Uid:", behind the real one.
std::optional<std::uint64_t> effective_user(std::string_view status) {
  const std::vector<std::string_view> users = core::split(core::value_of(status, "Uid", ':'), '\t');
  return users.size() > 1 ? core::parse_number<std::uint64_t>(users[1]) : std::nullopt;
}

}  // namespace

Rights rights_in(std::string_view status) {
  const std::uint64_t held = number_in(status, "\nCapEff:", 16).value_or(0);
  const auto has = [&](unsigned capability) { return (held >> capability & 1) != 0; };
  return {.is_root = effective_user(status) == 0u,
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
