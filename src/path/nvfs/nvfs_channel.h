// SPDX-License-Identifier: Apache-2.0

// Chunks by the module nvidia-fs: READ and WRITE where the chunk lies in a registered buffer on a block's boundary,
// else to and from memory of the channel's own, with a copy on the device behind or before. A chunk goes in pieces,
// each one request, many chunks side by side; what the kernel has under way is looked at when the channel is polled.
// What is refused is the affair of the BouncingChannel around it.
//
// Blocks that did not go by DMA (a file's holes) are in host memory when a read is over: they are copied to the device
// from there, and the chunk says so.
#pragma once

#include <memory>
#include <vector>

#include "path/nvfs/nvfs_memory.h"
#include "path/path.h"
#include "storage/storage.h"

namespace penstock::core {

class NvfsPath;

class NvfsChannel final : public Channel {
 public:
  static constexpr std::uint64_t kPieceMax = 2u << 20;  // Through memory of our own.
  static constexpr unsigned kRetriesMax = 8;            // Of short transfers in a row.

  static Result<std::unique_ptr<Channel>> open(NvfsPath& path, Storage& storage, const ChannelOptions& options,
                                               bool strict);
  // Pinned host bytes.
  static std::uint64_t shadow_bytes(const ChannelOptions& options);

  bool has_room() const override { return !free_.empty() && !is_broken_; }
  bool is_idle() const override { return free_.size() == slots_.size(); }
  void submit(const Task& task) override;
  unsigned poll(std::span<Completion> completions, bool wait) override;
  Completion run(const Task& task) override;
  void forget_file(std::uint64_t) override {}
  bool is_broken() const override { return is_broken_; }

 private:
  enum class Phase : std::uint8_t { free, copying, moving, done };

  struct Slot {
    Phase phase = Phase::free;
    Task task;
    std::uint64_t moved = 0;  // Bytes of the chunk's I/O range.
    std::uint64_t piece = 0;  // Of them, those that are under way;
    std::uint64_t came = 0;   // and what a read made of them.
    unsigned retries = 0;
    Reason bounced = Reason::none;
    Status status;
    NvfsBuffers::Loan in_place;      // Empty: by way of `own`.
    std::unique_ptr<OwnMemory> own;  // From the first chunk on that needs it.
  };

  NvfsChannel(NvfsPath& path, Storage& storage, const ChannelOptions& options, bool strict);
  void begin(std::uint32_t index, const Task& task);
  Status choose_memory(Slot& slot);
  bool lies_in_file(const Slot& slot);
  void next_piece(std::uint32_t index);
  void start_move(std::uint32_t index);
  NvfsRequest request_of(const Slot& slot, int fd) const;
  void on_moved(std::uint32_t index, const NvfsAnswer& answer);
  void on_read(std::uint32_t index, const NvfsAnswer& answer);
  Status repair(Slot& slot, const NvfsAnswer& answer);
  Status copy_out(std::uint32_t index);
  Status copy_in(std::uint32_t index);
  void advance(std::uint32_t index, std::uint64_t bytes);
  bool is_at_end(const Slot& slot) const;
  bool step(std::uint32_t index);
  void look_at_all(bool& progress);
  void finish(std::uint32_t index, const Status& status);
  Completion completion_of(const Slot& slot) const;
  NvfsGroup& group_of(const Slot& slot) const { return slot.in_place ? slot.in_place.group() : slot.own->group(); }
  std::uint64_t skipped(const Slot& slot) const { return slot.task.chunk.file_offset - slot.task.chunk.io_offset; }

  NvfsPath& path_;
  Storage& storage_;
  Device& device_;
  const ChannelOptions options_;
  const bool strict_;
  std::unique_ptr<CopyQueue> copies_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  bool is_sync_ = false;  // In run().
  bool is_broken_ = false;
};

}  // namespace penstock::core
