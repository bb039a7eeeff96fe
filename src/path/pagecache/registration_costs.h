// SPDX-License-Identifier: Apache-2.0

// Tells when a registration has paid for itself: the costs of registering pages with a device, of fetching bytes out of
// such pages, and of bouncing them. A model, which reads no clock and calls no one: it is told how long requests took,
// and until then it has first guesses. Thread-safe, without a lock; a measurement that is lost to another does no harm.
//
// All costs are nanoseconds; a CPU second is worth as many seconds of waiting as the policy says.
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
  static constexpr std::uint64_t kExtentBytes = std::uint64_t{32} << 20;  // Registered at once.

  explicit RegistrationCosts(double cpu_weight);

  // The time that the request would have saved, had `bytes` of it been registered. A small request goes by itself, on
  // its caller's thread.
  std::int64_t saving(const FileRange& request, std::uint64_t bytes, bool small) const;
  // So much an extent must save to be worth its registration, where a request of so many bytes wants `bytes` of it.
  std::int64_t break_even(std::uint64_t request, std::uint64_t bytes, bool small) const;
  // Takes in how long it took to register a whole extent, alone;
  void learn_registering(std::uint64_t wall_ns);
  // a large read, or a part of it: registered and fetched, the two overlapped; fetched out of what was registered;
  void learn_first_fetch(std::uint64_t request, std::uint64_t bytes, std::uint64_t wall_ns);
  void learn_fetch(std::uint64_t request, std::uint64_t bytes, std::uint64_t wall_ns);
  // or bounced out of the page cache, with the CPUs of all who worked on it (0: not told).
  void learn_bounce(std::uint64_t request, std::uint64_t bytes, std::uint64_t wall_ns, std::uint64_t cpu_ns);

 private:
  using Cost = std::atomic<std::uint64_t>;  // For a mebibyte.

  double slowness() const;
  double bounce_cost(const FileRange& request) const;

  const double cpu_weight_;
  const std::uint64_t guess_;  // The cost of bouncing.
  // First guesses are of an H200 machine, 2026-11-21.
  static constexpr std::uint64_t kFirstFetchGuess = 30'000;
  Cost register_{32'000};               // Small folios.
  Cost first_fetch_{kFirstFetchGuess};  // The same and the DMA, overlapped.
  Cost fetch_{19'000};                  // DMA.
  std::array<Cost, kSizeClasses> bounce_;
  Cost bounce_cpu_;
};

}  // namespace penstock::core
