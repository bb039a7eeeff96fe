// SPDX-License-Identifier: Apache-2.0

#include "path/nvfs/nvfs_channel.h"

#include <algorithm>
#include <cerrno>

#include "base/align.h"
#include "base/invariant.h"
#include "path/nvfs/nvfs_path.h"
#include "path/pipeline/completions.h"

namespace penstock::core {
namespace {

using nvfs::kBlock;

constexpr const char* kStep = "move bytes by nvidia-fs";

}  // namespace

std::uint64_t NvfsChannel::shadow_bytes(const ChannelOptions& options) {
  return std::min(align_up(options.chunk_max, nvfs::kGpuPage), kPieceMax);
}

Result<std::unique_ptr<Channel>> NvfsChannel::open(NvfsPath& path, const ChannelOptions& options, bool strict) {
  std::unique_ptr<NvfsChannel> channel(new NvfsChannel(path, options, strict));
  Result<std::unique_ptr<CopyQueue>> copies = options.device->open_copy_queue(1);
  if (!copies.ok()) return copies.status();
  channel->copies_ = std::move(*copies);
  return std::unique_ptr<Channel>(std::move(channel));
}

NvfsChannel::NvfsChannel(NvfsPath& path, const ChannelOptions& options, bool strict)
    : SequentialChannel(this), path_(path), device_(*options.device), options_(options), strict_(strict) {}

// ---- A chunk -------------------------------------------------------------------------------------------------------

Completion NvfsChannel::move_and_wait(const RoutedRequest& request, const Chunk& chunk) {
  PENSTOCK_INVARIANT(is_idle());
  Move move{.request = request, .chunk = chunk};
  Status status = choose_memory(move);
  while (status.ok() && !move.is_over) status = move_piece(move);
  Completion completion = completion_of(chunk, status, move.moved);
  completion.bounced = move.bounced;
  return completion;
}

// A chunk moves in place only if its payload is all that is moved, block-aligned in registered memory. A read of the
// file's last block would also overwrite the user's memory past the file's end.
Status NvfsChannel::choose_memory(Move& move) {
  const Chunk& chunk = move.chunk;
  const auto address = reinterpret_cast<std::uintptr_t>(move.place());
  const bool is_whole = chunk.io_offset == chunk.file_offset && chunk.io_size == chunk.size &&
                        is_aligned(address | chunk.size, kBlock) && !move.request.memory.is_in_pieces();
  if (is_whole && (move.request.op == Op::write || lies_in_file(move.request, chunk))) {
    move.in_place = path_.buffers().borrow(path_.module(), device_, address, chunk.size);
  }
  if (move.in_place) return success();
  if (own_ != nullptr && own_->group().is_broken()) own_.reset();
  if (own_ != nullptr) return success();
  Result<std::unique_ptr<OwnMemory>> own = OwnMemory::open(path_.module(), device_, shadow_bytes(options_));
  if (own.ok()) own_ = std::move(*own);
  return own.status();
}

bool NvfsChannel::lies_in_file(const RoutedRequest& request, const Chunk& chunk) {
  const Result<std::uint64_t> size = request.file->size();
  return size.ok() && chunk.file_offset + chunk.size <= *size;
}

NvfsRequest NvfsChannel::next_request(const Move& move, int fd) const {
  const std::uint64_t gpu_offset =
      move.in_place ? move.in_place.offset_of(reinterpret_cast<std::uintptr_t>(move.place())) : 0;
  return {.op = move.request.op,
          .file = NvfsFile::of(fd, move.request.file->facts()),
          .file_offset = move.chunk.io_offset + move.moved,
          .gpu_offset = gpu_offset,
          .size = group_of(move).fit(gpu_offset, move.chunk.io_size - move.moved)};
}

Status NvfsChannel::move_piece(Move& move) {
  const bool is_write = move.request.op == Op::write;
  const Result<int> fd = move.request.file->descriptor(IoMode::o_direct);
  if (!fd.ok()) return fd.status();
  const NvfsRequest request = next_request(move, *fd);
  if (is_write && !move.in_place) {
    if (const Status status = copy_in(move, request.size); !status.ok()) return status;
  }
  const NvfsAnswer answer = group_of(move).run(request);
  if (!answer.status.ok()) return answer.status;
  // The module wrote nothing and returned no error: the storage driver does not call the module. The file may contain
  // the shadow buffer's bytes now; the bounce that follows writes the right ones.
  if (is_write && answer.bytes == 0) return os_failure(EREMOTEIO, kStep);
  move.is_over = answer.bytes == 0;
  if (!is_write && !move.is_over) {
    if (const Status status = take_in(move, answer); !status.ok()) return status;
  }
  return move.is_over ? success() : advance(move, request.size, answer.bytes);
}

// Accounts for the bytes of a read.
Status NvfsChannel::take_in(Move& move, const NvfsAnswer& answer) {
  Status status = answer.hole_count > 0 ? repair(move, answer) : success();
  // Later work on the device must see the bytes that other devices wrote.
  if (status.ok() && answer.hole_bytes < answer.bytes) status = device_.settle_peer_writes();
  if (status.ok() && !move.in_place) status = copy_out(move, answer.bytes);
  const bool is_copied = !move.in_place || answer.hole_count > 0;
  return is_copied ? wait_for_queued(status) : status;
}

// The kernel left these bytes in the shadow buffer, where a CPU put them: copy them to the device. If the file has data
// there, its driver bypasses the module, and this file must not use the path again.
Status NvfsChannel::repair(Move& move, const NvfsAnswer& answer) {
  if (strict_) return failure(Code::path_refused, kStep);
  move.bounced = path_.take_in_holes(options_.device, *move.request.file, move.chunk.io_offset + move.moved, answer,
                                     group_of(move));
  std::byte* const to = move.in_place ? move.place() : own_->data();
  Status status;
  for (unsigned i = 0; i < answer.hole_count && status.ok(); ++i) {
    const NvfsHole hole = group_of(move).hole(i);
    if (hole.offset >= answer.bytes) continue;
    status = copies_->copy_to_device(to + hole.offset, hole.seen, std::min(hole.bytes, answer.bytes - hole.offset));
  }
  return status;
}

// Copies the payload from our memory to the user's.
Status NvfsChannel::copy_out(const Move& move, std::uint64_t bytes) {
  const std::uint64_t begin = std::max(move.moved, move.skipped());
  const std::uint64_t end = std::min(move.moved + bytes, move.end());
  if (end <= begin) return success();
  const std::byte* from = own_->data() + (begin - move.moved);
  Status status;
  move.memory().after(begin - move.skipped()).each_place(end - begin, [&](std::byte* to, std::uint64_t here) {
    if (status.ok()) status = copies_->copy_on_device(to, from, here);
    from += here;
  });
  return status;
}

// A write's chunk is never widened to whole blocks.
Status NvfsChannel::copy_in(const Move& move, std::uint64_t bytes) {
  std::byte* to = own_->data();
  Status status;
  move.memory().after(move.moved).each_place(bytes, [&](std::byte* from, std::uint64_t here) {
    if (status.ok()) status = copies_->copy_on_device(to, from, here);
    to += here;
  });
  return wait_for_queued(status);
}

// Waits even if not all copies could be queued: the memory must not be reused before the queued ones end. If waiting
// fails, the memory can never be reused.
Status NvfsChannel::wait_for_queued(const Status& queued) {
  Status status = copies_->record(0);
  if (status.ok()) status = copies_->wait(0, true);
  if (!is_broken()) broken_by_ = status;
  return queued.ok() ? status : queued;
}

bool NvfsChannel::is_at_end(const Move& move) const {
  return ends_by(*move.request.file, move.chunk.io_offset + move.moved);
}

Status NvfsChannel::advance(Move& move, std::uint64_t asked, std::uint64_t bytes) {
  const bool is_short = bytes < asked;
  move.moved += bytes;
  move.retries = is_short ? move.retries + 1 : 0;
  move.is_over = move.moved >= move.end() || (is_short && move.request.op == Op::read && is_at_end(move));
  if (move.is_over) return success();
  if (move.retries > kRetriesMax) return failure(Code::no_progress, kStep);
  move.moved = align_down(move.moved, kBlock);
  return success();
}

}  // namespace penstock::core
