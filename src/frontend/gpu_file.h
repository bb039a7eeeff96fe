// SPDX-License-Identifier: Apache-2.0

// A file that a device's kernels read by themselves (penstock/gpu.cuh): its registered pages with the lease under which
// they are the file's, the ring for everything else, and the value that kernels take. The session's clients have
// GpuFiles; each is found by its number, and closes with its file or session. Thread-safe.
//
// While the lease is held, nobody changes the file, so what kernels load of its pages is right. A kernel looks at the
// generation behind its loads. When the lease is asked back, the thread of the leases raises the generation, and gives
// the lease back a moment later (gpu_layout.cuh: for kernels that share their looks): a read that looked before has its
// bytes from before the change, and a read that looks later repeats itself by the ring. So nobody waits for kernels,
// which may run for hours or have trapped, and no kernel counts itself in and out. The pages stay registered until the
// file is closed, because a kernel may be loading from them.
//
// While kernels read by the ring, a lease that ended is taken again. Pages that are the file's still, and blocks that
// are cached from then on, count under the new generation, which kernels find in device memory.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/guarded_fd.h"
#include "frontend/gpu_ring.h"
#include "path/pagecache/resident_pages.h"
#include "session/session.h"
#include "storage/lease.h"

namespace penstock::core {

class GpuFile final : private Lease::Owner, private GpuRing::Reader {
 public:
  struct Terms {
    unsigned device = 0;  // Its ordinal.
    GpuRing::Terms ring;
    std::uint64_t timeout_ns = 10'000'000'000;
    std::uint64_t resident_bytes_max = UINT64_MAX;  // 0: nothing is registered.
    bool may_be_stale = false;
    std::uint64_t cache_bytes = 0;                                          // This much of device memory; 0: no cache.
    std::chrono::nanoseconds again_after = std::chrono::milliseconds(100);  // A lease that ended is taken again.
  };
  struct Facts {
    Reason reason = Reason::none;  // Why not all reads are resident, under a lease.
    int detail = 0;                // An errno, or 0.
    bool is_leased = false;
    PathId ring_path = PathId::host;  // The path of whole blocks that the ring reads from storage.
    std::uint64_t size = 0;
    std::uint64_t resident_bytes = 0;
    std::uint64_t cache_bytes = 0;
    gpu::Counts counts = {};
  };

  static Result<std::unique_ptr<GpuFile>> open(Session& session, std::uint64_t file, const Terms& terms);
  ~GpuFile();
  // Kernels that wait get an error. Waits for the device's kernels, also on the second thread that calls it.
  Status end() EXCLUDES(ending_);

  const gpu::Layout& value() const { return value_; }
  // Fails if the device does not tell what kernels have read.
  Result<Facts> facts() EXCLUDES(mutex_);
  bool is_of(const File& file) const { return &*file_ == &file; }

 private:
  GpuFile(Session& session, std::uint64_t file, Device& device, const Terms& terms);
  Status prepare();
  Path* find_path();
  bool may_keep_bytes();
  void keep_pages(std::uint64_t size);
  Reason take_lease(int& error);
  Status fill_device_memory();
  Status offer_device_memory();
  void withdraw_device_memory();
  Status upload(const void* place, const void* from, std::size_t size) REQUIRES(mutex_);
  Status publish(const ResidentPages& pages, gpu::Word generation) REQUIRES(mutex_);
  Status upload_place(std::size_t extent, gpu::Long place) REQUIRES(mutex_);
  void take_again_soon() EXCLUDES(again_mutex_);
  void join_taker() EXCLUDES(again_mutex_);
  void take_again();
  bool stand_again(std::uint32_t generation);
  bool has_its_size();
  void open_descriptors();
  void begin_look(unsigned thread) override;
  Result<GpuRing::Read> read(unsigned thread, std::uint64_t offset, std::uint32_t bytes,
                             const GpuRing::SlotMemory& to) override;
  void prefetch(unsigned thread, std::uint64_t offset, std::uint32_t bytes) override;
  Result<GpuRing::Read> read_by_session(const RawRequest& request);
  std::optional<Result<GpuRing::Read>> read_to_device(std::uint64_t offset, std::uint32_t bytes, unsigned slot);
  bool read_if_cached(unsigned thread, std::uint64_t offset, std::uint32_t bytes, std::byte* memory);
  std::chrono::nanoseconds look(bool is_asked_back) override;
  std::chrono::nanoseconds end_lease();
  Status count() REQUIRES(mutex_);

  // By which a thread of the ring reads the page cache. It has an open file of its own, since threads that share one
  // wait for each other's counts of its users.
  struct alignas(64) Descriptor {
    GuardedFd own;
    int fd = -1;  // -1 if the file was not found by it at the thread's last look.
  };

  Session& session_;
  const std::uint64_t handle_;
  const PinnedFile file_;
  Device& device_;
  const Terms terms_;
  gpu::Layout value_ = {};
  Reason reason_ = Reason::none;
  int detail_ = 0;

  GuardedFd leased_;
  std::atomic<bool> is_ready_{false};              // The lease may end from now on.
  std::atomic<bool> may_be_held_{false};           // The lease, until the keeper begins to end it.
  std::atomic<bool> is_unwanted_{false};           // The keeper ends it at its next look.
  std::atomic<bool> may_stand_again_{true};        // False once it is not known what the device's memory has.
  std::chrono::steady_clock::time_point told_at_;  // Kernels were, that it ends. The keeper's.
  bool was_leased_ = false;
  Lease lease_{*this};
  Path* path_ = nullptr;             // Its pages are kept; null: none are.
  std::deque<ResidentPages> pages_;  // One for each lease: kernels may be loading from the pages of all.
  std::atomic<std::uint64_t> resident_bytes_{0};

  std::atomic<bool> is_given_back_{false};  // The lease was, and may be taken again.
  std::atomic<bool> is_taking_{false};      // The taker clears it when it ends.
  Mutex again_mutex_;
  using Moment = std::chrono::steady_clock::time_point;
  Moment again_at_ GUARDED_BY(again_mutex_) = Moment::min();
  std::optional<pthread_t> taker_ GUARDED_BY(again_mutex_);
  std::vector<Descriptor> descriptors_;
  std::byte* staging_ = nullptr;     // The slots' device memory, a registered buffer; null: the ring has none.
  PathId ring_path_ = PathId::host;  // A direct one to that memory.
  std::uint64_t block_ = 0;          // It moves whole ones of the file by itself.
  std::unique_ptr<GpuRing> ring_;

  Mutex ending_;
  std::optional<Status> ended_ GUARDED_BY(ending_);

  Mutex mutex_;
  std::unique_ptr<CopyQueue> copies_ PT_GUARDED_BY(mutex_);
  std::byte* memory_ = nullptr;                      // It is memory of the device.
  std::vector<gpu::Long> table_ GUARDED_BY(mutex_);  // The extents, as they lie in the device's memory.
  bool is_standing_ GUARDED_BY(mutex_) = true;       // The device has what is kept under the lease.
  std::byte* frames_ = nullptr;                      // The cache has them in memory of the device.
  gpu::Counts counted_ GUARDED_BY(mutex_) = {};      // In the session's counters already.
};

class GpuFiles final : public Client {
 public:
  explicit GpuFiles(Session& session) : session_(session) { session_.add(this); }
  ~GpuFiles() override;

  Result<std::uint64_t> open(std::uint64_t file, const GpuFile::Terms& terms);
  // No kernel runs any more when it returns, whoever closed the file first.
  void close(std::uint64_t number);
  // Null if there is no such file. Call unpin() afterwards.
  GpuFile* pin(std::uint64_t number) { return files_.pin(number); }
  void unpin(std::uint64_t number) { files_.unpin(number); }

  void forget_file(const File& file) override;
  void stop() override;

 private:
  Session& session_;
  HandleTable<GpuFile> files_;
};

}  // namespace penstock::core
