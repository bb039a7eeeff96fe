// SPDX-License-Identifier: Apache-2.0

// Gets chunks, and believes only what their own headers and checksums say. The base of the store, whose writer knows
// its chunks by an index (store.h), and of the follower, which learns of them from a journal (follower.h). Any thread.
// No lock is held while bytes move.
#pragma once

#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "kv/drive.h"
#include "kv/format.h"
#include "kv/pace.h"
#include "kv/request.h"

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

// Adds requests to a drive for a chunk's header and, where it is not empty, its payload.
void add_transfers(penstock_op op, const Chunk& chunk, const iovec& header, std::span<const iovec> payload,
                   std::vector<penstock_request>& transfers);

// Reads the requests' chunks, all at once, into as many bytes as each has. The outcome is done, damaged or failed; in
// the last two the memory may have anything in it.
void read_chunks(Drive& drive, const Name& store, std::span<Request* const> requests);

struct Counts {
  std::uint64_t puts[kOutcomes] = {}, gets[kOutcomes] = {};
  std::uint64_t put_bytes = 0, get_bytes = 0;
  std::uint64_t evicted = 0;
  std::uint64_t commits = 0;
};

class Reader {
 public:
  virtual ~Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  void get(std::span<Request> requests) EXCLUDES(mutex_);

  bool contains(const Name& key) const EXCLUDES(mutex_);
  // The payload's bytes; 0 where there is none.
  std::uint64_t size_of(const Name& key) const EXCLUDES(mutex_);
  // How long a get of these will take, by the times of recent gets; nothing as long as none was measured. Chunks that
  // are not there take no time.
  std::optional<double> seconds_to_get(std::span<const Name> keys) const EXCLUDES(mutex_);

 protected:
  Reader(Drive& drive, const Name& name) : drive_(drive), name_(name) {}

  // Returns the chunk that a get of this key reads, or null.
  virtual const Chunk* find(const Name& key) const REQUIRES(mutex_) = 0;
  // A get of this chunk begins. Its slot is to stay as it is until the get ends.
  virtual void begin_get(const Chunk&) REQUIRES(mutex_) {}
  // The get that begin_get() was told of ends. The request's outcome may be changed.
  virtual void end_get(Request& request) REQUIRES(mutex_) = 0;

  Drive& drive_;
  const Name name_;
  mutable core::Mutex mutex_;
  Counts counts_ GUARDED_BY(mutex_);

 private:
  Pace pace_;
};

}  // namespace penstock::kv
