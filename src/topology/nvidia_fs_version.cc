// SPDX-License-Identifier: Apache-2.0

#include "topology/nvidia_fs_version.h"

#include <charconv>

namespace penstock::core {
namespace {

constexpr unsigned kMajor = 2;         // Unchanged since 2020; the module's source changes it only with the interface.
constexpr unsigned kAgedBelow = 20;    // 2.20.5 repairs memory corruption in lists of 4 GiB and more.
constexpr unsigned kBrokenMinor = 25;  // In 2.25.6 every request may fail with EFAULT; repaired in 2.25.7.
constexpr unsigned kBrokenPatch = 6;
constexpr unsigned kNumberMax = 999;

#if defined(__aarch64__)
constexpr unsigned kMinorMin = 17;  // Earlier versions are for x86-64 alone.
#else
constexpr unsigned kMinorMin = 0;
#endif

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
  return NvidiaFsVersion{numbers[0], numbers[1], numbers[2]};
}

int number_of(const NvidiaFsVersion& version) {
  return static_cast<int>(version.major * 1'000'000 + version.minor * 1000 + version.patch);
}

NvidiaFsStanding standing_of(const NvidiaFsVersion& version) {
  if (version.major == 0) return NvidiaFsStanding::stand_in;
  const bool is_broken = version.minor == kBrokenMinor && version.patch == kBrokenPatch;
  if (version.major != kMajor || is_broken || version.minor < kMinorMin) return NvidiaFsStanding::unknown;
  return version.minor < kAgedBelow ? NvidiaFsStanding::aged : NvidiaFsStanding::known;
}

}  // namespace penstock::core
