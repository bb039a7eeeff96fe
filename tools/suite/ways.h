// SPDX-License-Identifier: Apache-2.0

// The variants of the suite. One moves files like a program without a library, one by Penstock, and one by another
// libcufile.so.0 in a process of its own. A variant opens, moves, flushes and closes; the caller holds the clock.
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
  // Moves all files, with so many threads that each take files of their own. Returns the seconds from the first open to
  // the last close, with writes flushed.
  virtual double move(const std::vector<SuiteFile>& files, bool is_load, unsigned threads) = 0;
  virtual std::string name() const = 0;
  virtual const Tally* tally() const { return nullptr; }  // Penstock's count of the bytes, over all moves.
};

// Moves 16 MiB at a time with read(2) or write(2) through host memory, and copies between that and the device, one
// after the other, as a program does that saves its tensors without a library for it.
std::unique_ptr<SuiteVariant> plain_variant(const Session& session, unsigned gpu);
std::unique_ptr<SuiteVariant> penstock_variant(const Session& session, unsigned gpu);

// Moves by the library `path`. It must be made before this process has opened a device, because it forks, once for each
// thread. Its memory is as large as the largest file. Exit code 77 if this build has no --versus.
std::unique_ptr<SuiteVariant> baseline_variant(const std::string& path, bool stand_in, std::uint64_t largest,
                                               unsigned threads);

}  // namespace penstock::tools
