// SPDX-License-Identifier: Apache-2.0

#include "tools/stats/odirect.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <map>

#include "base/unique_fd.h"
#include "base/unique_folder.h"
#include "facts/finding.h"
#include "facts/stored_file.h"
#include "penstock/penstock.hpp"
#include "tools/common/cufile_mappings.h"
#include "tools/common/failure.h"
#include "tools/common/machine_root.h"
#include "tools/common/page.h"
#include "tools/common/table.h"
#include "tools/common/units.h"
#include "tools/stats/report.h"

namespace penstock::tools {
namespace {

using Json = nlohmann::ordered_json;
using core::Op;

constexpr unsigned kDescriptorsMax = 65536;
// If there are more files, the obstacles of the others are not looked for.
constexpr std::size_t kFilesJudged = 256;
constexpr std::size_t kFilesShown = 16;

// Finds the first certain reason for which the CPU moves the file's bytes.
void judge(const facts::FileJudge& here, const std::string& descriptor, FileInUse& file) {
  const core::UniqueFd fd(open(descriptor.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return;
  const std::optional<core::Finding> found = here.moved_by_cpu(fd.get());
  if (!found) return;
  file.obstacle = found->sentence();
  file.remedy = found->remedy();
}

// Files on servers are not touched: a server that does not answer would block us for good.
bool is_of_a_server(const facts::FileJudge& here, const std::string& fdinfo) {
  const auto id = number_in(fdinfo, "mnt_id:");
  for (const core::Mount& mount : here.mounts()) {
    if (id && static_cast<std::uint64_t>(mount.id) == *id) return core::is_network_file_system(mount.type);
  }
  return false;
}

using OpenFiles = std::map<std::string, FileInUse>;  // By their names.

void add_descriptor(const facts::FileJudge& here, const std::string& folder, const std::string& name,
                    OpenFiles& found) {
  const std::string descriptor = folder + "/fd/" + name;
  const std::string fdinfo = text_of_proc(folder + "/fdinfo/" + name);
  char target[PATH_MAX];
  const ssize_t size = readlink(descriptor.c_str(), target, sizeof target);
  const std::string path = size < 0 ? "?" : std::string(target, static_cast<std::size_t>(size));
  if (path.rfind("/memfd:", 0) == 0) return;
  struct stat facts {};
  const bool is_far = is_of_a_server(here, fdinfo);
  if (!is_far && (stat(descriptor.c_str(), &facts) != 0 || !(S_ISREG(facts.st_mode) || S_ISBLK(facts.st_mode)))) return;
  const auto [entry, is_new] = found.try_emplace(path);
  FileInUse& file = entry->second;
  ++(is_direct_by(fdinfo).value_or(false) ? file.direct : file.buffered);
  if (!is_new) return;
  file.path = path;
  file.size = static_cast<std::uint64_t>(facts.st_size);
  // Opening it would break a lease that a process holds on it.
  const bool is_leased = fdinfo.find("LEASE") != std::string::npos;
  if (!is_far && !is_leased && found.size() <= kFilesJudged) judge(here, descriptor, file);
}

OpenFiles open_files_of(pid_t pid) {
  OpenFiles found;
  const facts::FileJudge here(open_machine_root(""));
  const std::string folder = fmt::format("/proc/{}", pid);
  const core::UniqueFolder list(opendir((folder + "/fd").c_str()));
  if (list == nullptr) fail_errno(folder + "/fd", "look at what the process has open");
  unsigned count = 0;
  for (const dirent* entry = readdir(list.get()); entry != nullptr && count < kDescriptorsMax;
       entry = readdir(list.get()), ++count) {
    if (entry->d_name[0] != '.') add_descriptor(here, folder, entry->d_name, found);
  }
  return found;
}

void add_files(DirectShare& job) {
  OpenFiles found = open_files_of(job.process.pid);
  for (auto& [name, file] : found) job.files.push_back(std::move(file));
  const auto is_first = [](const FileInUse& a, const FileInUse& b) {
    if (a.obstacle.empty() != b.obstacle.empty()) return b.obstacle.empty();
    return a.size != b.size ? a.size > b.size : a.path < b.path;
  };
  std::sort(job.files.begin(), job.files.end(), is_first);
  if (job.files.size() <= kFilesShown) return;
  job.files_left_out = static_cast<unsigned>(job.files.size() - kFilesShown);
  job.files.resize(kFilesShown);
}

// Counts only bytes whose way the library knows: the path userspace leaves that to the file system.
bool is_counted(const std::string& name) {
  const auto path = path_by_name(name);
  return !path || (*path != PENSTOCK_PATH_NULL && *path != PENSTOCK_PATH_USERSPACE);
}

void add_sums(DirectShare& job) {
  job.has_direct_bytes = !job.process.sessions.empty();
  for (const core::StatsSnapshot& session : job.process.sessions) {
    job.has_direct_bytes = job.has_direct_bytes && session.has_direct_bytes;
    for (const core::StatsRow& row : session.rows) {
      if (is_counted(row.path)) job.sums[static_cast<unsigned>(row.op)].bytes += row.bytes;
    }
    for (const core::StatsHistogram& each : session.histograms) {
      if (is_counted(each.path)) job.sums[static_cast<unsigned>(each.op)].direct += each.direct_bytes;
    }
  }
  // Both are counted while they change.
  for (DirectSum& sum : job.sums) sum.direct = std::min(sum.direct, sum.bytes);
}

double percent(const DirectSum& sum) {
  return 100 * static_cast<double>(sum.direct) / std::max(1.0, static_cast<double>(sum.bytes));
}

const char* nothing_text(const DirectShare& job) {
  return job.process.sessions.empty() ? "It has no session of the library."
                                      : "Nothing was read or written by the library so far.";
}

std::string sums_text(const DirectShare& job) {
  std::string text;
  for (const Op op : {Op::read, Op::write}) {
    const DirectSum& sum = job.sums[static_cast<unsigned>(op)];
    if (sum.bytes == 0) continue;
    const char* const verb = op == Op::read ? "read" : "written";
    if (!job.has_direct_bytes) {
      text += fmt::format("{} {}; its library is too old to count how much of it was direct. ", format_size(sum.bytes),
                          verb);
      continue;
    }
    text += fmt::format("{} {}: {:.1f} % by O_DIRECT, {} through the page cache. ", format_size(sum.bytes), verb,
                        percent(sum), format_size(sum.bytes - sum.direct));
  }
  return text.empty() ? nothing_text(job) : text;
}

std::string way_of(const FileInUse& file) {
  if (file.direct > 0 && file.buffered > 0) return "both";
  return file.direct > 0 ? "O_DIRECT" : "buffered";
}

Json sum_json(const DirectShare& job, Op op) {
  const DirectSum& sum = job.sums[static_cast<unsigned>(op)];
  const auto& drive = job.drive_bytes[static_cast<unsigned>(op)];
  return {{"bytes", sum.bytes},
          {"direct_bytes", job.has_direct_bytes ? Json(sum.direct) : Json()},
          {"drive_bytes", drive ? Json(*drive) : Json()}};
}

}  // namespace

std::optional<bool> is_direct_by(const std::string& fdinfo) {
  const auto flags = number_in(fdinfo, "flags:", 8);
  return flags ? std::optional((*flags & O_DIRECT) != 0) : std::nullopt;
}

DirectShare look_at_job(pid_t pid) {
  DirectShare job;
  try {
    job.process = look_at(pid);
  } catch (const Failure& failure) {
    if (failure.exit_code() != kNotApplicable) throw;
    job.process = {pid, command_of(pid), {}, failure.what()};
  }
  add_sums(job);
  const std::string io = text_of_proc(fmt::format("/proc/{}/io", pid));
  job.drive_bytes[0] = number_in(io, "\nread_bytes:");
  job.drive_bytes[1] = number_in(io, "\nwrite_bytes:");
  add_files(job);
  return job;
}

std::string job_text(const DirectShare& job) {
  Page page;
  page.wrap("", fmt::format("process {} ({}): {}", job.process.pid, job.process.command, sums_text(job)));
  if (!job.process.refusal.empty()) page.wrap("  note: ", job.process.refusal);
  const auto& [read, written] = job.drive_bytes;
  if (read && written) {
    page.wrap("", fmt::format("All of the process, by the kernel's count: {} fetched from drives, {} sent to them.",
                              format_size(*read), format_size(*written)));
  }
  std::string text = page.text();
  if (const Ways ways = counts_of(job.process.sessions); !ways.empty()) text += "\n" + ways_text(ways);
  if (job.files.empty()) return text + "\nIt has no file open.\n";
  Table table({"open file", ">size", "opened"});
  for (const FileInUse& file : job.files) table.add({file.path, format_size(file.size), way_of(file)});
  text += "\n" + table.text().string();
  Page below;
  if (job.files_left_out > 0) below.wrap("  ", fmt::format("and {} more", job.files_left_out));
  for (const FileInUse& file : job.files) {
    if (file.obstacle.empty()) continue;
    below.wrap("", fmt::format("{}: {}", file.path, file.obstacle));
    below.wrap("  -> ", facts::as_sentence(file.remedy));
  }
  return text + below.text();
}

Json job_json(const DirectShare& job) {
  Json json = {{"schema", 1},
               {"pid", job.process.pid},
               {"command", job.process.command},
               {"note", job.process.refusal},
               {"read", sum_json(job, Op::read)},
               {"write", sum_json(job, Op::write)},
               {"files", Json::array()},
               {"files_left_out", job.files_left_out}};
  for (const FileInUse& file : job.files) {
    json["files"].push_back({{"path", file.path},
                             {"size", file.size},
                             {"direct_descriptors", file.direct},
                             {"buffered_descriptors", file.buffered},
                             {"obstacle", file.obstacle},
                             {"remedy", file.remedy}});
  }
  return json;
}

}  // namespace penstock::tools
