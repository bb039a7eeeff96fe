// SPDX-License-Identifier: Apache-2.0

// Chunks whose pages are registered: the device's DMA engine reads them from the page cache, or writes them there. They
// count as moved only if the pages belonged to the file all the time; else the chunk fails with ESTALE, and its
// FallbackChannel bounces it.
#pragma once

#include <vector>

#include "path/pagecache/registration_cache.h"
#include "path/path.h"
#include "path/pipeline/completions.h"
#include "path/pipeline/copy_batch.h"

namespace penstock::core {

class PagecacheChannel final : public Channel, private ChannelHooks {
 public:
  static constexpr std::uint64_t kChunkMax = Extent::kBytes;

  static Result<std::unique_ptr<Channel>> open(RegistrationCache& cache, const ChannelOptions& options);
  ~PagecacheChannel() override;

  bool has_room() const override { return !free_.empty() && !is_broken(); }
  bool is_idle() const override { return free_.size() == slots_.size(); }
  void submit(const RoutedRequest& request, const Chunk& chunk, std::uint64_t cookie) override;
  unsigned poll(std::span<Completion> completions, bool wait) override;
  Completion move_and_wait(const RoutedRequest& request, const Chunk& chunk) override;
  void forget_file(std::uint64_t) override {}
  bool is_broken() const override { return !broken_by_.ok(); }

 private:
  static constexpr unsigned kExtentsMax = 2;  // A chunk is no larger than an extent.

  struct Slot : Submitted {
    void begin(const RoutedRequest& its_request, const Chunk& its_chunk, std::uint64_t its_cookie);

    CachedFile* file = nullptr;
    std::array<Extent*, kExtentsMax> extents{};
    unsigned extent_count = 0;  // Held.
    std::uint64_t bytes = 0;    // Fetched.
    unsigned marker = 0;        // The marker after its copies, perhaps shared with other slots.
    Status status;
  };

  PagecacheChannel(RegistrationCache& cache, const ChannelOptions& options);
  Status broken_by() const override { return broken_by_; }
  bool hold_extents(Slot& slot);
  void release_extents(Slot& slot);
  void begin_pass() { stamped_ = changed_ = nullptr; }
  const FileStamp& stamp_of(File& file);
  void find_copies(Slot& slot);
  Status start(Slot& slot);
  void launch(Op op);
  void break_off(Status status);
  void verify(Slot& slot);
  void mark_changed(File& file);
  void register_extents(const Slot& slot);
  void fetch_waiting();
  bool reap(bool wait);
  void land(unsigned marker, Status status);
  Status copy_found_and_wait(Op op);
  Completion completion_of(const Slot& slot) const;

  RegistrationCache& cache_;
  const ChannelOptions options_;
  std::unique_ptr<CopyQueue> copies_;
  std::vector<Slot> slots_;
  // Slots in submission order: free, then waiting for extents, for the copy, and to be reaped.
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> waiting_;
  std::vector<std::uint32_t> copying_;
  struct Found {
    RequestMemory memory;
    std::byte* pages = nullptr;
    std::uint64_t size = 0;
  };
  struct Launch {                      // Copies found but not started:
    std::vector<Found> copies;         // those
    std::vector<std::uint32_t> slots;  // of these.
  };
  Launch launches_[2];  // By Op.
  CopyBatch batch_;
  std::vector<std::uint32_t> done_;
  const File* stamped_ = nullptr;  // The file whose stamp was read in this pass,
  FileStamp stamp_;                // and its stamp.
  const File* changed_ = nullptr;  // The file whose change time was set in this pass.
  Status broken_by_;               // The first failure of a copy, with which the queue of copies was closed.
};

}  // namespace penstock::core
