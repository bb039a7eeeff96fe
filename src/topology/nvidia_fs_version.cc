// SPDX-License-Identifier: Apache-2.0

#include "topology/nvidia_fs_version.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <tuple>

#include "topology/platform.h"

namespace penstock::core {
namespace {

constexpr unsigned kNumberMax = 999;

constexpr const char* kChangeLog = "ChangeLog of NVIDIA/gds-nvidia-fs";
constexpr NvidiaFsFault kFaults[] = {
    {{0, 0, 0}, {2, 20, 5}, "its lists of DMA segments can corrupt memory", kChangeLog},
    {{2, 25, 6}, {2, 25, 7}, "it refuses every request (EFAULT)", kChangeLog},
};

// The kernel code that the change repairs begins with Linux 6.9. Each stable series that the change was brought to
// stands here with its first release that has it. Distributions number their kernels x.y.0 and take changes from later
// ones, so nothing is known of theirs.
constexpr NvidiaFsVersion kBeforeTaskSwitch{6, 9, 0};
constexpr NvidiaFsVersion kWithTaskSwitch{7, 2, 0};
constexpr NvidiaFsVersion kLateWithTaskSwitch[] = {{6, 12, 95}, {6, 18, 38}, {7, 1, 3}};

}  // namespace

std::optional<NvidiaFsVersion> parse_nvidia_fs_version(std::string_view text) {
  unsigned numbers[3] = {};
  unsigned count = 0;
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (count < 3) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), numbers[count]);
    if (error != std::errc() || numbers[count] > kNumberMax) return std::nullopt;
    ++count;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty() || text.front() != '.') break;
    text.remove_prefix(1);
  }
  if (count < 2) return std::nullopt;
  return NvidiaFsVersion{numbers[0], numbers[1], numbers[2], count == 3};
}

int number_of(const NvidiaFsVersion& version) {
  return static_cast<int>(version.major * 1'000'000 + version.minor * 1000 + version.patch);
}

std::string text_of(const NvidiaFsVersion& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor) +
         (version.has_patch ? "." + std::to_string(version.patch) : "");
}

bool is_before(const NvidiaFsVersion& one, const NvidiaFsVersion& other) {
  const bool has_patch = one.has_patch && other.has_patch;
  return std::tuple(one.major, one.minor, has_patch ? one.patch : 0) <
         std::tuple(other.major, other.minor, has_patch ? other.patch : 0);
}

const NvidiaFsFault* fault_of_nvidia_fs(const NvidiaFsVersion& version) {
  const auto* const found = std::find_if(std::begin(kFaults), std::end(kFaults), [&](const NvidiaFsFault& one) {
    return std::tuple(version.major, version.minor, version.patch) >=
               std::tuple(one.first.major, one.first.minor, one.first.patch) &&
           is_before(version, one.fixed);
  });
  return found == std::end(kFaults) ? nullptr : found;
}

Tristate has_task_switch_change(std::string_view kernel_release) {
  const auto kernel = parse_nvidia_fs_version(kernel_release);  // Linux is numbered alike.
  if (!kernel) return Tristate::unknown;
  if (is_before(*kernel, kBeforeTaskSwitch)) return Tristate::no;
  if (!is_before(*kernel, kWithTaskSwitch)) return Tristate::yes;
  for (const NvidiaFsVersion& first : kLateWithTaskSwitch) {
    if (kernel->major != first.major || kernel->minor != first.minor || kernel->patch == 0) continue;
    return is_before(*kernel, first) ? Tristate::no : Tristate::yes;
  }
  return Tristate::unknown;
}

Tristate stops_machine(const NvidiaFsVersion& version, std::string_view kernel_release) {
  if (version.is_stand_in()) return Tristate::no;
  const Tristate has_change = has_task_switch_change(kernel_release);
  const bool is_newer = is_before(kNewestKnownNvidiaFs, version);
  return has_change == Tristate::yes && is_newer ? Tristate::unknown : has_change;
}

Tristate nvidia_fs_stops_machine(const NvidiaFs& nvidia_fs, const Root& root) {
  const auto version = parse_nvidia_fs_version(nvidia_fs.module_version);
  return version ? stops_machine(*version, root.read_line("/proc/sys/kernel/osrelease")) : Tristate::no;
}

}  // namespace penstock::core
