// SPDX-License-Identifier: Apache-2.0

// Gets chunks, and trusts only their own headers and checksums. The base of the store, whose writer has an index of its
// chunks (store.h), and of the follower, which reads them from a journal (follower.h). Any thread. No lock is held
// while bytes move.
#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "kv/access.h"
#include "kv/format.h"
#include "kv/pace.h"
#include "kv/volume.h"

namespace penstock::kv {

// Pages of host memory for headers, aligned for direct I/O. Throws std::bad_alloc.
class Pages {
 public:
  explicit Pages(std::size_t count);
  std::span<std::byte> operator[](std::size_t i) const { return {memory_.get() + i * kHeaderBytes, kHeaderBytes}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte[], Free> memory_;
};

// Adds requests for a chunk's header and, unless it is empty, its payload.
void add_transfers(penstock_op op, const Chunk& chunk, const iovec& header, std::span<const iovec> payload,
                   std::vector<penstock_request>& transfers);

// The request's slot, if its chunk may be copied from and to it; else an empty span.
std::span<std::byte> slot_for_copies(Volume& volume, const Request& request);

// Reads the requests' chunks, all at once, each with its own size. The outcome is done, damaged or failed; in the last
// two cases the memory's contents are undefined.
void read_chunks(Volume& volume, const Name& store, std::span<Request* const> requests);

struct Counts {
  std::uint64_t puts[kOutcomes] = {}, gets[kOutcomes] = {};
  std::uint64_t put_bytes = 0, get_bytes = 0;
  std::uint64_t evicted = 0;
  std::uint64_t commits = 0;
};

class StoreView : public Reader {
 public:
  StoreView(const StoreView&) = delete;
  StoreView& operator=(const StoreView&) = delete;

  void get(std::span<Request* const> requests) override EXCLUDES(mutex_);
  bool contains(const Name& key) const override EXCLUDES(mutex_);
  std::uint64_t size_of(const Name& key) const override EXCLUDES(mutex_);
  std::optional<double> seconds_to_get(std::span<const Name> keys) const override EXCLUDES(mutex_);
  // Bytes of chunks that gets and puts move at present.
  std::uint64_t under_way() const { return under_way_.load(std::memory_order_relaxed); }

 protected:
  StoreView(Volume& volume, const Name& name) : volume_(volume), name_(name) {}

  // Returns the chunk that a get of this key reads, or null.
  virtual const Chunk* find(const Name& key) const REQUIRES(mutex_) = 0;
  // A get of this chunk begins: its slot must not change until the get ends.
  virtual void begin_get(const Chunk&) REQUIRES(mutex_) {}
  // The get that began with begin_get() ends. May change the request's outcome.
  virtual void end_get(Request& request) REQUIRES(mutex_) = 0;

  Volume& volume_;
  const Name name_;
  mutable core::Mutex mutex_;
  Counts counts_ GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> under_way_ = 0;

 private:
  Pace pace_;
};

}  // namespace penstock::kv
