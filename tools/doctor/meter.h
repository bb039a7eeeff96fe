// SPDX-License-Identifier: Apache-2.0

// Measures for a second or two how fast pieces of files travel one way or another. It takes its own bytes out of the
// page cache again, and leaves the ones that were there.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/arena.h"
#include "tools/common/runner.h"
#include "tools/doctor/survey.h"

namespace penstock::tools {

struct Rate {
  double bytes_per_second = 0;
  std::vector<double> turns;  // Each turn's rate.
  std::uint64_t bytes = 0;
  double seconds = 0;
  double cpus_busy = 0;  // On average.
  Tally tally;           // Bytes that went by the library.

  double slowest() const;  // The slowest turn's.
  double fastest() const;
  void settle();  // The rate of all turns.
};

// A part of the way is at least as quick as the whole way was in the same turn: a slower measurement is chance, or
// another way to ask for it.
void raise_to(Rate& part, const Rate& whole);

enum class Into : std::uint8_t { device, host };

// How pieces travel.
struct Variant {
  const Session* session = nullptr;  // Null: read(2) by one thread, and a copy into the device's memory.
  Into into = Into::device;
  unsigned threads = 1;  // Each with requests of its own.
};

// For one request of a way by that session, or by none: then `otherwise` says what a device is. Memory that stands in
// for a GPU's is such to the session that made it, and host memory to all others.
Arena memory_of(const Session* session, const Session& otherwise, Into where, unsigned gpu);

class Probe {
 public:
  // Seconds: for each way, up to kWaysInFull of them; more share the time that so many would take.
  Probe(const Survey& survey, const Session& session, unsigned gpu, double seconds)
      : survey_(survey), session_(session), gpu_(gpu), seconds_(seconds) {}

  // A rate for each way. They take turns, so that what else the machine does meets all alike. The pieces: at least one.
  // is_cold: none of them is cached, and none shall be afterwards. After each turn `told` is called.
  std::vector<Rate> measure(const std::vector<Variant>& variants, const std::vector<Piece>& pieces, bool is_cold,
                            const std::function<void()>& told);
  // The rate of the bus, between pinned host memory and the GPU's. Nothing if host memory stands in.
  std::optional<Rate> measure_link(Into into);
  Rate measure_host_copy();

 private:
  Rate repeat(const std::function<void()>& copy, std::uint64_t bytes) const;

  const Survey& survey_;
  const Session& session_;
  const unsigned gpu_;
  const double seconds_;
};

constexpr unsigned kTurns = 6;
constexpr std::size_t kWaysInFull = 8;
inline double seconds_each(double seconds, std::size_t variants) {
  return variants <= kWaysInFull ? seconds : seconds * kWaysInFull / static_cast<double>(variants);
}

}  // namespace penstock::tools
