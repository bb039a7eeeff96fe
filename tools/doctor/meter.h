// SPDX-License-Identifier: Apache-2.0

// Measures for a second or two how fast pieces of files travel by one variant or another. It takes the bytes that it
// read itself out of the page cache again, and leaves those that were there before.
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
  std::vector<double> turns;  // The rate of each turn.
  std::uint64_t bytes = 0;
  double seconds = 0;
  double cpus_busy = 0;  // The average.
  Tally tally;           // Bytes that the library moved.

  double slowest() const;  // The rate of the slowest turn.
  double fastest() const;
  void settle();  // Computes the rate of all turns together.
};

// Raises the rate of a part of the way to that of the whole way in the same turns: the part cannot be slower, so its
// measurement was off by chance or asked for bytes in another way.
void raise_to(Rate& part, const Rate& whole);

enum class Into : std::uint8_t { device, host };

// How pieces are read in a measurement.
struct Variant {
  const Session* session = nullptr;  // Null: read(2) by one thread, and a copy into the device's memory.
  Into into = Into::device;
  unsigned threads = 1;  // Each thread makes its own requests.
};

// The memory for one request of a variant that uses `session`. If it uses none, `otherwise` says what a device is.
// Memory that stands in for a GPU's does so only for the session that made it; to all others it is host memory.
Arena memory_of(const Session* session, const Session& otherwise, Into where, unsigned gpu);

class Probe {
 public:
  // `seconds` is the time for each variant, for up to kVariantsInFull of them; more variants share the time of so many.
  Probe(const Survey& survey, const Session& session, unsigned gpu, double seconds)
      : survey_(survey), session_(session), gpu_(gpu), seconds_(seconds) {}

  // Measures the rate of each variant. They take turns, so that everything else on the machine affects all alike. There
  // must be at least one piece. is_cold: no piece is cached, and none shall be afterwards. `told` is called after each
  // turn.
  std::vector<Rate> measure(const std::vector<Variant>& variants, const std::vector<Piece>& pieces, bool is_cold,
                            const std::function<void()>& told);
  // The rate of the bus, between pinned host memory and the GPU's. Nothing if host memory stands in for a GPU's.
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
constexpr std::size_t kVariantsInFull = 8;
// A load measures from two sources, drive and page cache, and copies within memory.
constexpr std::size_t kMeasurementsMost = 2 * kVariantsInFull + 1;
inline double seconds_each(double seconds, std::size_t variants) {
  return variants <= kVariantsInFull ? seconds : seconds * kVariantsInFull / static_cast<double>(variants);
}

}  // namespace penstock::tools
