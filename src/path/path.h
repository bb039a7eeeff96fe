// SPDX-License-Identifier: Apache-2.0

// A way to move chunks. A Path says what it can move (judge, limits) and opens Channels; a Channel moves chunks. Both
// are poll-driven and own no threads: those belong to session/.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "device/device.h"
#include "path/verdict.h"
#include "plan/plan.h"
#include "storage/file.h"

namespace penstock::core {

// One chunk to move between a file and memory.
struct Task {
  Op op = Op::read;
  File* file = nullptr;
  std::byte* memory = nullptr;    // Of the chunk's first payload byte.
  std::int64_t mapped_shift = 0;  // From there to where storage's DMA engines reach it; for paths that are direct.
  Chunk chunk;
  bool patient = false;      // Worth waiting for pages that are just being registered; for paths that do so.
  bool alone = false;        // Its caller waits for it, and no other goes along.
  std::uint64_t cookie = 0;  // Comes back in the completion.
};

struct Completion {
  std::uint64_t cookie = 0;
  std::uint64_t file_offset = 0;  // The chunk's payload, as it was asked for.
  std::uint64_t size = 0;
  std::uint64_t bytes = 0;  // Payload bytes moved, from the chunk's start on; fewer at the file's end.
  Status status;
  Way way = Way::buffered;        // How the bytes went in the end.
  Reason bounced = Reason::none;  // Why they were bounced by a path that is direct; none where they were not.
};

// Room for a fixed number of chunks in flight. Used by one thread at a time; allocates nothing once open.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual bool has_room() const = 0;
  virtual bool is_idle() const = 0;
  // Needs has_room(). Whatever goes wrong arrives as a completion.
  virtual void submit(const Task& task) = 0;
  // Moves things along and fills in what is done. With `wait`, blocks until something is, or the channel is idle.
  virtual unsigned poll(std::span<Completion> completions, bool wait) = 0;
  // Needs is_idle(). One chunk from start to end on the calling thread, the shortest way.
  virtual Completion run(const Task& task) = 0;
  // Lets go of kernel references to the file (0: to every file). Needs that none of its chunks is in flight.
  virtual void forget_file(std::uint64_t file_id) = 0;
  // After this is true, nothing more may be submitted: close the channel.
  virtual bool is_broken() const = 0;
};

struct ChannelOptions {
  Device* device = nullptr;     // Null for host memory.
  unsigned depth = 1;           // Chunks in flight.
  std::uint64_t chunk_max = 0;  // Bytes; a multiple of 4096.
  // In place: what the kernel will not do directly is an error, and never goes through the page cache.
  bool direct_only = false;
};

// Who moves a request: its caller, by himself; a queue, with others; or many threads.
enum class SubmitMode : std::uint8_t { alone, queued, many };

// What a request is about.
struct FileRange {
  Op op = Op::read;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// How a request is best cut on its path.
struct TransferHints {
  bool in_cache = false;            // Through the page cache as a whole.
  unsigned threads_max = UINT_MAX;  // Threads that work on it, the caller's included.
  std::uint64_t chunk_max = 0;      // Bytes; 0: as everywhere.
  bool first_time = false;          // All of it must be made ready first.
};

// What moving a large read, or a part of it, took by the clock.
struct Timing {
  std::uint64_t bytes = 0;
  std::uint64_t request = 0;  // Bytes of the whole.
  std::uint64_t wall_ns = 0;
  bool bounced = false;  // All of it; else all of it for the first time, as its hints said.
};

class Path {
 public:
  virtual ~Path() = default;
  virtual PathId id() const = 0;
  // Asked for every request. May take its time at the first one for a file, or a device.
  virtual Verdict judge(File& file, const PointerFacts& memory, Op op) = 0;
  // Whether chunks go around the page cache wherever they can, whatever the user's descriptor.
  virtual bool is_direct() const { return false; }
  // Whether it can move bytes between files and pinned memory of the caller's, in place of the device's.
  virtual bool can_stage() const { return !is_direct(); }
  // Told of every request before its chunks: what can be prepared has been begun then.
  virtual TransferHints hint(File&, Device*, const FileRange&, SubmitMode) { return {}; }
  virtual void learn(const Timing&) {}
  // What chunks must look like for this file; `way` is what is wanted of the page cache.
  virtual Limits limits(File& file, Op op, Way way, std::uint64_t chunk_max) = 0;
  // Pinned host bytes that a channel of these options takes.
  virtual std::uint64_t channel_bytes(const ChannelOptions& options) const = 0;
  virtual Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions& options) = 0;
  // Lets go of what the path itself keeps for the file. None of its chunks is in flight, and none will be.
  virtual void forget_file(File&) {}
};

}  // namespace penstock::core
