// SPDX-License-Identifier: Apache-2.0

// Shows if a regular file was changed between two looks, by one system call and without a lock.
//
// A write, a truncation or a punched hole sets the time of the file's change (statx's ctime), which no call sets back.
// The kernel's clock for it may stand still for ten milliseconds, and a direct write sets the time when it begins: so
// equal stamps prove that nothing has changed only if the change that they name was over long before the first of them.
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock::core {

struct FileStamp {
  std::uint64_t size = 0;              // Bytes.
  std::chrono::nanoseconds changed{};  // Real time of the last change; 0: not known.
  std::chrono::nanoseconds taken{};    // Real time of this look, or a moment earlier.

  bool is_known() const { return changed.count() != 0; }
  // True if the last change was over at this look, provided that changes take no longer than `longest`.
  bool is_settled(std::chrono::nanoseconds longest) const { return is_known() && taken - changed >= longest; }
};

}  // namespace penstock::core
