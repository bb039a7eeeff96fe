// SPDX-License-Identifier: Apache-2.0

// The time and bytes that a measurement used, and that other programs used meanwhile, as the kernel counts them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace penstock::tools {

// The bytes that drives delivered to this process since it began, in whatever way it asked. They are more than it asked
// for if whole blocks were read, and fewer if the page cache had some. Nothing if the kernel does not count them.
std::optional<std::uint64_t> bytes_read_from_drives();

// All interrupts that the machine's processors have taken since it started, whoever caused them. Nothing if the kernel
// does not tell.
std::optional<std::uint64_t> machine_interrupts();

// Interrupts for each GB (10^9 bytes) that moved meanwhile; nothing if they were not counted, or no byte moved.
std::optional<double> interrupts_per_gigabyte(std::optional<std::uint64_t> interrupts, std::uint64_t bytes);

// Counts, from its construction on, the processor time of other programs on this machine, and of other machines under
// the same hypervisor. Interrupts are left out, since most of them belong to our own requests.
class OtherPrograms {
 public:
  OtherPrograms();
  double wall_seconds() const;
  double cpu_seconds() const;
  double share() const;  // The part of all processors that they had.

 private:
  const std::chrono::steady_clock::time_point began_;
  const double others_before_;
};

// CPU time as a fraction of what all processors offer in that wall time.
double share_of_processors(double cpu_seconds, double wall_seconds);

// True if other programs had so much that they may have influenced a measurement.
constexpr bool is_shared(double share_of_others) { return share_of_others > 0.05; }
std::string shared_text(double share_of_others);

}  // namespace penstock::tools
