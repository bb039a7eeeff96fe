// SPDX-License-Identifier: Apache-2.0

// Chunks by the module nvidia-fs: READ and WRITE where the chunk lies in a registered buffer on a block's boundary,
// else to and from memory of the channel's own, with a copy on the device behind or before. A chunk goes in pieces,
// each one request, in whose call its thread waits. The BouncingChannel around it takes care of refused chunks.
//
// Blocks that did not go by DMA (a file's holes) are in host memory when a read is over: they are copied to the device
// from there, and the chunk says so.
#pragma once

#include <memory>

#include "path/nvfs/nvfs_memory.h"
#include "path/pipeline/sequential_channel.h"

namespace penstock::core {

class NvfsPath;

class NvfsChannel final : public SequentialChannel {
 public:
  static constexpr std::uint64_t kPieceMax = 2u << 20;  // Through memory of our own.
  static constexpr unsigned kRetriesMax = 8;            // Short transfers in a row.

  static Result<std::unique_ptr<Channel>> open(NvfsPath& path, const ChannelOptions& options, bool strict);
  // Pinned host bytes.
  static std::uint64_t shadow_bytes(const ChannelOptions& options);

  Completion run(const Task& task) override;
  bool is_broken() const override { return is_broken_; }

 private:
  // A chunk under way.
  struct Move {
    std::uint64_t skipped() const { return task.chunk.file_offset - task.chunk.io_offset; }
    std::uint64_t end() const { return skipped() + task.chunk.size; }
    std::byte* place() const { return task.memory.address() + moved; }  // In place.

    const Task& task;
    std::uint64_t moved = 0;  // Bytes of the chunk's I/O range.
    bool is_over = false;
    unsigned retries = 0;
    Reason bounced = Reason::none;
    NvfsBuffers::Loan in_place;  // Empty: by way of `own_`.
  };

  NvfsChannel(NvfsPath& path, const ChannelOptions& options, bool strict);
  Status choose_memory(Move& move);
  bool lies_in_file(const Task& task);
  Status move_piece(Move& move);
  NvfsRequest next_request(const Move& move, int fd) const;
  Status take_in(Move& move, const NvfsAnswer& answer);
  Status repair(Move& move, const NvfsAnswer& answer);
  Status copy_out(const Move& move, std::uint64_t bytes);
  Status copy_in(const Move& move, std::uint64_t bytes);
  Status finish_copying(const Status& queued);
  Status advance(Move& move, std::uint64_t asked, std::uint64_t bytes);
  bool is_at_end(const Move& move) const;
  NvfsGroup& group_of(const Move& move) const { return move.in_place ? move.in_place.group() : own_->group(); }

  NvfsPath& path_;
  Device& device_;
  const ChannelOptions options_;
  const bool strict_;
  std::unique_ptr<CopyQueue> copies_;
  std::unique_ptr<OwnMemory> own_;  // From the first chunk on that needs it.
  bool is_broken_ = false;
};

}  // namespace penstock::core
