// SPDX-License-Identifier: Apache-2.0

#include "tools/gdsio/numa_node.h"

#include <fmt/format.h>
#include <sched.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

constexpr unsigned kCpusMax = 8192;

std::optional<unsigned> take_number(std::string_view& text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value >= kCpusMax) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::vector<unsigned> parse_cpu_list(std::string_view text) {
  std::vector<unsigned> cpus;
  do {
    const std::optional<unsigned> first = take_number(text);
    const std::optional<unsigned> last = first && take(text, '-') ? take_number(text) : first;
    if (!first || !last || cpus.size() > kCpusMax) return {};
    for (unsigned cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  } while (take(text, ','));
  take(text, '\n');
  return text.empty() ? cpus : std::vector<unsigned>{};
}

void run_on_numa_node(unsigned node) {
  const std::string path = fmt::format("/sys/devices/system/node/node{}/cpulist", node);
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "re"), fclose);
  if (file == nullptr) throw Failure(fmt::format("there is no NUMA node {} on this machine", node), kNotApplicable);
  char text[8192];
  const std::vector<unsigned> cpus = parse_cpu_list({text, fread(text, 1, sizeof text, file.get())});
  if (cpus.empty()) throw Failure(fmt::format("NUMA node {} has no CPUs to run on", node), kNotApplicable);
  cpu_set_t* set = CPU_ALLOC(kCpusMax);
  const std::size_t size = CPU_ALLOC_SIZE(kCpusMax);
  CPU_ZERO_S(size, set);
  for (const unsigned cpu : cpus) CPU_SET_S(cpu, size, set);
  const int result = sched_setaffinity(0, size, set);
  const int error = errno;
  CPU_FREE(set);
  if (result == 0) return;
  throw Failure(fmt::format("cannot run on the CPUs of NUMA node {}: {}", node, std::strerror(error)), kNotApplicable);
}

}  // namespace penstock::tools
