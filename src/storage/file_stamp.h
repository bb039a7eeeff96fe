// SPDX-License-Identifier: Apache-2.0

// Detects whether a regular file changed between two points in time, by one system call each and without a lock.
//
// A write, a truncation or a punched hole sets the time of the file's change (statx's ctime), which no call sets back.
// The kernel's clock for it advances in steps of up to ten milliseconds, and a direct write sets the time when it
// begins: so equal stamps prove that nothing changed only if their change ended long before the first stamp was taken.
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock::core {

struct FileStamp {
  std::uint64_t size = 0;              // Bytes.
  std::chrono::nanoseconds changed{};  // Real time of the last change; 0: not known.
  std::chrono::nanoseconds taken{};    // Real time when the stamp was taken, or a moment earlier.

  bool is_known() const { return changed.count() != 0; }
  // True if the last change had ended when the stamp was taken, provided that changes take no longer than `longest`.
  bool is_settled(std::chrono::nanoseconds longest) const { return is_known() && taken - changed >= longest; }
};

}  // namespace penstock::core
