// SPDX-License-Identifier: Apache-2.0

#include "facts/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "penstock/penstock.h"

namespace penstock::facts {
namespace {

constexpr unsigned kStepsMax = 8;
constexpr std::string_view kOutside = "Outside the container: ";

const Finding* failed_row(const Findings& rows, const FindingName& name, const Finding& but) {
  const auto is_it = [&](const Finding& row) {
    return &row != &but && row.state == State::fail && row.code == name.code &&
           (name.subject.empty() || row.subject == name.subject);
  };
  const auto found = std::find_if(rows.begin(), rows.end(), is_it);
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

std::string as_sentence(std::string remedy) {
  if (remedy.empty()) return remedy;
  if (remedy.front() >= 'a' && remedy.front() <= 'z') remedy.front() += 'A' - 'a';
  if (!remedy.ends_with('.')) remedy += '.';
  return remedy;
}

std::optional<std::int32_t> reason_named(std::string_view name) {
  for (const std::int32_t reason : all_reasons()) {
    if (name == penstock_reason_name(reason)) return reason;
  }
  return std::nullopt;
}

std::optional<std::int32_t> reason_in(std::string_view line) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  std::size_t end = 0;
  for (std::size_t at = 0; (at = line.find_first_of(kLetters, end)) != std::string_view::npos;) {
    end = std::min(line.find_first_not_of(kLetters, at), line.size());
    const std::string_view name = line.substr(at, end - at);
    const bool is_in_brackets =
        at > 0 && end < line.size() &&
        ((line[at - 1] == '(' && line[end] == ')') || (line[at - 1] == '[' && line[end] == ']'));
    if (!is_in_brackets && name.find('_') == std::string_view::npos) continue;
    if (const auto reason = reason_named(name)) return reason;
  }
  return std::nullopt;
}

std::vector<std::int32_t> all_reasons() {
  std::vector<std::int32_t> reasons;
  for (std::uint32_t i = 1; i < penstock_reason_count(); ++i) {  // 0 is "none".
    const auto reason = static_cast<std::int32_t>(i);
    const bool is_gap = std::string_view(penstock_reason_sentence(reason)).empty();
    if (!is_gap) reasons.push_back(reason);
  }
  return reasons;
}

Finding need(const char* code, State state, std::string sentence, std::string remedy) {
  Finding one;
  one.code = code;
  one.state = state;
  one.sentence = std::move(sentence);
  one.remedy = as_sentence(std::move(remedy));
  return one;
}

Finding switched_off(const char* code, std::string sentence, std::string remedy) {
  Finding one = need(code, State::warn, std::move(sentence), std::move(remedy));
  one.is_switch = true;
  return one;
}

void say_where(Findings& findings, bool in_container) {
  constexpr std::string_view kOfTheHost[] = {"kernel_no_p2pdma",
                                             "kernel_too_old",
                                             "kernel_6_16",
                                             "kernel_p2pdma",
                                             "kernel",
                                             "kernel_modules",
                                             "iommu",
                                             "iommu_translating",
                                             "acs_redirect",
                                             "static_bar1_off",
                                             "no_large_bar",
                                             "driver_no_export",
                                             "bar_write_combined",
                                             "nvidia_fs",
                                             "nvidia_fs_version",
                                             "nvidia_fs_driver",
                                             "nvidia_fs_kernel",
                                             "nvidia_fs_hooks",
                                             "nvidia_fs_storage",
                                             "uvm_not_loaded",
                                             "ext4_ordered",
                                             "driver_too_old_for_kernel"};
  for (Finding& one : findings) {
    const bool is_hosts = std::find(std::begin(kOfTheHost), std::end(kOfTheHost), one.code) != std::end(kOfTheHost);
    if (in_container && is_hosts && !one.remedy.empty() && !one.remedy.starts_with(kOutside)) {
      one.remedy = std::string(kOutside) + one.remedy;
    }
  }
}

void settle_causes(Findings& rows) {
  for (Finding& row : rows) {
    row.follows_from.reset();
    if (row.state == State::pass) continue;
    for (const FindingName& name : row.may_follow_from) {
      const Finding* const cause = failed_row(rows, name, row);
      if (cause == nullptr) continue;
      row.follows_from = cause->name();
      break;
    }
  }
}

const Finding& cause_of(const Findings& rows, const Finding& row) {
  const Finding* cause = &row;
  for (unsigned step = 0; step < kStepsMax && cause->follows_from; ++step) {
    const Finding* const next = failed_row(rows, *cause->follows_from, *cause);
    if (next == nullptr) break;
    cause = next;
  }
  return *cause;
}

const char* state_name(State state) {
  switch (state) {
    case State::pass: return "pass";
    case State::warn: return "warn";
    case State::fail: return "fail";
    case State::unknown: return "unknown";
    case State::not_applicable: return "not_applicable";
  }
  return "unknown";
}

const char* reach_name(Reach reach) {
  constexpr const char* kNames[] = {"", "nowhere", "no", "unknown", "once_set", "now"};
  return kNames[static_cast<std::size_t>(reach)];
}

const char* layer_title(Layer layer) {
  switch (layer) {
    case Layer::drivers: return "Drivers and peer access";
    case Layer::fabric: return "Fabric and links";
    case Layer::transfer: return "One transfer, tried in each folder";
  }
  return "";
}

std::string subject_text(const Finding& row) {
  if (row.subject.empty() || row.where.empty()) return row.subject;
  return fmt::format("{} ({})", row.subject, row.where);
}

int exit_code_of(const Findings& rows) {
  const auto has = [&](State state) {
    return std::any_of(rows.begin(), rows.end(), [&](const Finding& row) { return row.state == state; });
  };
  return has(State::fail) ? 1 : has(State::pass) ? 0 : 77;
}

}  // namespace penstock::facts
