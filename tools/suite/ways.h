// SPDX-License-Identifier: Apache-2.0

// The ways in which the suite moves files: like a program that knows no library, by Penstock, and by another
// libcufile.so.0 in a process of its own. A way opens, moves, flushes and closes; the caller holds the clock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/penstock.hpp"
#include "tools/common/runner.h"

namespace penstock::tools {

struct SuiteFile {
  std::string path;
  std::uint64_t size = 0;
};

class SuiteVariant {
 public:
  virtual ~SuiteVariant() = default;
  // Seconds from the first open to the last close, writes flushed. So many threads, each with files of its own.
  virtual double move(const std::vector<SuiteFile>& files, bool is_load, unsigned threads) = 0;
  virtual std::string name() const = 0;
  virtual const Tally* tally() const { return nullptr; }  // Penstock's account of the bytes, over all moves.
};

// read(2) or write(2) of 16 MiB at a time by way of host memory, and a copy between that and the device, one after the
// other: a program that saves its tensors without a library for it does the same.
std::unique_ptr<SuiteVariant> plain_variant(const Session& session, unsigned gpu);
std::unique_ptr<SuiteVariant> penstock_variant(const Session& session, unsigned gpu);

// The library `path`. To be made before this process has opened a device: it forks, once for each of so many threads.
// Its memory is as large as the largest file. Exit code 77 where this build has no --versus.
std::unique_ptr<SuiteVariant> baseline_variant(const std::string& path, bool stand_in, std::uint64_t largest,
                                               unsigned threads);

}  // namespace penstock::tools
