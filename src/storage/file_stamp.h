// SPDX-License-Identifier: Apache-2.0

// Tells if a regular file was changed between two looks, by one system call and without a lock.
//
// A write, a truncation or a punched hole sets the time of the file's change (statx's ctime), which no call sets back.
// The kernel's clock for that may stand still for ten milliseconds, and a direct write sets it when it begins: so equal
// stamps say that nothing has changed only where the change they name was over long before the first of them.
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock::core {

struct FileStamp {
  std::uint64_t size = 0;              // Bytes.
  std::chrono::nanoseconds changed{};  // Real time of the last change; 0: not known.
  std::chrono::nanoseconds taken{};    // Real time of this look, or a moment before.

  bool is_known() const { return changed.count() != 0; }
  // True where the last change was over when we looked, if changes take no longer than `longest`.
  bool is_settled(std::chrono::nanoseconds longest) const { return is_known() && taken - changed >= longest; }
};

}  // namespace penstock::core
