// SPDX-License-Identifier: Apache-2.0

// One open driver; owns everything: files, buffers, paths, channels, workers, counters. abi/ and tests make one from a
// Config and the two seams to the outside world. Thread-safe.
//
// A request is checked, given to the first path of the ordered list whose verdict is "usable", and moved: a small
// one on the caller's thread, a large one with the help of workers.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/process.h"
#include "path/path.h"
#include "session/buffer_table.h"
#include "session/channel_pool.h"
#include "session/config.h"
#include "session/handle_table.h"
#include "session/tuner.h"
#include "session/workers.h"
#include "stats/counters.h"

namespace penstock::core {

class Batch;
class Executor;
class Queue;
class Streams;

struct Report {
  std::uint64_t bytes = 0;               // Moved, from the request's start on without a gap.
  std::uint64_t direct_bytes = 0;        // Of these, by O_DIRECT; the rest went through the page cache.
  std::uint64_t bounced_bytes = 0;       // Of these, by the bounce path although `path` was chosen,
  Reason bounced_reason = Reason::none;  // and why.
  PathId path = PathId::bounce;
  Reason reason = Reason::none;       // Why `refused` was not the path.
  Reason path_reason = Reason::none;  // Why the path itself is slower than it could be.
  int refused = -1;                   // The best path that refused, as a PathId; -1 where none did.
};

// What several transfers of one request have moved.
class Moved {
 public:
  template <typename Transfer>
  void add(const Transfer& transfer) {
    bytes_ += transfer.bytes();
    direct_bytes_ += transfer.direct_bytes();
    bounced_bytes_ += transfer.bounced_bytes();
    if (transfer.bounced_bytes() > 0) bounced_reason_ = transfer.bounced_reason();
  }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t direct_bytes() const { return direct_bytes_; }
  std::uint64_t bounced_bytes() const { return bounced_bytes_; }
  Reason bounced_reason() const { return bounced_reason_; }

 private:
  std::uint64_t bytes_ = 0;
  std::uint64_t direct_bytes_ = 0;
  std::uint64_t bounced_bytes_ = 0;
  Reason bounced_reason_ = Reason::none;
};

// What became of the chunks of a request, in its report. Where all of them were bounced, bounce was the path.
template <typename Moved>
void tell(const Moved& moved, Report& report) {
  report.bytes = moved.bytes();
  report.direct_bytes = std::min(moved.direct_bytes(), report.bytes);
  report.bounced_bytes = std::min(moved.bounced_bytes(), report.bytes);
  report.bounced_reason = moved.bounced_reason();
  if (report.bounced_bytes == 0 || report.bounced_bytes < report.bytes) return;
  if (report.refused < 0) {
    report.refused = static_cast<int>(report.path);
    report.reason = report.bounced_reason;
  }
  report.path = PathId::bounce;
  report.bounced_bytes = 0;
  report.bounced_reason = Reason::none;
}

struct Outcome {
  Status status;
  Report report;
};

// One request as callers state it, before anything about it is known to be sane.
struct RawRequest {
  Op op = Op::read;
  std::uint64_t file = 0;      // As register_file gave it.
  const void* base = nullptr;  // Memory; a registered buffer's base, or any address.
  std::uint64_t size = 0;
  std::int64_t file_offset = 0;
  std::int64_t buffer_offset = 0;
  // Where not null: pinned host memory of `size` bytes, between which and the file the bytes are moved, while the
  // caller copies between it and the buffer. For device memory alone.
  std::byte* staging = nullptr;
  // What the memory is, where the caller knows and the device must not be asked.
  const PointerFacts* memory = nullptr;
};

// By whom a request would be moved, and how that was chosen.
struct Choice {
  enum class By : std::uint8_t { size, rule, first_guess, measurement };
  PathId path = PathId::null;
  By by = By::rule;
  unsigned threads = 1;     // At most, the caller's included.
  unsigned depth = 1;       // Chunks that each has under way at once.
  std::uint64_t chunk = 0;  // Bytes of the largest.
  const char* policy = "";
};

class Session {
 public:
  Session(const Config& config, std::unique_ptr<Storage> storage, std::unique_ptr<DeviceSet> devices);
  ~Session();

  Result<std::uint64_t> register_file(int fd);
  Status deregister_file(std::uint64_t file);
  bool is_file(std::uint64_t file);
  Status register_buffer(const void* base, std::uint64_t size);
  Status deregister_buffer(const void* base);
  Outcome transfer(const RawRequest& request);
  // True in a forked child: then every request is refused with `closed`, and the session must be leaked, since its
  // threads, rings and devices are the parent's.
  bool is_inherited() const { return fork_count() != forks_; }

  // Batches go by a number, too. Fails with invalid_argument where there is no room for anything in it.
  Result<std::uint64_t> open_batch(unsigned capacity);
  Batch* pin_batch(std::uint64_t batch);  // Null where there is none; to be unpinned.
  void unpin_batch(std::uint64_t batch);
  bool close_batch(std::uint64_t batch);  // Cancels, and waits for what has begun; false where there is none.
  // Requests in the order of users' streams.
  Streams& streams() { return *streams_; }

  // What and where the memory of a request is; fails where the request does not lie in it.
  Result<PointerFacts> memory_of(const RawRequest& request);
  // For whoever moves bytes past the paths.
  void count(const Report& report, Op op);

  // The verdict of every path, listed ones first and in their order. Returns how many were written.
  Result<unsigned> explain(std::uint64_t file, const PointerFacts& memory, Op op, Verdict (&verdicts)[kPathCount]);
  Result<FileFacts> file_facts(std::uint64_t file);
  // How a request would be cut, a line a chunk and the first `lines_max` of them, and by whom it would be moved.
  // Nothing is moved. Memory is given by what it is, so that it need not exist; request.base counts for its alignment
  // alone.
  Result<std::string> plan_text(const RawRequest& request, const PointerFacts& memory, unsigned lines_max);
  // By whom, for programs.
  Result<Choice> choice(const RawRequest& request, const PointerFacts& memory);

  // The most that one storage operation of a request moves from now on; queues keep to their own measure.
  void limit_operations(std::uint64_t bytes);

  DeviceSet& devices() { return *devices_; }
  Storage& storage() { return *storage_; }
  const Counters& counters() const { return counters_; }
  const Config& config() const { return config_; }
  std::uint64_t bounce_bytes() const;

 private:
  friend class Queue;

  struct Pools {
    Pools(Path& path, Device* device, const ChannelShapes& shapes, BounceBudget& budget);
    Path* path;
    Device* device;
    ChannelPool small;
    ChannelPool large;
  };

  // A request that was found sane: its file pinned, its memory known, its path chosen.
  struct Checked {
    TransferInput input;
    PointerFacts memory;
    Path* path = nullptr;
    Report report;
    Prepared prepared;
  };

  struct UserFd {
    int fd = -1;
    std::uint64_t handle = 0;
    int own = -1;  // The session's own descriptor on the same open file.
    dev_t device = 0;
    std::uint64_t inode = 0;
  };

  static constexpr unsigned kPoolsMax = 256;
  static constexpr unsigned kDevicesMax = 64;

  Status check(const RawRequest& request, File* file, Checked& checked);
  Status check_request(const RawRequest& request, File* file, Checked& checked) const;
  // `staged`: the bytes go through memory of the caller's, which no direct path knows.
  Status choose(Checked& checked, bool staged = false);
  void stage(const RawRequest& request, Checked& checked);
  void prepare(Checked& checked, SubmitMode mode);
  void end_with_file(Checked& checked);
  using Look = std::function<void(const Checked&, const Plan&)>;
  Status look_at(const RawRequest& request, const PointerFacts& memory, const Look& look);
  Choice choice_of(const Checked& checked, const Plan& plan) const;
  Way wanted_way(const Checked& checked) const;
  Plan plan_for(const Checked& checked, std::uint64_t chunk_max) const;
  bool is_small(const Checked& checked) const { return checked.input.size <= shapes_.small.chunk; }
  std::uint64_t chunk_for(const Checked& checked) const;
  Outcome move(Checked& checked);
  bool preallocate(const Checked& checked, const Plan& plan);
  void release_blocks_behind_end(File& file);
  Outcome move_small(const Checked& checked, const Plan& plan, ChannelPool& pool);
  unsigned threads_for(const Checked& checked, const Plan& plan) const;
  bool is_tuned(const Checked& checked, const Plan& plan) const;
  Outcome move_large(const Checked& checked, const Plan& plan, ChannelPool& pool);
  Outcome move_tuned(const Checked& checked, const Plan& plan, ChannelPool& pool);
  Result<Pools*> pools_for(Path& path, Device* device);
  BounceBudget& budget_of(const Device* device);
  void add_queue(Queue* queue);
  void remove_queue(Queue* queue);

  const std::uint32_t forks_ = fork_count();
  const Config config_;
  const ChannelShapes shapes_;
  std::atomic<std::uint64_t> operation_max_{UINT64_MAX};
  const std::unique_ptr<Storage> storage_;
  const std::unique_ptr<DeviceSet> devices_;
  std::vector<std::unique_ptr<Path>> paths_;  // In the configured order.
  std::unique_ptr<Path> staging_path_;        // Between files and staging memory.
  HandleTable<File> files_;
  std::mutex registration_mutex_;  // Guards fds_, and pools_ while it grows.
  std::vector<UserFd> fds_;        // Registered descriptors of the user.
  BufferTable buffers_;
  Counters counters_;
  std::vector<std::unique_ptr<BounceBudget>> budgets_;  // By device ordinal.
  std::array<std::atomic<Pools*>, kPoolsMax> pools_{};
  std::mutex queues_mutex_;
  std::vector<Queue*> queues_;
  Tuner tuner_;
  Workers workers_;
  // Two, since copies of batches wait for the device, and perhaps for a stream that waits for its own request.
  std::unique_ptr<Executor> stream_executor_;
  std::unique_ptr<Executor> batch_executor_;
  std::unique_ptr<Streams> streams_;
  HandleTable<Batch> batches_;
};

}  // namespace penstock::core
