// SPDX-License-Identifier: Apache-2.0

// What a measurement took from the machine, and what others took meanwhile, as the kernel counts it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace penstock::tools {

// What this process really had fetched from drives since it began, however it asked: more than it got where requests
// are cut from whole blocks, less where the page cache had some. Nothing where the kernel does not count it.
std::optional<std::uint64_t> bytes_read_from_drives();

// What other programs of this machine, and its neighbours under one hypervisor, use of the processors from now on.
// Interrupts are left out, since they are mostly those of our own requests.
class OtherPrograms {
 public:
  OtherPrograms();
  double wall_seconds() const;
  double cpu_seconds() const;
  double share() const;  // Of all processors.

 private:
  const std::chrono::steady_clock::time_point began_;
  const double others_before_;
};

// A part of all processors.
double share_of_processors(double cpu_seconds, double wall_seconds);

// Whether others had so much that a measurement may be of them.
constexpr bool is_shared(double share_of_others) { return share_of_others > 0.05; }
std::string shared_text(double share_of_others);

}  // namespace penstock::tools
