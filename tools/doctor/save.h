// SPDX-License-Identifier: Apache-2.0

// Measures how fast a checkpoint is written into a folder, flushed and all, in the ways that there are: by turns, to
// files that nobody else sees and that are gone afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/doctor/meter.h"

namespace penstock::tools {

struct SaveWay {
  const Session* session = nullptr;  // Null: a copy into host memory, and write(2) by one thread.
  Into from = Into::device;
  bool is_prepared = false;  // Into a file whose bytes were all written before.
};

class SaveMeter {
 public:
  // size: of the checkpoint; seconds: of each way, as of a Meter.
  SaveMeter(std::string folder, std::uint64_t size, const Session& session, unsigned gpu, double seconds);

  // A rate for each way. After each turn `told` is called.
  std::vector<Rate> measure(const std::vector<SaveWay>& ways, const std::function<void()>& told);

 private:
  const std::string folder_;
  const std::uint64_t size_;
  const Session& session_;
  const unsigned gpu_;
  const double seconds_;
};

}  // namespace penstock::tools
