// SPDX-License-Identifier: Apache-2.0

// Finds the pieces of memory that a device has given out, by their addresses: for devices whose memory is mapped into
// the process. Thread-safe; looking up takes a shared lock.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "base/mutex.h"

namespace penstock::core {

struct Piece {
  std::uintptr_t base = 0;
  std::size_t size = 0;
};

class Pieces {
 public:
  // Pieces that are still there at the end stay mapped: their programs may touch them until these end.
  void add(void* memory, std::size_t size) {
    const WriterLock lock(mutex_);
    sizes_.emplace(reinterpret_cast<std::uintptr_t>(memory), size);
  }
  // Unmaps a piece; an address that begins none is ignored.
  void remove(void* memory) {
    const WriterLock lock(mutex_);
    const auto found = sizes_.find(reinterpret_cast<std::uintptr_t>(memory));
    if (found == sizes_.end()) return;
    ::munmap(memory, found->second);
    sizes_.erase(found);
  }
  // The piece that contains the address.
  std::optional<Piece> find(const void* pointer) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    const ReaderLock lock(mutex_);
    auto after = sizes_.upper_bound(address);
    if (after == sizes_.begin()) return std::nullopt;
    const auto& [base, size] = *--after;
    if (address - base >= size) return std::nullopt;
    return Piece{base, size};
  }

 private:
  SharedMutex mutex_;
  std::map<std::uintptr_t, std::size_t> sizes_ GUARDED_BY(mutex_);  // By base address.
};

}  // namespace penstock::core
