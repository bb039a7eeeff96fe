// SPDX-License-Identifier: Apache-2.0

// Chunks between drives and device memory: the drive's DMA engine moves them to and from device memory of the
// channel's own (dmabuf_memory.h), and the device copies within its memory, at about a hundred times the drive's speed.
// No CPU touches a byte. Each drive has a slot in the channel's ring, whichever files lie on it. Before its first byte,
// and then by time and bytes, a canary proves that what the drive reports as moved arrives (canary.h): submit() may
// take some milliseconds for it. A chunk's file is held in place (dmabuf_file.h) until the chunk is done. Chunks that
// fail, or cannot be tried, are left to the FallbackChannel around this.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "path/dmabuf/dmabuf_file.h"
#include "path/dmabuf/dmabuf_memory.h"
#include "path/path.h"
#include "path/pipeline/completions.h"
#include "path/pipeline/self_test.h"
#include "path/pipeline/staged_copies.h"
#include "storage/storage.h"

namespace penstock::core {

class DmabufPath;

class DmabufChannel final : public Channel, private ChannelHooks, private StagedCopies::Owner {
 public:
  static constexpr unsigned kSlotsMax = 8;   // A ring has as many.
  static constexpr unsigned kTriesMax = 8;   // An exporter may say "again" so often to a canary's operation.
  static constexpr unsigned kPiecesMax = 8;  // The most places on a drive that a chunk may lie in.

  static Result<std::unique_ptr<DmabufChannel>> open(DmabufPath& path, const ChannelOptions& options);
  ~DmabufChannel() override;

  bool has_room() const override { return !free_.empty() && !broken_; }
  bool is_idle() const override { return free_.size() == moves_.size(); }
  void submit(const RoutedRequest& request, const Chunk& chunk, std::uint64_t cookie) override;
  unsigned poll(std::span<Completion> completions, bool wait) override;
  Completion move_and_wait(const RoutedRequest& request, const Chunk& chunk) override;
  void forget_file(std::uint64_t /*file_id*/) override {}  // Slots keep drives open, and no user's file.
  bool has_storage_under_way() const override { return storing_count_ > 0; }
  bool is_broken() const override { return broken_; }

  // For self-tests, on an idle channel: the canary of reading from the drive, and of writing to one, given by a
  // descriptor with O_DIRECT, whose first pages may be overwritten.
  Proof prove_reads(const DmabufDrive& drive);
  Proof prove_writes(int scratch, std::uint64_t bytes);

 private:
  enum class Phase : std::uint8_t { free, storing, copying, done };

  struct Slot {
    const DmabufDrive* drive = nullptr;
    int number = -1;
    bool is_stale = false;   // An error means that the slot's mapping is gone.
    bool is_proven = false;  // A canary has seen bytes arrive, and no error since may mean a new mapping.
    std::chrono::nanoseconds proved_at{};
    std::uint64_t bytes = 0;  // Moved since then.
    std::uint64_t used = 0;   // A count of submissions.
  };

  struct Move : Submitted {  // A chunk in flight. Its memory is the part of the channel's with its number.
    void begin(const RoutedRequest& its_request, const Chunk& its_chunk, std::uint64_t its_cookie) {
      take(its_request, its_chunk, its_cookie);
      piece = 0;
      moved = 0;
      ineligible = Reason::none;
    }

    Phase phase = Phase::free;
    DrivePiece pieces[kPiecesMax];  // The places of the chunk's I/O range on the drive, each without what has moved.
    unsigned piece_count = 0;
    unsigned piece = 0;       // The first that is not done.
    std::uint64_t moved = 0;  // Bytes of the chunk's I/O range that the drive has moved.
    std::uint32_t asked = 0;  // Bytes of the operation under way.
    Slot* slot = nullptr;     // Stays in its place until the chunk is done, since drop() waits for all chunks.
    Reason ineligible = Reason::none;
    Status status;
  };

  DmabufChannel(DmabufPath& path, const ChannelOptions& options);
  bool wait_for_storage(std::chrono::steady_clock::time_point deadline) override {
    return done_.empty() && only_storage_is_busy() && ring_->wait_until(deadline);
  }
  void on_copied(std::uint32_t index, const Status& status) override;

  Result<Slot*> slot_for(const DmabufDrive& drive);
  Result<Slot*> prepare(const DmabufDrive& drive, Slot* slot);
  Result<Slot*> add_slot(const DmabufDrive& drive);
  Status renew(Slot& slot);
  bool is_due(const Slot& slot, std::chrono::nanoseconds now) const;
  Proof prove(int fd, int slot, std::uint64_t bytes, Proof (*canary)(const struct CanaryWorld&));
  Result<std::size_t> operate(const RingOp& op);
  Slot* oldest_slot();
  void drop(Slot* slot);
  Slot* find(const DmabufDrive& drive);

  void begin(std::uint32_t index);
  Reason hold(Move& move);
  void push(std::uint32_t index);
  void on_stored(std::uint32_t index, std::int32_t result);
  void on_error(std::uint32_t index, int error);
  void after_storage(std::uint32_t index);
  void start_copy(std::uint32_t index);
  void finish(std::uint32_t index, Status status);
  void mark_done(std::uint32_t index, Status status);
  static DmabufFile& file_of(const Move& move) {
    return *static_cast<DmabufFile*>(move.request->shape.channel_facts.file_state);
  }
  static const DmabufDrive& drive_of(const Move& move) { return file_of(move).drive(); }
  bool is_at_end(const Move& move) const;
  std::uint64_t place_of(std::uint32_t index) const { return index * stride_; }

  bool reap_ring(bool wait);
  bool step(bool wait);
  void drain();
  void break_down(Status status);
  bool only_storage_is_busy() const { return storing_count_ > 0 && copies_.is_idle(); }

  DmabufPath& path_;
  Device& device_;
  const ChannelOptions options_;
  const std::uint64_t stride_;  // The bytes of the memory that each chunk has.
  DmabufMemory memory_;
  StagedCopies copies_;
  CopyQueue* queue_ = nullptr;  // Owned by copies_.
  std::unique_ptr<Ring> ring_;
  std::vector<Slot> slots_;
  std::vector<Move> moves_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> done_;
  unsigned storing_count_ = 0;
  std::uint64_t submissions_ = 0;
  std::optional<std::int32_t> probed_;  // The result of a canary's operation.
  std::chrono::steady_clock::time_point probe_deadline_;
  std::chrono::nanoseconds tried_again_at_{};  // After a canary that failed for another reason than lost bytes.
  Proof proof_;                                // The result of the last canary of reads.
  bool broken_ = false;
};

}  // namespace penstock::core
