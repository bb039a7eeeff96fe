// SPDX-License-Identifier: Apache-2.0

// Chunks by the module nvidia-fs: READ and WRITE in place where the chunk is block-aligned in a registered buffer, else
// through the channel's own device memory, with a copy on the device after or before. A chunk is split into pieces of
// one request each; the thread waits in each call. The FallbackChannel around it handles refused chunks.
//
// Blocks that DMA did not move (a file's holes) are in host memory after a read: the channel copies them to the device,
// and the chunk reports it.
#pragma once

#include <memory>

#include "path/nvfs/nvfs_memory.h"
#include "path/pipeline/sequential_channel.h"

namespace penstock::core {

class NvfsPath;

class NvfsChannel final : public SequentialChannel, private ChannelHooks {
 public:
  static constexpr std::uint64_t kPieceMax = 2u << 20;  // Piece size through the channel's own memory.
  static constexpr unsigned kRetriesMax = 8;            // Consecutive short transfers.

  static Result<std::unique_ptr<Channel>> open(NvfsPath& path, const ChannelOptions& options, bool strict);
  // Pinned host bytes of one channel.
  static std::uint64_t shadow_bytes(const ChannelOptions& options);

  Completion move_and_wait(const RoutedRequest& request, const Chunk& chunk) override;
  bool is_broken() const override { return !broken_by_.ok(); }

 private:
  // A chunk in flight.
  struct Move {
    std::uint64_t skipped() const { return chunk.file_offset - chunk.io_offset; }
    std::uint64_t end() const { return skipped() + chunk.size; }
    RequestMemory memory() const { return request.memory_of(chunk); }
    std::byte* place() const { return memory().address() + moved; }  // In place.

    const RoutedRequest& request;
    const Chunk& chunk;
    std::uint64_t moved = 0;  // Bytes moved of the chunk's I/O range.
    bool is_over = false;
    unsigned retries = 0;
    Reason bounced = Reason::none;
    NvfsBuffers::Loan in_place;  // Empty: the chunk goes through `own_`.
  };

  NvfsChannel(NvfsPath& path, const ChannelOptions& options, bool strict);
  Status broken_by() const override { return broken_by_; }
  Status choose_memory(Move& move);
  bool lies_in_file(const RoutedRequest& request, const Chunk& chunk);
  Status move_piece(Move& move);
  NvfsRequest next_request(const Move& move, int fd) const;
  Status take_in(Move& move, const NvfsAnswer& answer);
  Status repair(Move& move, const NvfsAnswer& answer);
  Status copy_out(const Move& move, std::uint64_t bytes);
  Status copy_in(const Move& move, std::uint64_t bytes);
  Status wait_for_queued(const Status& queued);
  Status advance(Move& move, std::uint64_t asked, std::uint64_t bytes);
  bool is_at_end(const Move& move) const;
  NvfsGroup& group_of(const Move& move) const { return move.in_place ? move.in_place.group() : own_->group(); }

  NvfsPath& path_;
  Device& device_;
  const ChannelOptions options_;
  const bool strict_;
  std::unique_ptr<OwnMemory> own_;     // Created for the first chunk that needs it.
  std::unique_ptr<CopyQueue> copies_;  // Goes first, since copies that it waits for then have that memory.
  Status broken_by_;
};

}  // namespace penstock::core
