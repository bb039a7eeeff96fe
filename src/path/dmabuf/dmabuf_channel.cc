// SPDX-License-Identifier: Apache-2.0

#include "path/dmabuf/dmabuf_channel.h"

#include <algorithm>
#include <cerrno>

#include "base/align.h"
#include "base/invariant.h"
#include "path/dmabuf/canary.h"
#include "path/dmabuf/dmabuf_errors.h"
#include "path/dmabuf/dmabuf_path.h"
#include "path/dmabuf/dmabuf_reasons.h"
#include "path/pipeline/completions.h"

namespace penstock::core {
namespace {

constexpr std::size_t kReapMax = 8;
constexpr const char* kStep = "move bytes between the drive and the device's memory";

}  // namespace

Result<std::unique_ptr<DmabufChannel>> DmabufChannel::open(DmabufPath& path, const ChannelOptions& options) {
  PENSTOCK_INVARIANT(options.device != nullptr && options.depth > 0 && options.chunk_max > 0);
  std::unique_ptr<DmabufChannel> channel(new DmabufChannel(path, options));
  Result<DmabufMemory> memory =
      DmabufMemory::open(*options.device, std::max(options.depth * channel->stride_, kCanaryBytesMin));
  if (!memory.ok()) return memory.status();
  channel->memory_ = std::move(*memory);
  Result<std::unique_ptr<CopyQueue>> queue = options.device->open_copy_queue(options.depth);
  if (!queue.ok()) return queue.status();
  auto within = std::make_unique<CopiesWithinDevice>(std::move(*queue));
  channel->queue_ = &within->queue();
  channel->copies_.use(std::move(within));
  Result<std::unique_ptr<Ring>> ring = path.storage().open_ring(options.depth);
  if (!ring.ok()) return ring.status();
  if ((*ring)->dmabufs() == nullptr) return os_failure(EMFILE, "open a submission queue that takes dma-bufs");
  channel->ring_ = std::move(*ring);
  channel->moves_.resize(options.depth);  // Last: from here on the channel is idle only when all are free.
  for (unsigned i = options.depth; i > 0; --i) channel->free_.push_back(i - 1);
  path.buffers().add_user(*channel);
  return channel;
}

DmabufChannel::DmabufChannel(DmabufPath& path, const ChannelOptions& options)
    : Channel(this), path_(path), device_(*options.device), options_(options),
      stride_(std::min(options.chunk_max, DmabufPath::kMemoryMax)), copies_(options.depth, *this) {
  free_.reserve(options.depth);
  done_.reserve(options.depth);
  slots_.reserve(kSlotsMax);
}

DmabufChannel::~DmabufChannel() {
  path_.buffers().remove_user(*this);
  if (!is_broken()) drain();
}

// ---- The end of a chunk --------------------------------------------------------------------------------------------

inline void DmabufChannel::mark_done(std::uint32_t index, const Status& status) {
  moves_[index].status = status;
  moves_[index].phase = Phase::done;
  done_.push_back(index);
}

void DmabufChannel::finish(std::uint32_t index, const Status& status) {
  Move& move = moves_[index];
  if (move.is_in_place()) move.region.buffer->let_go();
  file_of(move).let_go();
  mark_done(index, status);
}

// ---- Chunks --------------------------------------------------------------------------------------------------------

void DmabufChannel::submit(const RoutedRequest& request, const Chunk& chunk, std::uint64_t cookie) {
  PENSTOCK_INVARIANT(has_room());
  const std::uint32_t index = free_.back();
  free_.pop_back();
  moves_[index].begin(request, chunk, cookie, place_of(index));
  begin(index);
}

void DmabufChannel::begin(std::uint32_t index) {
  Move& move = moves_[index];
  PENSTOCK_INVARIANT(move.chunk.io_size <= stride_ && move.chunk.size > 0);
  move.ineligible = hold(move);
  if (move.ineligible != Reason::none) return mark_done(index, failure(Code::path_refused, kStep));
  if (move.held == 0) return finish(index, success());
  const std::chrono::nanoseconds now = path_.clock().now();
  if (!may_try(drive_of(move), now)) return finish(index, failure(Code::path_refused, kStep));
  take_place(move);
  move.slot = proven_slot(move, now);
  if (move.slot == nullptr) {
    const Result<Slot*> slot = prove_slot(index, now);
    if (!slot.ok()) return finish(index, slot.status());
    move.slot = *slot;
  }
  move.slot->used = ++submissions_;
  if (move.request->op == Op::write) start_copy(index);
  else push(index);
}

// Finds the chunk's places, where the file is held until finish().
Reason DmabufChannel::hold(Move& move) {
  DmabufFile& file = file_of(move);
  if (const Reason reason = file.hold(); reason != Reason::none) return reason;
  move.held = move.chunk.io_size;
  Reason reason = file.find(move.chunk.io_offset, move.held, move.pieces, move.piece_count);
  if (reason != Reason::none && move.request->op == Op::read) reason = find_in_file(move, reason);
  if (reason != Reason::none) file.let_go();
  return reason;
}

// A read may go over the file's end, where the drive has other bytes.
Reason DmabufChannel::find_in_file(Move& move, Reason reason) {
  const Chunk& chunk = move.chunk;
  const DmabufFile& file = file_of(move);
  if (file.end() == UINT64_MAX) return reason;
  const std::uint64_t last = align_up(file.end(), file.drive().facts.direct_offset_align);
  move.held = std::min(chunk.io_size, last - std::min(last, chunk.io_offset));
  return move.held == 0 ? Reason::none : file.find(chunk.io_offset, move.held, move.pieces, move.piece_count);
}

// Gives the next part of the chunk to the drive.
void DmabufChannel::push(std::uint32_t index) {
  Move& move = moves_[index];
  const DrivePiece& piece = move.pieces[move.piece];
  const DmabufDrive& drive = *move.slot->drive;
  // An error of another chunk may mean a new mapping, which no canary has seen.
  if (move.slot->is_stale || !move.slot->is_proven) return finish(index, os_failure(ENOENT, kStep));
  move.phase = Phase::storing;
  move.asked = static_cast<std::uint32_t>(std::min(piece.bytes, drive.operation_max));
  ++storing_count_;
  ring_->push({.op = move.request->op,
               .fd = drive.fd(),
               .memory = as_memory(move.place + move.moved),
               .size = move.asked,
               .offset = piece.drive_offset,
               .tag = index,
               .slot = move.slot->number,
               .is_durable = move.request->op == Op::write && file_of(move).is_flushed_by_write()});
}

// A short result is an error, unless the drive ends there, since the rest of the memory may have any bytes.
void DmabufChannel::on_stored(std::uint32_t index, std::int32_t result) {
  Move& move = moves_[index];
  if (result < 0) return on_error(index, -result);
  move.moved += static_cast<std::uint64_t>(result);
  move.slot->bytes += static_cast<std::uint64_t>(result);
  if (static_cast<std::uint32_t>(result) == move.asked) {
    DrivePiece& piece = move.pieces[move.piece];
    piece = {piece.drive_offset + move.asked, piece.bytes - move.asked};
    if (piece.bytes == 0) ++move.piece;
    if (move.piece < move.piece_count) return push(index);
  } else if (move.request->op != Op::read || !is_at_end(move)) {
    return on_error(index, ENODEV);
  }
  after_storage(index);
}

// Another map may be made for the next operation, which nobody has seen yet: the canary comes before it.
void DmabufChannel::on_error(std::uint32_t index, int error) {
  Slot& slot = *moves_[index].slot;
  if (ends_mapping(error)) slot.is_stale = true;
  if (is_passing(error)) slot.is_proven = false;
  finish(index, os_failure(error, kStep));
}

// A drive that was removed has no size.
bool DmabufChannel::is_at_end(const Move& move) const {
  const Result<std::uint64_t> size = move.request->file->size();
  return size.ok() && move.request->file->facts().type == FileType::block_device && *size >= drive_of(move).bytes() &&
         move.chunk.io_offset + move.moved >= *size;
}

// The drive has also moved the rest of the sector that a file ends in.
void DmabufChannel::after_storage(std::uint32_t index) {
  Move& move = moves_[index];
  DmabufFile& file = file_of(move);
  const std::uint64_t offset = move.chunk.io_offset, end = file.end();
  move.moved = std::min(move.moved, end - std::min(end, offset));
  if (move.moved == 0) return finish(index, success());
  if (!file.is_intact(offset, move.held)) return finish(index, os_failure(ESTALE, kStep));
  if (move.request->op == Op::write || payload_moved(move.chunk, move.moved) == 0) return finish(index, success());
  // Later work on the device must see the bytes that the drive wrote.
  const Status status = device_.settle_peer_writes();
  if (!status.ok() || move.is_in_place()) finish(index, status);
  else start_copy(index);
}

void DmabufChannel::start_copy(std::uint32_t index) {
  Move& move = moves_[index];
  const Chunk& chunk = move.chunk;
  move.phase = Phase::copying;
  copies_.add(index, {.op = move.request->op,
                      .memory = move.request->memory_of(move.chunk),
                      .host = memory_.data() + move.place + (chunk.file_offset - chunk.io_offset),
                      .size = move.request->op == Op::read ? payload_moved(move.chunk, move.moved) : chunk.size});
}

// All that end behind the first failure tell of it: whichever counts for its request has the device's error.
void DmabufChannel::on_copied(std::uint32_t index, const Status& status) {
  if (!is_broken()) broken_by_ = status;
  if (!is_broken() && moves_[index].request->op == Op::write) push(index);
  else finish(index, left_by_break());
}

// ---- Progress ------------------------------------------------------------------------------------------------------

bool DmabufChannel::reap_ring(bool wait) {
  if (storing_count_ == 0) return false;
  RingCompletion completions[kReapMax];
  const Result<unsigned> count = ring_->reap(completions, wait);
  if (!count.ok()) {
    break_down(count.status());
    return true;
  }
  for (unsigned i = 0; i < *count; ++i) {
    --storing_count_;
    if (completions[i].tag == options_.depth) probed_ = completions[i].result;
    else on_stored(completions[i].tag, completions[i].result);
  }
  return *count > 0;
}

bool DmabufChannel::step(bool wait) {
  if (wait && only_storage_is_busy()) return reap_ring(true);
  const bool stored = reap_ring(false);
  copies_.queue_collected();
  const bool copied = copies_.reap(false);
  if (stored || copied || !wait || !done_.empty()) return stored || copied;
  return storing_count_ > 0 && !copies_.feeds_storage() ? reap_ring(true) : copies_.reap(true);
}

// Returns when the drive and the device are done with all chunks; their completions wait for poll().
void DmabufChannel::drain() {
  while (!is_broken() && (storing_count_ > 0 || !copies_.is_idle())) {
    copies_.queue_collected();
    if (copies_.has_queued()) (void)copies_.reap(true);
    else (void)reap_ring(true);
  }
}

unsigned DmabufChannel::poll(std::span<Completion> completions, bool wait) {
  copies_.queue_collected();
  while (done_.empty() && !is_idle()) {
    if (!step(wait) && !wait) break;
  }
  copies_.queue_collected();
  if (storing_count_ > 0 && !is_broken()) (void)ring_->submit();
  unsigned count = 0;
  for (; count < completions.size() && count < done_.size(); ++count) completions[count] = end(done_[count]);
  done_.erase(done_.begin(), done_.begin() + count);
  return count;
}

Completion DmabufChannel::end(std::uint32_t index) {
  Move& move = moves_[index];
  Completion completion = completion_of(move.chunk, move.status, move.moved, move.cookie);
  completion.bounced = move.ineligible;
  move.phase = Phase::free;
  free_.push_back(index);
  return completion;
}

Completion DmabufChannel::move_and_wait(const RoutedRequest& request, const Chunk& chunk) {
  PENSTOCK_INVARIANT(is_idle());
  submit(request, chunk, 0);
  while (done_.empty()) (void)step(true);
  const std::uint32_t index = done_.back();
  done_.pop_back();
  return end(index);
}

// The failure of a chunk that goes no further. The ring's errno would have it bounced, as one that the kernel refused.
Status DmabufChannel::left_by_break() const {
  return broken_by_.domain == Domain::os ? failure(Code::closed, broken_by_.step) : broken_by_;
}

// Gives up: operations in flight may still reach the memory, so that it stays as it is.
void DmabufChannel::break_down(Status status) {
  if (!is_broken()) broken_by_ = status;
  memory_.abandon();
  storing_count_ = 0;
  {
    const MutexLock lock(slots_mutex_);
    (void)ring_.release();
    slots_.clear();
  }
  // Such a chunk must not be bounced: its operation may still come, after later ones of the program's.
  for (std::uint32_t i = 0; i < moves_.size(); ++i) {
    if (moves_[i].phase == Phase::storing) finish(i, failure(Code::closed, status.step));
  }
}

}  // namespace penstock::core
