// SPDX-License-Identifier: Apache-2.0

// The channel that the paths bounce and host share. A Ring moves a staged chunk between storage and a slot of pinned
// memory, and StagedCopies move it between the slot and the device; with many slots the two overlap. In place, storage
// reads and writes the caller's host memory itself. A slot is reused only after the marker behind its copy was reached.
#pragma once

#include <vector>

#include "device/pinned_block.h"
#include "path/path.h"
#include "path/pipeline/completions.h"
#include "path/pipeline/ring_registrations.h"
#include "path/pipeline/staged_copies.h"
#include "storage/storage.h"

namespace penstock::core {

class StorageChannel final : public Channel, private ChannelHooks, private StagedCopies::Owner {
 public:
  // Staged if options.device is set, in place otherwise.
  static Result<std::unique_ptr<Channel>> open(FileIo& io, const ChannelOptions& options);
  ~StorageChannel() override;

  bool has_room() const override { return !free_.empty() && !is_broken(); }
  bool is_idle() const override { return free_.size() == slots_.size(); }
  void submit(const RoutedRequest& request, const Chunk& chunk, std::uint64_t cookie) override;
  unsigned poll(std::span<Completion> completions, bool wait) override;
  Completion move_and_wait(const RoutedRequest& request, const Chunk& chunk) override;
  void forget_file(std::uint64_t file_id) override;
  bool is_broken() const override { return !broken_by_.ok(); }
  bool has_storage_under_way() const override { return storing_count_ > 0; }

 private:
  // A slot that is `copying` may still wait for other copies to go with it.
  enum class Phase : std::uint8_t { free, storing, copying, done };

  struct Slot : Submitted {
    void begin(const RoutedRequest& its_request, const Chunk& its_chunk, std::uint64_t its_cookie);

    Phase phase = Phase::free;
    std::byte* memory = nullptr;  // The memory that storage reads and writes.
    int fd = -1;
    std::uint64_t moved = 0;  // Bytes of the chunk's I/O range that storage has moved so far.
    unsigned retries = 0;
    Status status;
  };

  enum class Next : std::uint8_t { done, again };

  StorageChannel(FileIo& io, const ChannelOptions& options);
  void forget_memory(std::byte* kept) override;
  Status broken_by() const override { return broken_by_; }
  bool wait_for_storage(std::chrono::steady_clock::time_point deadline) override {
    return done_.empty() && only_storage_is_busy() && ring_->wait_until(deadline);
  }
  Status open_ring();
  std::byte* staging_for(std::uint32_t index, const RoutedRequest& request, const Chunk& chunk) const;
  void begin(std::uint32_t index);
  Status prepare(Slot& slot);
  void start_storage(std::uint32_t index);
  bool move_through_page_cache(std::uint32_t index);
  std::int32_t read(const Slot& slot);
  std::int32_t read_if_cached(const Slot& slot);
  std::int32_t write_in_turn(const Slot& slot);
  void flush(Slot& slot);
  void push(std::uint32_t index);
  void on_stored(std::uint32_t index, std::int32_t result);
  Next advance(Slot& slot, std::int32_t result);
  bool fall_back_to_buffered(Slot& slot, int error);
  bool at_end_of_file(const Slot& slot) const;
  void after_storage(std::uint32_t index);
  void start_copy(std::uint32_t index);
  void on_copied(std::uint32_t index, const Status& status) override;
  StagedCopies::SlotCopy copy_of(const Slot& slot) const;
  Status copy_and_wait(const Slot& slot);
  void mark_done(std::uint32_t index, Status status);
  bool reap_ring(bool wait);
  bool step(bool wait);
  void break_down(Status status);
  bool only_storage_is_busy() const;

  FileIo& io_;
  const ChannelOptions options_;
  const bool staged_;
  PinnedBlock block_;
  StagedCopies copies_;         // Open if the channel is staged.
  std::unique_ptr<Ring> ring_;  // Opened for the first chunk that needs it.
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> done_;
  RingRegistrations registrations_;
  unsigned storing_count_ = 0;
  Status broken_by_;
};

// The number of bytes of the I/O range after which a transfer that ended early resumes. A direct transfer resumes on a
// block boundary.
std::uint64_t resume_at(IoMode io_mode, std::uint64_t moved, std::uint32_t file_align);

}  // namespace penstock::core
