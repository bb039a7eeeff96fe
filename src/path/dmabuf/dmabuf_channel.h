// SPDX-License-Identifier: Apache-2.0

// Chunks between drives and device memory: the drive's DMA engine moves them to and from device memory of the
// channel's own (dmabuf_memory.h), and the device copies within its memory, at about a hundred times the drive's speed.
// No CPU touches a byte. Each drive has a slot in the channel's ring, whichever files lie on it. Before its first byte,
// and then by time and bytes, a canary proves that what the drive reports as moved arrives (canary.h): submit() may
// take some milliseconds for it. A chunk's file is held in place (dmabuf_file.h) until the chunk is done. Chunks that
// fail, or cannot be tried, are left to the FallbackChannel around this.
//
// Reads of whole blocks into registered memory need no copy: a slot for each drive and slab has the program's own
// memory (dmabuf_buffers.h). There a canary may overwrite nothing but what the chunk is about to overwrite, so that it
// proves the part of the slab that a chunk lies in, and each part has its own.
#pragma once

#include <bit>
#include <bitset>
#include <memory>
#include <optional>
#include <vector>

#include "path/dmabuf/dmabuf_buffers.h"
#include "path/dmabuf/dmabuf_file.h"
#include "path/dmabuf/dmabuf_memory.h"
#include "path/path.h"
#include "path/pipeline/completions.h"
#include "path/pipeline/self_test.h"
#include "path/pipeline/staged_copies.h"
#include "storage/storage.h"

namespace penstock::core {

class DmabufPath;

class DmabufChannel final : public Channel,
                            private ChannelHooks,
                            private StagedCopies::Owner,
                            private DmabufBuffers::User {
 public:
  static constexpr unsigned kSlotsMax = DmabufSlots::kDmabufsMax;
  static constexpr unsigned kTriesMax = 8;   // An exporter may say "again" so often to a canary's operation.
  static constexpr unsigned kPiecesMax = 8;  // The most places on a drive that a chunk may lie in.

  static Result<std::unique_ptr<DmabufChannel>> open(DmabufPath& path, const ChannelOptions& options);
  ~DmabufChannel() override;

  bool has_room() const override { return !free_.empty() && !is_broken(); }
  bool is_idle() const override { return free_.size() == moves_.size(); }
  void submit(const RoutedRequest& request, const Chunk& chunk, std::uint64_t cookie) override;
  unsigned poll(std::span<Completion> completions, bool wait) override;
  Completion move_and_wait(const RoutedRequest& request, const Chunk& chunk) override;
  void forget_file(std::uint64_t /*file_id*/) override {}  // Slots keep drives open, and no user's file.
  bool has_storage_under_way() const override { return storing_count_ > 0; }
  bool is_broken() const override { return !broken_by_.ok(); }

  // For self-tests, on an idle channel: the canary of reading from the drive, and of writing to one, given by a
  // descriptor with O_DIRECT, whose first pages may be overwritten.
  Proof prove_reads(const DmabufDrive& drive);
  Proof prove_writes(int scratch, std::uint64_t bytes);

 private:
  enum class Phase : std::uint8_t { free, storing, copying, done };

  // The memory that a slot has.
  struct Region {
    bool operator==(const Region&) const = default;

    DmabufBuffer* buffer = nullptr;  // Null for the channel's own.
    std::uint32_t life = 0;          // The buffer's.
    DmabufBuffer::Slab slab;
  };

  struct Slot {
    bool has(const DmabufDrive& its_drive, const Region& its_region) const {
      if (drive != &its_drive || region.buffer != its_region.buffer) return false;
      return region.buffer == nullptr || region == its_region;
    }

    const DmabufDrive* drive = nullptr;
    Region region;
    int number = -1;
    bool is_stale = false;   // An error means that the slot's mapping is gone.
    bool is_proven = false;  // A canary has seen bytes arrive, and no error since may mean a new mapping.
    std::bitset<DmabufBuffer::kPartsMax + 1> parts;  // The parts of a slab where one has; its first may be a short one.
    unsigned seam_level = 0;                         // The coarsest seam across which one has.
    std::chrono::nanoseconds proved_at{};            // The time of the first canary.
    std::uint64_t bytes = 0;                         // Moved since then.
    std::uint64_t used = 0;                          // A count of submissions.
  };

  struct Move : Submitted {  // A chunk in flight. Its memory is the part of the channel's with its number, or its own.
    void begin(const RoutedRequest& its_request, const Chunk& its_chunk, std::uint64_t its_cookie,
               std::uint64_t its_place) {
      take(its_request, its_chunk, its_cookie);
      piece = 0;
      moved = 0;
      region = {};
      place = its_place;
      ineligible = Reason::none;
    }
    bool is_in_place() const { return region.buffer != nullptr; }

    Phase phase = Phase::free;
    DrivePiece pieces[kPiecesMax];  // The places of the chunk's I/O range on the drive, each without what has moved.
    unsigned piece_count = 0;
    unsigned piece = 0;       // The first that is not done.
    std::uint64_t held = 0;   // Bytes of the chunk's I/O range that the file has, to the end of its last sector.
    std::uint64_t moved = 0;  // Bytes of the chunk's I/O range that the drive has moved.
    std::uint32_t asked = 0;  // Bytes of the operation under way.
    Region region;            // The memory in which it is, held for it.
    std::uint64_t place = 0;  // Its offset there.
    Slot* slot = nullptr;     // Stays in its place until the chunk is done, since drop() waits for all chunks.
    Reason ineligible = Reason::none;
    Status status;
  };

  DmabufChannel(DmabufPath& path, const ChannelOptions& options);
  bool wait_for_storage(std::chrono::steady_clock::time_point deadline) override {
    return done_.empty() && only_storage_is_busy() && ring_->wait_until(deadline);
  }
  Status broken_by() const override { return broken_by_; }
  void on_copied(std::uint32_t index, const Status& status) override;
  void release_slots(const DmabufBuffer& buffer) override;

  struct Window {  // A part of a slot's memory that a canary may overwrite.
    std::byte* memory = nullptr;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  // The largest power of two, by its exponent, of which a multiple lies in the window.
  static unsigned seam_level(const Window& window) {
    return static_cast<unsigned>(std::bit_width(window.offset ^ (window.offset + window.bytes - 1))) - 1;
  }
  static std::uint64_t part_of(const Slot& slot, std::uint64_t address) {
    return address / DmabufBuffer::kPartBytes - slot.region.slab.address / DmabufBuffer::kPartBytes;
  }
  bool may_try(const DmabufDrive& drive, std::chrono::nanoseconds now) const;
  Result<Slot*> slot_for(const DmabufDrive& drive, const Region& region, std::chrono::nanoseconds now);
  Result<Slot*> prepare(const DmabufDrive& drive, const Region& region, Slot* slot, std::chrono::nanoseconds now);
  Result<Slot*> add_slot(const DmabufDrive& drive, const Region& region);
  Result<int> export_to(const DmabufDrive& drive, const Region& region);
  Status renew(Slot& slot, const Window& window);
  // The slot of the chunk's drive and memory, if it is proven; else null.
  Slot* proven_slot(const Move& move, std::chrono::nanoseconds now);
  Result<Slot*> prove_slot(std::uint32_t index, std::chrono::nanoseconds now);
  void take_place(Move& move);
  Status prove_parts(Slot& slot, const Move& move);
  bool is_proven(const Slot& slot, const Move& move) const;
  bool is_due(const Slot& slot, std::chrono::nanoseconds now) const;
  Proof prove(int fd, int slot, const Window& window, std::uint64_t drive_bytes,
              Proof (*canary)(const struct CanaryWorld&));
  static std::byte* as_memory(std::uint64_t offset) { return reinterpret_cast<std::byte*>(offset); }
  Window whole_memory() const { return {memory_.data(), 0, memory_.size()}; }
  Result<std::size_t> operate(const RingOp& op);
  Slot* oldest_slot();
  void drop(Slot* slot);
  Slot* find(const DmabufDrive& drive, const Region& region);

  void begin(std::uint32_t index);
  Reason hold(Move& move);
  static Reason find_in_file(Move& move, Reason reason);
  void push(std::uint32_t index);
  void on_stored(std::uint32_t index, std::int32_t result);
  void on_error(std::uint32_t index, int error);
  void after_storage(std::uint32_t index);
  void start_copy(std::uint32_t index);
  void finish(std::uint32_t index, const Status& status);
  void mark_done(std::uint32_t index, const Status& status);
  static DmabufFile& file_of(const Move& move) {
    return *static_cast<DmabufFile*>(move.request->shape.channel_facts.file_state);
  }
  static const DmabufDrive& drive_of(const Move& move) { return file_of(move).drive(); }
  bool is_at_end(const Move& move) const;
  Completion end(std::uint32_t index);
  std::uint64_t place_of(std::uint32_t index) const { return index * stride_; }

  bool reap_ring(bool wait);
  bool step(bool wait);
  void drain();
  void break_down(Status status);
  Status left_by_break() const;
  bool only_storage_is_busy() const { return storing_count_ > 0 && copies_.is_idle(); }

  DmabufPath& path_;
  Device& device_;
  const ChannelOptions options_;
  const std::uint64_t stride_;  // The bytes of the memory that each chunk has.
  DmabufMemory memory_;
  StagedCopies copies_;
  CopyQueue* queue_ = nullptr;  // Owned by copies_.
  std::unique_ptr<Ring> ring_;
  // Changed with the mutex, by the thread that uses the channel; release_slots() reads it on another.
  std::vector<Slot> slots_;
  Mutex slots_mutex_;
  std::vector<Move> moves_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> done_;
  unsigned storing_count_ = 0;
  std::uint64_t submissions_ = 0;
  std::optional<std::int32_t> probed_;         // The result of a canary's operation.
  std::chrono::nanoseconds tried_again_at_{};  // After a canary that failed for another reason than lost bytes.
  Proof proof_;                                // The result of the last canary of reads.
  Status broken_by_;
};

}  // namespace penstock::core
