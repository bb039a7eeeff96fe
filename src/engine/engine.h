// SPDX-License-Identifier: Apache-2.0

// Moves one request for each thread that calls: a small one on the caller's thread, a large one with the help of
// workers. It knows files and memory; handles, batches and streams belong to its clients (session/, frontend/).
// Thread-safe.
//
//   choose (router.h) -> shape, before_move -> cut (flight.h) -> channels, of the caller's thread or of many -> report
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "engine/drive_share.h"
#include "engine/router.h"
#include "engine/tuner.h"
#include "engine/workers.h"
#include "stats/counters.h"

namespace penstock::core {

// Says which threads would move a request, and how that was chosen.
struct Choice {
  enum class By : std::uint8_t { size, rule, first_guess, measurement };
  PathId path = PathId::null;
  By by = By::rule;
  unsigned threads = 1;     // The most threads, counting the caller's.
  unsigned depth = 1;       // The chunks that each thread has in flight.
  std::uint64_t chunk = 0;  // The size of the largest chunk.
  const char* policy = "";
};

class Engine {
 public:
  Engine(EngineRules rules, const PathEnvironment& environment);
  ~Engine();

  const Router& router() const { return router_; }
  // Moves the whole request. Its path was chosen, and the file's descriptors were checked.
  Outcome move(Flight& flight);
  // Reads a small request into its caller's staging memory if the page cache has the bytes. Moves and counts nothing if
  // it would have to wait, or go another way.
  std::optional<Outcome> read_if_cached(Flight& flight);
  // Opens what the first small request with the device's memory would need, assuming that it takes the usual path.
  void warm_up(Device& device);
  // Counts the bytes of a request that has ended, and tells its file of a write. Whoever moved it calls this once;
  // move() does so itself.
  void account_for(const Flight& flight);
  // Counts bytes that a stream took by itself.
  void count(const Report& report, Op op);
  // Counts reads that a device's kernels made by themselves.
  void count_sum(PathId path, Reason reason, Op op, const Count& sum) { counters_.add_sum(path, reason, op, sum); }
  // Which threads would move the request, and how it would be cut: one line for each of the first `lines_max` chunks.
  // Nothing is moved.
  Choice choice(Flight& flight) const;
  std::string plan_text(Flight& flight, unsigned lines_max) const;

  // True if the request leaves one of the channels to others.
  bool is_long(std::uint64_t bytes) const { return !shapes_.large.fits(bytes); }
  // Limits the bytes of each storage operation that move() starts from now on.
  void limit_operations(std::uint64_t bytes);
  // Makes all paths forget the file. None of its requests may be under way.
  void forget_file(File& file) { router_.forget_file(file); }
  // Tells the paths of memory that is registered, or no longer is.
  void add_buffer(const PointerFacts& memory, std::uint64_t base, std::uint64_t size) {
    router_.add_buffer(memory, base, size);
  }
  void remove_buffer(std::uint64_t base) { router_.remove_buffer(base); }

  // The pinned host memory of a device's channels.
  // Host memory has one of its own: held streams wait for its requests, which must not close a device's channels.
  BounceBudget& budget_of(const Device* device) {
    return *budgets_[device == nullptr ? kDevicesMax : place_of(device)];
  }
  void leave_budgets(ChannelHolder* holder);
  std::uint64_t bounce_bytes() const;
  const Counters& counters() const { return counters_; }

 private:
  struct Pools {
    Pools(Path& path, Device* device, const ChannelShapes& shapes, BounceBudget& budget, const Placement& placement);
    Path* path;
    Device* device;
    ChannelPool small;
    ChannelPool large;
  };

  static constexpr unsigned kPoolsMax = 256;
  static constexpr unsigned kDevicesMax = 64;
  static constexpr unsigned kDrivesMax = 16;

  static unsigned place_of(const Device* device) {
    return device == nullptr ? 0 : static_cast<unsigned>(device->facts().ordinal) % kDevicesMax;
  }
  // Drives may share one, which costs long requests some speed.
  DriveShare& drive_of(const Flight& flight) {
    return drives_[flight.request.file->facts().file_system_device % kDrivesMax];
  }
  void note_if_short(const Flight& flight);
  bool fits_small_channel(const Flight& flight) const { return flight.request.size <= shapes_.small.chunk; }
  std::uint64_t chunk_for(const Flight& flight) const;
  static void move_alone(Flight& flight, ChannelPool& pool);
  void move_by_size(Flight& flight, Pools& pools);
  void move_large(Flight& flight, ChannelPool& pool);
  void move_untuned(Flight& flight, ChannelPool& pool);
  void move_tuned(Flight& flight, std::uint64_t cached_chunk, ChannelPool& pool);
  static bool preallocate(const Flight& flight);
  static bool is_tuned(const Flight& flight);
  static bool may_be_cached_read(const Flight& flight);
  std::uint64_t shares_of(std::uint64_t size) const;  // The number of shares that are worth a thread each.
  std::uint64_t cached_read_chunk_for(const Flight& flight) const;
  unsigned threads_for(const Flight& flight, std::uint64_t cached_chunk) const;
  void dry_run(Flight& flight) const;
  Choice choice_of(const Flight& flight) const;
  Result<Pools*> pools_for(Path& path, Device* device);

  FileIo& io_;
  const EngineRules rules_;
  const ChannelShapes shapes_;
  std::atomic<std::uint64_t> operation_max_{UINT64_MAX};
  Router router_;
  Counters counters_;
  std::vector<std::unique_ptr<BounceBudget>> budgets_;  // By device ordinal; the last is of host memory.
  Mutex pools_mutex_;                                   // Held while pools_ grows; reading it needs no lock.
  std::array<std::atomic<Pools*>, kPoolsMax> pools_{};
  std::atomic<unsigned> active_transfers_{0};  // The requests under way that are worth several threads.
  std::array<std::atomic<unsigned>, kDevicesMax> active_on_{};  // The same by device ordinal.
  std::array<DriveShare, kDrivesMax> drives_;
  Tuner tuner_;
  Workers workers_;
};

}  // namespace penstock::core
