// SPDX-License-Identifier: Apache-2.0

// A way to move chunks, as the engine sees it. A request asks each path once: judge() says whether the path can serve
// it. The winner's shape() says how it is cut, which has no effect and may come to nothing; commit() is told of it,
// once, when it will move. The plan and, by a token, the channels go by what both say. Paths and channels are
// poll-driven and own no threads, but where a path's header says so. docs/internals/adding-a-path.md walks through one.
#pragma once

#include <chrono>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/memory.h"
#include "core/verdict.h"
#include "device/device.h"
#include "device/pinned_block.h"
#include "device/placement.h"
#include "path/reasons.h"
#include "plan/plan.h"
#include "storage/file.h"

namespace penstock::core {

// A path's notes on a request for its own channels; nothing else reads it. Valid while the request's file is open.
struct Token {
  void* file_state = nullptr;  // The path's own state of the file.
  std::int64_t shift = 0;      // From an address of the request's memory to where storage's DMA engines reach it.
  bool wait = false;           // For work that makes it ready; shape() tells by it that the request would have to.
  // Host memory around the request's that the program has registered, and tells of before it frees it; 0 bytes if there
  // is none. Storage may keep its pages until ChannelHooks::forget_memory().
  std::byte* kept = nullptr;
  std::uint64_t kept_bytes = 0;
};

// One chunk to move between a file and memory.
struct Task {
  Op op = Op::read;
  File* file = nullptr;
  RequestMemory memory;  // From the chunk's first payload byte on; in pieces only where the path gathers.
  Token token;
  Chunk chunk;
  std::uint64_t cookie = 0;  // Comes back in the completion.
};

struct Completion {
  std::uint64_t cookie = 0;
  std::uint64_t file_offset = 0;  // The chunk's payload, as it was asked for.
  std::uint64_t size = 0;
  std::uint64_t bytes = 0;  // Payload bytes moved, from the chunk's start on; fewer at the file's end.
  Status status;
  IoMode io_mode = IoMode::buffered;  // How the bytes went in the end.
  Reason bounced = Reason::none;      // Why they were bounced by a path that is direct; none where they were not.
};

// Some channels can do more, for those who keep them open for long. The hooks are a part of the channel, and used as it
// is.
class ChannelHooks {
 public:
  // Lets go of what the kernel keeps of Token::kept memory. Needs that none of its chunks is in flight.
  virtual void forget_memory(std::byte* /*kept*/) {}
  // Needs is_idle(). Opens what its first chunk would have to.
  virtual void warm_up() {}
  // False where a chunk may still have to open something, and so to wait for the device.
  virtual bool is_warm() const { return true; }
  // Waits until storage has done some of it, or until the deadline. False, and nothing was waited for, where something
  // else is to be done as well, or the wait could have no limit.
  virtual bool wait_for_storage(std::chrono::steady_clock::time_point /*deadline*/) { return false; }

 protected:
  ~ChannelHooks() = default;
};
class NoChannelHooks final : public ChannelHooks {};
inline constinit NoChannelHooks kNoChannelHooks;

// Room for a fixed number of chunks in flight. Used by one thread at a time; allocates nothing once open.
class Channel {
 public:
  explicit Channel(ChannelHooks* hooks = &kNoChannelHooks) : hooks_(hooks) {}
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

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
  // True if storage has any of its chunks: then a thread must poll for the device to get it.
  virtual bool waits_for_storage() const { return false; }
  // After this is true, nothing more may be submitted: close the channel.
  virtual bool is_broken() const = 0;

  ChannelHooks& hooks() const { return *hooks_; }

 private:
  ChannelHooks* const hooks_;
};

struct ChannelOptions {
  Device* device = nullptr;     // Null for host memory.
  unsigned depth = 1;           // Chunks in flight.
  std::uint64_t chunk_max = 0;  // Bytes; whole pages.
  // In place: a move that the kernel will not do directly is an error, and never goes through the page cache.
  bool direct_only = false;
  const Placement* placement = nullptr;  // For its pinned memory, and lives as long; null: near the device.
};

inline Result<PinnedBlock> open_block(const ChannelOptions& options, std::size_t size) {
  return PinnedBlock::open(options.device, size, options.placement == nullptr ? Placement{} : *options.placement);
}

// The mover of a request: its caller's thread alone; a queue, with others; many threads; or a stream, which takes by
// itself the bytes that it is lent.
enum class SubmitMode : std::uint8_t { alone, queued, many, on_stream };

// A request that was found sane, as plan, paths and channels are told of it. Valid while its file is open.
struct RoutedRequest : Request {
  File* file = nullptr;
  RequestMemory memory;        // In pieces only where the path gathers.
  PointerFacts facts;          // The memory's.
  std::uint64_t file_end = 0;  // A moment ago the file reached so far; 0: not known.
  bool prefer_cached = false;  // Chunks that lie in the page cache are taken from there although planned direct.
  SubmitMode mode = SubmitMode::alone;
  IoMode io_mode = IoMode::buffered;  // The configuration's and the descriptor's use of the page cache.
  std::uint64_t chunk_max = 0;        // Bytes that storage is asked for at once, at most.

  Device* device() const { return facts.needs_device() ? facts.device : nullptr; }
};

// The result of preparing a request.
struct Prepared {
  Limits limits;                    // The limits of its chunks.
  Token token;                      // For its channels.
  unsigned threads_max = UINT_MAX;  // The most that are worth having, the caller's included.
  bool tune_threads = false;        // The best number of these is to be found out by trying.
  bool first_time = false;          // All of it must be made ready first.
  bool learns = false;              // The time of a large read is told to learn().
};

// The times of a large read, or of a part of it.
struct Timing {
  std::uint64_t bytes = 0;
  std::uint64_t request = 0;  // Bytes of the whole.
  std::uint64_t wall_ns = 0;
  std::uint64_t cpu_ns = 0;  // All threads' that worked on it; 0: not told.
  bool bounced = false;      // All of it, out of the page cache; else none.
  bool first_time = false;   // The same as when it was prepared.
};

// Few paths want to hear of more than Path says: the page cache's, which weighs what registering pages saves, and those
// that map what programs register. Thread-safe, and lives as long as its path.
class PathHooks {
 public:
  // The request will move as it was shaped, or as this changes the shape. Once for each: it may register, and learn.
  virtual void commit(const RoutedRequest&, Prepared&) {}
  virtual void learn(const Timing&) {}
  // The bytes of a read, or the first of them, if streams of the memory's device reach them without help (they
  // must be such as StreamHome::reaches_pages_of() the device); none if they do not. Good for as long as a request
  // on such a stream is under way, as one must be already: later changes of the file do not matter. Calls no
  // device.
  virtual std::span<const std::byte> lend(const RoutedRequest&) { return {}; }
  // A program has registered the memory, which holds the buffer, and will tell before it frees it.
  virtual void add_buffer(const PointerFacts& /*memory*/, std::uint64_t /*base*/, std::uint64_t /*size*/) {}
  // Returns when the path has nothing to do with the buffer any more.
  virtual void remove_buffer(std::uint64_t /*base*/) {}

 protected:
  ~PathHooks() = default;
};

class Path {
 public:
  explicit Path(PathHooks* hooks = nullptr) : hooks_(hooks) {}
  virtual ~Path() = default;
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  // Tells if requests between the file and the memory can be served. Changes neither; findings about file, device and
  // storage are remembered, and may take their time then (a self-test on scratch of our own).
  virtual Verdict judge(File& file, const PointerFacts& memory, Op op) = 0;
  // The part of judge() that holds for every file.
  virtual bool may_serve(const Device&) { return true; }
  // How a request whose verdict was "usable" is moved, as far as is known without an effect: nothing is registered,
  // pinned or learned.
  virtual Prepared shape(const RoutedRequest& request) = 0;
  // Pinned host bytes that a channel of these options takes.
  virtual std::uint64_t channel_bytes(const ChannelOptions& options) const = 0;
  virtual Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions& options) = 0;
  // Lets go of what the path itself keeps for the file. None of its chunks is in flight, and none will be.
  virtual void forget_file(File&) {}

  PathHooks* hooks() const { return hooks_; }  // Null where it has none.

 private:
  PathHooks* const hooks_;
};

}  // namespace penstock::core
