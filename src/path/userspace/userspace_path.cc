// SPDX-License-Identifier: Apache-2.0

#include "path/userspace/userspace_path.h"

#include <algorithm>
#include <cerrno>

#include "device/pinned_block.h"
#include "path/paths.h"
#include "path/pipeline/sequential_channel.h"

namespace penstock::core {
namespace {

constexpr const char* kStep = "move bytes by the file system's own calls";
// The most bytes of one call for host memory, which needs no bounce buffer.
constexpr std::uint64_t kHostChunkMax = std::uint64_t{1} << 40;

// Calls until everything is moved, the file ends, or a call fails; `moved` counts the bytes.
Status call_until_done(UserspaceFile& file, Op op, std::byte* memory, std::uint64_t size, std::uint64_t offset,
                       std::uint64_t& moved) {
  while (moved < size) {
    const Result<std::size_t> count = file.move(op, memory + moved, size - moved, offset + moved);
    // Bytes moved before a signal are reported; without any, EINTR is.
    if (!count.ok()) return count.status().is_errno(EINTR) && moved > 0 ? success() : count.status();
    if (*count == 0) return op == Op::read ? success() : failure(Code::no_progress, kStep);
    moved += *count;
  }
  return success();
}

class UserspaceChannel final : public SequentialChannel {
 public:
  // Uses a bounce buffer and copies if there is a device.
  UserspaceChannel(PinnedBlock block, std::unique_ptr<CopyQueue> copies)
      : block_(std::move(block)), copies_(std::move(copies)) {}
  ~UserspaceChannel() override { copies_.reset(); }

  Completion move_and_wait(const RoutedRequest& request, const Chunk& chunk) override {
    Completion completion{.file_offset = chunk.file_offset, .size = chunk.size};
    completion.status =
        copies_ == nullptr ? call_until_done(*request.file->userspace(), request.op, request.memory_of(chunk).address(),
                                             chunk.size, chunk.file_offset, completion.bytes)
                           : bounce(request, chunk, completion.bytes);
    return completion;
  }
  bool is_broken() const override { return false; }

 private:
  Status bounce(const RoutedRequest& request, const Chunk& chunk, std::uint64_t& bytes) {
    if (request.op == Op::write) {
      const Status copied = wait_for_copies(
          *copies_, copies_->copy_to_host(block_.data(), request.memory_of(chunk).address(), chunk.size));
      if (!copied.ok()) return copied;
    }
    std::uint64_t moved = 0;
    const Status status =
        call_until_done(*request.file->userspace(), request.op, block_.data(), chunk.size, chunk.file_offset, moved);
    if (request.op == Op::read && moved > 0) {
      const Status copied =
          wait_for_copies(*copies_, copies_->copy_to_device(request.memory_of(chunk).address(), block_.data(), moved));
      if (!copied.ok()) return copied;
    }
    bytes = moved;
    return status;
  }

  PinnedBlock block_;
  std::unique_ptr<CopyQueue> copies_;
};

}  // namespace

// Uses one thread, because it is not known if a file system's calls gain from more.
Shape UserspacePath::shape(const RoutedRequest& request) {
  const bool in_place = !request.facts.needs_device();
  return {.limits = {.chunk_max = in_place && request.mode != SubmitMode::queued ? kHostChunkMax : request.chunk_max},
          .threads_max = 1};
}

std::uint64_t UserspacePath::channel_bytes(const ChannelOptions& options) const {
  return options.device == nullptr ? 0 : options.chunk_max;
}

Result<std::unique_ptr<Channel>> UserspacePath::open_channel(const ChannelOptions& options) {
  PinnedBlock block;
  std::unique_ptr<CopyQueue> copies;
  if (options.device != nullptr) {
    Result<PinnedBlock> mapped = open_block(options, options.chunk_max);
    if (!mapped.ok()) return mapped.status();
    Result<std::unique_ptr<CopyQueue>> opened = options.device->open_copy_queue(1);
    if (!opened.ok()) return opened.status();
    block = std::move(*mapped);
    copies = std::move(*opened);
  }
  return std::unique_ptr<Channel>(std::make_unique<UserspaceChannel>(std::move(block), std::move(copies)));
}

std::unique_ptr<Path> make_userspace_path(const PathEnvironment&) { return std::make_unique<UserspacePath>(); }

Reason userspace_outlook(const PathSettings&) { return Reason::userspace_file; }

}  // namespace penstock::core
