// SPDX-License-Identifier: Apache-2.0

#include "tools/common/stats_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "stats/look_budget.h"
#include "tools/common/failure.h"
#include "tools/common/rights.h"

namespace penstock::tools {
namespace {

std::string sentence_of_refusal(const core::Status& refusal) {
  if (refusal.ok()) return "";
  if (refusal.is(core::Code::unsupported)) {
    return "a session's statistics are of another format; read them with the penstock command of that version";
  }
  if (refusal.is(core::Code::bad_setting))
    return "a file that looks like a session's statistics is damaged, or is something else";
  return core::describe(refusal);
}

// Names everything that is missing from the view of a process.
std::string sentence_of(const core::ProcessStats& process) {
  std::string text = sentence_of_refusal(process.refusal);
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  if (process.not_read > 0) {
    add(fmt::format(
        "{} of its segments were not read, since one look has limits ({} segments, {} MiB to read, {} MiB to keep)",
        process.not_read, core::kProcessLimits.segments, core::kProcessLimits.read_bytes >> 20,
        core::kProcessLimits.kept_bytes >> 20));
  }
  if (process.is_cut_short) {
    add(fmt::format("not all of its descriptors were looked at, since one look has limits ({} descriptors, {} seconds)",
                    core::kProcessLimits.descriptors, core::kProcessLimits.time.count() / 1000));
  }
  return text;
}

ProcessView view_of(core::ProcessStats process) {
  std::string refusal = sentence_of(process);
  return {.pid = process.pid,
          .command = command_of(process.pid),
          .sessions = std::move(process.sessions),
          .refusal = std::move(refusal)};
}

std::uint64_t more_than(std::uint64_t before, std::uint64_t now) { return now > before ? now - before : 0; }

}  // namespace

WayCount& WayCount::operator+=(const WayCount& more) {
  bytes += more.bytes;
  operations += more.operations;
  return *this;
}

WayCount growth(const WayCount& before, const WayCount& now) {
  return {more_than(before.bytes, now.bytes), more_than(before.operations, now.operations)};
}

void add_ways(const core::StatsSnapshot& session, Ways& ways) {
  for (const core::StatsRow& row : session.rows) ways[{row.path, row.reason, row.op}] += {row.bytes, row.operations};
}

Ways counts_of(const std::vector<core::StatsSnapshot>& sessions) {
  Ways ways;
  for (const core::StatsSnapshot& session : sessions) add_ways(session, ways);
  return ways;
}

std::array<WayCount, 2> sums_of(const Ways& ways) {
  std::array<WayCount, 2> sums;
  for (const auto& [key, count] : ways) sums[static_cast<unsigned>(std::get<core::Op>(key))] += count;
  return sums;
}

ProcessView look_at(pid_t pid) {
  core::Result<core::ProcessStats> process = core::stats_of_process(pid);
  if (!process.ok()) {
    const core::Status status = process.status();
    if (status.is_errno(ENOENT) || status.is_errno(ESRCH)) throw Failure(fmt::format("there is no process {}", pid));
    if (status.is_errno(EACCES) || status.is_errno(EPERM)) {
      const Rights rights = own_rights();
      throw Failure(fmt::format("process {} cannot be looked at: {}{}", pid, remedy_of(rights),
                                rights.is_root ? "" : ", or as its user"));
    }
    throw Failure(fmt::format("process {}: {}", pid, core::describe(status)));
  }
  ProcessView view = view_of(std::move(*process));
  if (view.sessions.empty() && !view.refusal.empty()) throw Failure(fmt::format("process {}: {}", pid, view.refusal));
  if (view.sessions.empty()) {
    const std::vector<CuFileLibrary> libraries = cufile_libraries_of(pid).value_or(std::vector<CuFileLibrary>{});
    throw Failure(fmt::format("process {} ({}) {}", pid, view.command, sentence_of(libraries)), kNotApplicable);
  }
  return view;
}

std::optional<ProcessView> look_again(pid_t pid) {
  core::Result<core::ProcessStats> process = core::stats_of_process(pid);
  if (!process.ok() || process->sessions.empty()) return std::nullopt;
  return view_of(std::move(*process));
}

MachineView look_at_all() {
  core::AllStats all = core::stats_of_all_processes();
  MachineView machine;
  machine.hidden = all.hidden;
  if (all.hidden > 0) machine.why_hidden = hidden_text(all.hidden, own_rights());
  machine.not_looked_at = all.not_looked_at;
  for (core::ProcessStats& process : all.processes) machine.processes.push_back(view_of(std::move(process)));
  machine.without_session = processes_with_cufile();
  std::erase_if(machine.without_session, [&](const ProcessWithCuFile& one) {
    return std::any_of(machine.processes.begin(), machine.processes.end(),
                       [&](const ProcessView& process) { return process.pid == one.pid; });
  });
  return machine;
}

}  // namespace penstock::tools
