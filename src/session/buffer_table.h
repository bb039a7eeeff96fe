// SPDX-License-Identifier: Apache-2.0

// Registered buffers by exact base address, with the facts of their memory. A lookup takes no lock and writes nothing;
// registering and deregistering take a mutex.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "device/device.h"

namespace penstock::core {

struct Buffer {
  std::uint64_t base = 0;
  std::uint64_t size = 0;  // Bytes registered.
  PointerFacts memory;
};

class BufferTable {
 public:
  BufferTable();
  ~BufferTable();

  Status insert(const Buffer& buffer);
  // Returns the buffer that was registered there.
  Result<Buffer> remove(std::uint64_t base);
  std::optional<Buffer> find(std::uint64_t base) const;
  // The result of find() stays valid while this number is unchanged.
  std::uint64_t changes() const { return changes_.load(std::memory_order_acquire); }

 private:
  struct Entry;
  struct Table;

  Entry* place_for(Table& table, std::uint64_t base) const;
  void make_room() REQUIRES(mutex_);

  std::atomic<Table*> current_;
  Mutex mutex_;
  // Also all old tables, because a reader may still use one.
  std::vector<std::unique_ptr<Table>> tables_ GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> changes_{0};
  std::atomic<std::uint32_t> rebuilds_{0};  // Odd while the table is swept.
};

}  // namespace penstock::core
