// SPDX-License-Identifier: Apache-2.0

// The two sides of a store, whether it is on one drive (store.h), another process's (follower.h), or a drive with host
// memory in front of it (tiered_store.h). Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/status.h"
#include "kv/request.h"

namespace penstock::kv {

class Reader {
 public:
  virtual ~Reader() = default;
  // Sets the outcome of each request. Waits until all are done.
  virtual void get(std::span<Request* const> requests) = 0;
  virtual bool contains(const Name& key) const = 0;
  // The payload's size in bytes; 0 if there is no such chunk.
  virtual std::uint64_t size_of(const Name& key) const = 0;
  // Predicts how long a get of these takes, from recent gets; nothing until one was measured. Missing chunks take no
  // time.
  virtual std::optional<double> seconds_to_get(std::span<const Name> keys) const = 0;
};

class Writer {
 public:
  virtual ~Writer() = default;
  // Sets the outcome of each request. Waits until all are done.
  virtual void put(std::span<Request* const> requests) = 0;
  // Each returns false if there is no such chunk.
  virtual bool erase(const Name& key) = 0;
  // Counts as a use, like a get: the chunk is evicted later.
  virtual bool touch(const Name& key) = 0;
  // A pinned chunk is never evicted. Each pin() needs one unpin().
  virtual bool pin(const Name& key) = 0;
  virtual bool unpin(const Name& key) = 0;
  // Makes earlier puts durable. After a failure nothing is lost: the next commit tries again.
  virtual core::Status commit() = 0;
};

}  // namespace penstock::kv
