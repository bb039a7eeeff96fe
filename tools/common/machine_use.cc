// SPDX-License-Identifier: Apache-2.0

#include "tools/common/machine_use.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>

#include "tools/common/cufile_mappings.h"
#include "tools/common/runner.h"
#include "tools/common/units.h"

namespace penstock::tools {

std::optional<std::uint64_t> bytes_read_from_drives() {
  return number_in(text_of_proc("/proc/self/io"), "\nread_bytes:");
}

std::optional<std::uint64_t> machine_interrupts() { return number_in(text_of_proc("/proc/stat"), "\nintr "); }

std::optional<double> interrupts_per_gigabyte(std::optional<std::uint64_t> interrupts, std::uint64_t bytes) {
  if (!interrupts || bytes == 0) return std::nullopt;
  return static_cast<double>(*interrupts) / gigabytes(bytes);
}

namespace {

// The processor time of all programs since the machine started.
double busy_seconds() {
  enum { user, nice, system, idle, iowait, irq, softirq, steal, kinds };
  std::ifstream counts("/proc/stat");
  std::string name;
  std::array<double, kinds> ticks{};
  counts >> name;
  for (double& each : ticks) counts >> each;
  return (ticks[user] + ticks[nice] + ticks[system] + ticks[steal]) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

OtherPrograms::OtherPrograms()
    : began_(std::chrono::steady_clock::now()), others_before_(busy_seconds() - tools::cpu_seconds()) {}

double OtherPrograms::wall_seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

double OtherPrograms::cpu_seconds() const { return busy_seconds() - tools::cpu_seconds() - others_before_; }

double OtherPrograms::share() const { return share_of_processors(cpu_seconds(), wall_seconds()); }

double share_of_processors(double cpu_seconds, double wall_seconds) {
  const double all = wall_seconds * static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  return all > 0 ? std::clamp(cpu_seconds / all, 0.0, 1.0) : 0;
}

std::string shared_text(double share_of_others) {
  return fmt::format("other programs had {:.0f} % of the processors meanwhile", 100 * share_of_others);
}

}  // namespace penstock::tools
