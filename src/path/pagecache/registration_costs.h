// SPDX-License-Identifier: Apache-2.0

// Says when a registration has paid for itself, from the costs of registering pages with a device, of fetching bytes
// from registered pages, and of bouncing them. A pure model that reads no clock: callers pass the times of requests,
// and until then it uses first guesses. Thread-safe, without a lock; a measurement that another overwrites does no
// harm.
//
// All costs are nanoseconds; a CPU second counts as many seconds of waiting as the policy says.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/size_class.h"
#include "core/io.h"

namespace penstock::core {

// The range and the direction of a request.
struct FileRange {
  Op op = Op::read;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

class RegistrationCosts {
 public:
  static constexpr std::uint64_t kExtentBytes = std::uint64_t{32} << 20;  // The size of a registration.

  explicit RegistrationCosts(double cpu_weight);

  // The time that the request would have saved if `bytes` of it had been registered. A small request is moved by
  // itself, on its caller's thread.
  std::int64_t saving(const FileRange& request, std::uint64_t bytes, bool small) const;
  // The saving at which registering an extent is worth it, if a request of `request` bytes uses `bytes` of it.
  std::int64_t break_even(std::uint64_t request, std::uint64_t bytes, bool small) const;
  // Learns the time of registering a whole extent, alone.
  void learn_registering(std::uint64_t wall_ns);
  // Learns the time of a large read, or of a part of it: registering and fetching, overlapped, and then fetching alone.
  void learn_first_fetch(std::uint64_t request, std::uint64_t bytes, std::uint64_t wall_ns);
  void learn_fetch(std::uint64_t request, std::uint64_t bytes, std::uint64_t wall_ns);
  // Learns the time of a large read that was bounced out of the page cache, with the CPU time of all threads (0:
  // unknown).
  void learn_bounce(std::uint64_t request, std::uint64_t bytes, std::uint64_t wall_ns, std::uint64_t cpu_ns);

 private:
  using Cost = std::atomic<std::uint64_t>;  // Nanoseconds for a mebibyte.

  double slowness() const;
  double bounce_cost(const FileRange& request) const;

  const double cpu_weight_;
  const std::uint64_t guess_;  // The cost of bouncing.
  // First guesses are of an H200 machine, 2026-11-21.
  static constexpr std::uint64_t kFirstFetchGuess = 30'000;
  Cost register_{32'000};               // Registering, with small folios.
  Cost first_fetch_{kFirstFetchGuess};  // Registering and DMA, overlapped.
  Cost fetch_{19'000};                  // The DMA alone.
  std::array<Cost, kSizeClasses> bounce_;
  Cost bounce_cpu_;
};

}  // namespace penstock::core
