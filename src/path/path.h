// SPDX-License-Identifier: Apache-2.0

// A path by which chunks are moved, as the engine sees it. A request asks each path once: judge() says whether the path
// can serve it. The winner's shape() says how the request is cut; this has no effect, and the request may not happen.
// before_move() is called once, when the request will move. The plan, and through its facts the channels, follow what
// both returned. Paths and channels are poll-driven and own no threads, unless a path's header says so.
// docs/internals/adding-a-path.md walks through one.
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

class ResidentPages;  // Of path/pagecache/.

// The facts that a path passes to its own channels about a request; nothing else reads it. Valid while the request's
// file is open.
struct ChannelFacts {
  void* file_state = nullptr;    // The path's own state of the file,
  void* memory_state = nullptr;  // and of registered device memory.
  // The distance from an address in the request's memory to the address at which storage's DMA engines reach it, for
  // channels in place.
  std::int64_t shift = 0;
  // The channel registers the chunk's extents before it moves the chunk, which may wait for the device.
  bool registers_first = false;
  // Memory around the request's that the program has registered, and will unregister before it frees it; null if there
  // is none. Storage may keep host memory's pages until ChannelHooks::forget_memory().
  std::byte* buffer = nullptr;
  std::uint64_t buffer_bytes = 0;
};

// The mover of a request: its caller's thread alone; a queue, together with others; many threads; or a stream, which
// copies lent bytes itself.
enum class SubmitMode : std::uint8_t { alone, queued, many, on_stream };

// How its path wants a request to move.
struct Shape {
  Limits limits;                    // The limits of its chunks.
  ChannelFacts channel_facts;       // For its channels.
  unsigned threads_max = UINT_MAX;  // The most threads that are worth having, counting the caller's.
  bool tune_threads = false;        // The tuner should find the best number of threads.
  bool first_time = false;          // The whole request must be registered first.
  bool learns = false;              // The caller should pass the time of a large read to learn().
};

// A valid request, as plan, paths and channels see it. It is valid only while its file is open.
struct RoutedRequest : Request {
  File* file = nullptr;
  RequestMemory memory;        // In pieces only if the path gathers.
  PointerFacts facts;          // The facts of the memory.
  std::uint64_t file_end = 0;  // The end of the file a moment ago; 0: not known.
  // Chunks in the page cache are read from there even if they were planned direct.
  bool prefer_cached = false;
  SubmitMode mode = SubmitMode::alone;
  IoMode io_mode = IoMode::buffered;  // The use of the page cache, by the configuration and the descriptor.
  std::uint64_t chunk_max = 0;        // The most bytes of one storage operation.
  Shape shape;                        // By its path.

  Device* device() const { return facts.needs_device() ? facts.device : nullptr; }
  // The memory from the chunk's first payload byte on.
  RequestMemory memory_of(const Chunk& chunk) const { return memory.after(chunk.buffer_offset); }
};

struct Completion {
  std::uint64_t cookie = 0;       // As submitted.
  std::uint64_t file_offset = 0;  // The chunk's payload, as requested.
  std::uint64_t size = 0;
  std::uint64_t bytes = 0;  // Payload bytes moved, from the chunk's start on; fewer at the file's end.
  Status status;
  IoMode io_mode = IoMode::buffered;  // The mode in which the bytes went in the end.
  Reason bounced = Reason::none;      // The reason why a direct path bounced them; none if it did not.
};

// Further functions of some channels, for callers that keep channels open for long. The hooks are a part of the
// channel, and follow the channel's rules of use.
class ChannelHooks {
 public:
  // Releases what the kernel keeps of ChannelFacts::buffer memory. None of that memory's chunks may be in flight.
  virtual void forget_memory(std::byte* /*kept*/) {}
  // Opens what the first chunk would have to open. Call only if is_idle().
  virtual void warm_up() {}
  // False if a chunk may still have to open something, and so to wait for the device.
  virtual bool is_warm() const { return true; }
  // Waits until storage has made progress, or until the deadline. False, without waiting, if there is other work to do,
  // or the wait could have no limit.
  virtual bool wait_for_storage(std::chrono::steady_clock::time_point /*deadline*/) { return false; }
  // The failure that broke the channel, for chunks that cannot begin any more. Call only if is_broken().
  virtual Status broken_by() const { return failure(Code::closed, "move bytes through a channel that broke"); }

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
  // Takes a chunk of a request, and may leave all work on it to poll(). Call only if has_room(). The request stays in
  // its place, and as it is, until the chunk's completion; every failure arrives as one.
  virtual void submit(const RoutedRequest& request, const Chunk& chunk, std::uint64_t cookie) = 0;
  // Makes progress and fills in completions. With `wait`, blocks until there is one, or the channel is idle.
  virtual unsigned poll(std::span<Completion> completions, bool wait) = 0;
  // Moves one chunk from start to end on the calling thread, the shortest way. Call only if is_idle().
  virtual Completion move_and_wait(const RoutedRequest& request, const Chunk& chunk) = 0;
  // Releases the kernel's references to the file (0: to every file). None of the file's chunks may be in flight.
  virtual void forget_file(std::uint64_t file_id) = 0;
  // True if storage has any of its chunks: then a thread must poll before the device can copy it.
  virtual bool has_storage_under_way() const { return false; }
  // Once this is true, nothing more may be submitted: close the channel.
  virtual bool is_broken() const = 0;

  ChannelHooks& hooks() const { return *hooks_; }

 private:
  ChannelHooks* const hooks_;
};

struct ChannelOptions {
  Device* device = nullptr;     // Null for host memory.
  unsigned depth = 1;           // Chunks in flight.
  std::uint64_t chunk_max = 0;  // Bytes; whole pages.
  // For transfers in place: if the kernel refuses direct I/O, the chunk fails; it never goes through the page cache.
  bool o_direct_only = false;
  // The placement of its pinned memory, which must outlive it; null: near the device.
  const Placement* placement = nullptr;
};

inline Result<PinnedBlock> open_block(const ChannelOptions& options, std::size_t size) {
  return PinnedBlock::open(options.device, size, options.placement == nullptr ? Placement{} : *options.placement);
}

// True if the file ends there or before; false if its size is not told.
inline bool ends_by(const File& file, std::uint64_t offset) {
  const Result<std::uint64_t> end = file.size();
  return end.ok() && *end <= offset;
}

// The reason for which no path that reaches device memory by itself serves the two; none if it depends on the path.
inline Reason refusal_of_all(const File& file, const PointerFacts& memory) {
  if (!memory.needs_device()) return Reason::host_memory;
  if (memory.device == nullptr) return reason_of(Obstacle::peer_unseen);
  if (file.facts().denied) return Reason::denied;
  return memory.device->facts().stand_in ? Reason::stand_in : Reason::none;
}

// The times of a large read, or of a part of it.
struct Timing {
  std::uint64_t bytes = 0;
  std::uint64_t request = 0;  // The size of the whole request.
  std::uint64_t wall_ns = 0;  // Its share of the time, if other requests ran beside it.
  std::uint64_t cpu_ns = 0;   // The CPU time of all threads that worked on it; 0: unknown.
  bool bounced = false;       // All of it was bounced out of the page cache; otherwise nothing of it was.
  bool first_time = false;    // The same as in Shape.
};

// Further functions of a few paths: the page cache's, which weighs what registering pages saves, and paths that map
// memory which programs register. Thread-safe; it lives as long as its path.
class PathHooks {
 public:
  // The request will move in its shape, or in another that this gives it. Called once per request; it may register
  // pages and learn.
  virtual void before_move(RoutedRequest&) {}
  virtual void learn(const Timing&) {}
  // The bytes of a read, or the first of them, if streams of the memory's device reach them directly (it must be a
  // device for which StreamHome::reaches_pages_of() is true); none otherwise. Call it only while a request
  // on such a stream is in flight: they stay valid as long as one is, whatever happens to the file. Calls no device.
  virtual std::span<const std::byte> lend(const RoutedRequest&) { return {}; }
  struct Kept {
    std::uint64_t size;       // The file ends there.
    std::uint64_t bytes_max;  // No more are registered.
  };
  // Registers the file's pages with the device as far as they are in the page cache, for kernels of the program's, and
  // keeps them registered until `pages` lets go. They are the file's when it returns. An extent is registered up to
  // that end of the file, or not at all.
  virtual void keep(File&, Device&, const Kept&, ResidentPages& /*pages*/) {}
  // A program has registered the memory that contains the buffer, and will unregister it before it frees it.
  virtual void add_buffer(const PointerFacts& /*memory*/, std::uint64_t /*base*/, std::uint64_t /*size*/) {}
  // Returns when the path no longer uses the buffer.
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

  // Says if requests between the file and the memory can be served. Changes neither; findings about file, device and
  // storage are cached, and the first may take time (a self-test on a scratch file of the library's own).
  virtual Verdict judge(File& file, const PointerFacts& memory, Op op) = 0;
  // The part of judge() that is the same for every file.
  virtual bool may_serve(const Device&) { return true; }
  // How a request with a usable verdict would move. It has no effects: it registers, pins and learns nothing.
  virtual Shape shape(const RoutedRequest& request) = 0;
  // The pinned host bytes that a channel with these options takes.
  virtual std::uint64_t channel_bytes(const ChannelOptions& options) const = 0;
  virtual Result<std::unique_ptr<Channel>> open_channel(const ChannelOptions& options) = 0;
  // Releases what the path itself keeps for the file. None of the file's chunks is in flight, and none will be.
  virtual void forget_file(File&) {}

  PathHooks* hooks() const { return hooks_; }  // Null if it has none.

 private:
  PathHooks* const hooks_;
};

}  // namespace penstock::core
