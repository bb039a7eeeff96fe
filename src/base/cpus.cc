// SPDX-License-Identifier: Apache-2.0

#include "base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <optional>

#include "base/number_text.h"
#include "base/regular_file.h"

namespace penstock::core {
namespace {

constexpr std::size_t kSmallFileMax = 16 << 10;
constexpr unsigned kRanksMax = 4096;
constexpr unsigned kCgroupDepthMax = 64;
constexpr std::string_view kBlanks = " \t\r\n";

struct CpuMask {
  cpu_set_t words[kCpusMax / CPU_SETSIZE];
};

// Reads only regular files, so that a pipe or a device in their place cannot block the reader.
std::string read_small_file(const std::string& path) {
  const RegularFile file = open_regular_file(path);
  if (file.error != 0) return "";
  std::string text(kSmallFileMax, '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = ::read(file.fd.get(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  return text;
}

// A line of /proc/self/cgroup reads "4:cpu,cpuacct:/pod/container" for a controller of the first version, with its list
// and its path; for the second version, which lists no controllers, it reads "0::/pod/container".
bool is_of(std::string_view line, std::string_view controller) {
  const std::size_t first = line.find(':'), second = line.find(':', first + 1);
  if (second == std::string_view::npos || !line.substr(second + 1).starts_with('/')) return false;
  std::string_view list = line.substr(first + 1, second - first - 1);
  if (controller.empty()) return list.empty() && line.starts_with("0:");
  for (std::size_t comma = 0; comma != std::string_view::npos; list.remove_prefix(std::min(comma + 1, list.size()))) {
    comma = list.find(',');
    if (list.substr(0, comma) == controller) return true;
  }
  return false;
}

// The cgroup of this process in a hierarchy: "/pod/container"; "" at the top, or if there is no hierarchy.
std::string cgroup_of(const std::string& root, std::string_view controller) {
  const std::string text = read_small_file(root + "/proc/self/cgroup");
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string line = text.substr(start, end - start);
    start = end + 1;
    if (!is_of(line, controller) || line.find("..") != std::string::npos) continue;
    const std::string group = line.substr(line.find('/'));
    return group == "/" ? "" : group;
  }
  return "";
}

// Calls `look` with every group's folder, from this process's up to the top; ends early where it returns false. An
// empty `controller` means the hierarchy of the second version.
template <typename Look>
void for_each_cgroup(const std::string& root, std::string_view controller, Look look) {
  std::string group = cgroup_of(root, controller);
  const std::string top = root + "/sys/fs/cgroup" + (controller.empty() ? "" : "/") + std::string(controller);
  for (unsigned depth = 0; depth < kCgroupDepthMax; ++depth) {
    if (!look(top + group) || group.empty()) return;
    group.resize(group.rfind('/'));
  }
}

// The CPUs that all ranks share, as far as known.
CpuSet cpus_of_all(const std::string& root) {
  CpuSet cpus;
  for_each_cgroup(root, "", [&](const std::string& folder) {
    cpus = parse_cpu_list(read_first_line(folder + "/cpuset.cpus.effective"));
    return cpus.none();
  });
  return cpus.any() ? cpus : parse_cpu_list(read_first_line(root + "/sys/devices/system/cpu/online"));
}

// "50000" and "100000": microseconds of CPU in microseconds; "max" or "-1" where there is no limit.
double parse_quota(std::string_view quota, std::string_view period) {
  const auto used = parse_number<std::uint64_t>(quota), of = parse_number<std::uint64_t>(period);
  if (!used || !of || *used == 0 || *of == 0) return kCpusMax;
  return static_cast<double>(*used) / static_cast<double>(*of);
}

// The quota in CPUs, which need not be whole.
double quota_of_all(const std::string& root) {
  double least = kCpusMax;
  for_each_cgroup(root, "", [&](const std::string& folder) {
    const std::string text = read_first_line(folder + "/cpu.max");
    const std::size_t blank = std::min(text.find(' '), text.size());
    const std::string period = blank < text.size() ? text.substr(blank + 1) : "";
    least = std::min(least, parse_quota(text.substr(0, blank), period));
    return true;
  });
  for_each_cgroup(root, "cpu", [&](const std::string& folder) {
    const std::string quota = read_first_line(folder + "/cpu.cfs_quota_us");
    least = std::min(least, parse_quota(quota, read_first_line(folder + "/cpu.cfs_period_us")));
    return true;
  });
  return least;
}

}  // namespace

std::string read_first_line(const std::string& path) {
  std::string text = read_small_file(path);
  text.resize(std::min(text.find('\n'), text.size()));
  text.resize(text.find_last_not_of(kBlanks) + 1);
  return text;
}

CpuSet parse_cpu_list(std::string_view text) {
  CpuSet cpus;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view range = text.substr(0, comma);
    const std::size_t dash = range.find('-');
    const auto first = parse_number<std::uint64_t>(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_number<std::uint64_t>(range.substr(dash + 1));
    if (!first || !last || *first > *last || *last >= kCpusMax) return {};
    for (std::uint64_t cpu = *first; cpu <= *last; ++cpu) cpus.set(cpu);
    if (comma == std::string_view::npos) return cpus;
    text.remove_prefix(comma + 1);
  }
}

std::string cpu_list_text(const CpuSet& cpus) {
  std::string text;
  for (std::size_t first = cpus._Find_first(); first < kCpusMax;) {
    std::size_t last = first;
    while (last + 1 < kCpusMax && cpus[last + 1]) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last > first) text += '-' + std::to_string(last);
    first = cpus._Find_next(last);
  }
  return text;
}

CpuSet allowed_cpus() {
  CpuMask mask{};
  CpuSet cpus;
  if (::sched_getaffinity(0, sizeof mask, mask.words) != 0) return cpus;
  for (unsigned cpu = 0; cpu < kCpusMax; ++cpu) cpus[cpu] = CPU_ISSET_S(cpu, sizeof mask, mask.words);
  return cpus;
}

bool allow_cpus(const CpuSet& cpus) {
  CpuMask mask{};
  for (unsigned cpu = 0; cpu < kCpusMax; ++cpu) {
    if (cpus[cpu]) CPU_SET_S(cpu, sizeof mask, mask.words);
  }
  return ::sched_setaffinity(0, sizeof mask, mask.words) == 0;
}

unsigned ranks_on_host(Environment environment) {
  for (const char* name : {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                           "MV2_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"}) {
    const char* const text = environment(name);
    const std::optional<std::uint64_t> ranks = text == nullptr ? std::nullopt : parse_number<std::uint64_t>(text);
    if (ranks && *ranks > 0 && *ranks <= kRanksMax) return static_cast<unsigned>(*ranks);
  }
  return 1;
}

unsigned fair_share_of_cpus(const std::string& root, const CpuSet& allowed, unsigned ranks) {
  const CpuSet all = cpus_of_all(root);
  const std::uint64_t total = all.any() ? all.count() : allowed.count();
  const auto quota = static_cast<std::uint64_t>(std::ceil(quota_of_all(root)));
  const std::uint64_t share =
      std::min({std::uint64_t{allowed.any() ? allowed.count() : total}, total / ranks, quota / ranks});
  return static_cast<unsigned>(std::max<std::uint64_t>(share, 1));
}

double cpu_limit(const std::string& root, const CpuSet& allowed) {
  const double most = allowed.any() ? static_cast<double>(allowed.count()) : kCpusMax;
  return std::min(most, quota_of_all(root));
}

}  // namespace penstock::core
