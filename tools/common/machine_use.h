// SPDX-License-Identifier: Apache-2.0

// The machine's time and bytes that a measurement took, and that others took meanwhile, as the kernel counts them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace penstock::tools {

// Bytes that this process really had fetched from drives since it began, however it asked: more than it got where
// requests are cut from whole blocks, less where the page cache had some. Nothing if the kernel does not count them.
std::optional<std::uint64_t> bytes_read_from_drives();

// Counts the processor time of other programs of this machine, and of its neighbours under one hypervisor, from now on.
// Interrupts are left out, since they are mostly those of our own requests.
class OtherPrograms {
 public:
  OtherPrograms();
  double wall_seconds() const;
  double cpu_seconds() const;
  double share() const;  // The part of all processors.

 private:
  const std::chrono::steady_clock::time_point began_;
  const double others_before_;
};

// A part of all processors.
double share_of_processors(double cpu_seconds, double wall_seconds);

// True if others had so much that a measurement may be about them.
constexpr bool is_shared(double share_of_others) { return share_of_others > 0.05; }
std::string shared_text(double share_of_others);

}  // namespace penstock::tools
