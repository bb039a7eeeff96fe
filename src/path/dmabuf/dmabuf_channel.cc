// SPDX-License-Identifier: Apache-2.0

#include "path/dmabuf/dmabuf_channel.h"

#include <algorithm>
#include <cerrno>

#include "base/invariant.h"
#include "path/dmabuf/canary.h"
#include "path/dmabuf/dmabuf_errors.h"
#include "path/dmabuf/dmabuf_path.h"
#include "path/dmabuf/dmabuf_reasons.h"
#include "path/pipeline/completions.h"

namespace penstock::core {
namespace {

constexpr std::size_t kReapMax = 8;
constexpr std::chrono::seconds kTriedAgainAfter{1};
constexpr const char* kStep = "move bytes between the drive and the device's memory";

std::byte* offset_as_memory(std::uint64_t offset) { return reinterpret_cast<std::byte*>(offset); }

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
  if (!broken_) drain();
}

// ---- Slots ---------------------------------------------------------------------------------------------------------

DmabufChannel::Slot* DmabufChannel::find(const DmabufDrive& drive) {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& one) { return one.drive == &drive; });
  return found == slots_.end() ? nullptr : &*found;
}

// Returns the drive's slot, whose reads are proven.
Result<DmabufChannel::Slot*> DmabufChannel::slot_for(const DmabufDrive& drive) {
  // Another channel may have found out that bytes are lost: nothing is tried again then.
  const std::chrono::nanoseconds now = path_.clock().now();
  if (!path_.may_try(options_.device, drive) || now < tried_again_at_) {
    return failure(Code::path_refused, kStep);
  }
  Slot* slot = find(drive);
  if (slot != nullptr && slot->is_stale) {
    drop(slot);
    slot = nullptr;
  }
  if (slot == nullptr || is_due(*slot, now)) {
    const Result<Slot*> prepared = prepare(drive, slot);
    if (!prepared.ok()) return prepared;
    slot = *prepared;
  }
  slot->used = ++submissions_;
  return slot;
}

// The kernel tells another's descriptor from ours for transfers, but not for new slots, nor the canary's own reads.
Result<DmabufChannel::Slot*> DmabufChannel::prepare(const DmabufDrive& drive, Slot* slot) {
  if (!drive.node.is_ours() || !memory_.dmabuf().is_ours()) return os_failure(EBADF, kStep);
  if (slot == nullptr) {
    const Result<Slot*> added = add_slot(drive);
    if (!added.ok()) return added;
    slot = *added;
  }
  if (const Status status = renew(*slot); !status.ok()) return status;
  return slot;
}

Result<DmabufChannel::Slot*> DmabufChannel::add_slot(const DmabufDrive& drive) {
  if (slots_.size() == kSlotsMax) drop(oldest_slot());
  if (broken_) return failure(Code::closed, kStep);
  const Result<int> number = ring_->dmabufs()->add(memory_.dmabuf().get(), drive.fd());
  if (!number.ok()) return number.status();
  slots_.push_back({.drive = &drive, .number = *number});
  return &slots_.back();
}

DmabufChannel::Slot* DmabufChannel::oldest_slot() {
  return &*std::min_element(slots_.begin(), slots_.end(),
                            [](const Slot& one, const Slot& other) { return one.used < other.used; });
}

// The clock is read for each chunk: a drive may have been left alone for long.
bool DmabufChannel::is_due(const Slot& slot, std::chrono::nanoseconds now) const {
  const DmabufRules& rules = path_.rules();
  return !slot.is_proven || slot.bytes >= rules.trusted_bytes || now - slot.proved_at >= rules.trusted_for;
}

Status DmabufChannel::renew(Slot& slot) {
  const DmabufDrive& drive = *slot.drive;
  proof_ = prove(drive.fd(), slot.number, drive.bytes(), canary_of_reads);
  if (proof_.reason != Reason::none) {
    if (means_lost_bytes(proof_)) path_.distrust(options_.device, drive, proof_);
    else tried_again_at_ = path_.clock().now() + kTriedAgainAfter;
    if (!broken_) drop(&slot);
    return failure(Code::path_refused, kStep);
  }
  slot.proved_at = path_.clock().now();
  slot.bytes = 0;
  slot.is_proven = true;
  return success();
}

Proof DmabufChannel::prove(int fd, int slot, std::uint64_t bytes, Proof (*canary)(const CanaryWorld&)) {
  drain();  // The canary overwrites memory that chunks in flight may have.
  if (broken_) return {dmabuf_reason::refused, ECANCELED};
  probe_deadline_ = std::chrono::steady_clock::now() + path_.rules().first_request_max;
  const auto move = [this, fd, slot](Op op, std::uint64_t place, std::size_t size, std::uint64_t at) {
    return operate({.op = op,
                    .fd = fd,
                    .memory = offset_as_memory(place),
                    .size = static_cast<std::uint32_t>(size),
                    .offset = at,
                    .tag = options_.depth,
                    .slot = slot});
  };
  return canary({device_, *queue_, memory_.data(), memory_.size(), path_.storage(), fd, bytes, move});
}

// The first operation of a slot makes the exporter's map, which may take for ever: the canary has a limit.
Result<std::size_t> DmabufChannel::operate(const RingOp& op) {
  for (unsigned tries = 0;; ++tries) {
    probed_.reset();
    ++storing_count_;
    ring_->push(op);
    while (!probed_ && !broken_) {
      if (reap_ring(false) || ring_->wait_until(probe_deadline_)) {
        if (std::chrono::steady_clock::now() < probe_deadline_ || probed_) continue;
      }
      break_down(failure(Code::no_progress, kStep));
    }
    if (broken_) return failure(Code::no_progress, kStep);
    if (*probed_ >= 0) return static_cast<std::size_t>(*probed_);
    if (!is_passing(-*probed_) || tries == kTriesMax) return os_failure(-*probed_, kStep);
  }
}

Proof DmabufChannel::prove_reads(const DmabufDrive& drive) {
  const Result<Slot*> slot = slot_for(drive);
  if (slot.ok()) return {};
  const Status status = slot.status();
  if (status.is(Code::path_refused)) return proof_;
  if (status.is_errno(EINVAL) || status.is_errno(EOPNOTSUPP)) return {dmabuf_reason::drive, status.code};
  return {dmabuf_reason::refused, status.domain == Domain::os ? status.code : EIO};
}

Proof DmabufChannel::prove_writes(int scratch, std::uint64_t bytes) {
  const Result<int> slot = ring_->dmabufs()->add(memory_.dmabuf().get(), scratch);
  if (!slot.ok()) return {dmabuf_reason::drive, slot.status().code};
  const Proof proof = prove(scratch, *slot, bytes, canary_of_writes);
  if (!broken_) (void)ring_->dmabufs()->remove(*slot);
  return proof;
}

// Nothing of the ring may be in flight while a slot is released. If that fails, the memory stays for ever.
void DmabufChannel::drop(Slot* slot) {
  drain();
  if (broken_) return;
  const int number = slot->number;
  slots_.erase(slots_.begin() + (slot - slots_.data()));
  if (const Status status = ring_->dmabufs()->remove(number); !status.ok()) break_down(status);
}

// ---- Chunks --------------------------------------------------------------------------------------------------------

void DmabufChannel::submit(const RoutedRequest& request, const Chunk& chunk, std::uint64_t cookie) {
  PENSTOCK_INVARIANT(has_room());
  const std::uint32_t index = free_.back();
  free_.pop_back();
  moves_[index].begin(request, chunk, cookie);
  begin(index);
}

void DmabufChannel::begin(std::uint32_t index) {
  Move& move = moves_[index];
  PENSTOCK_INVARIANT(move.chunk.io_size <= stride_ && move.chunk.size > 0);
  move.ineligible = hold(move);
  if (move.ineligible != Reason::none) return mark_done(index, failure(Code::path_refused, kStep));
  const Result<Slot*> slot = slot_for(drive_of(move));
  if (!slot.ok()) return finish(index, slot.status());
  move.slot = *slot;
  if (move.request->op == Op::write) start_copy(index);
  else push(index);
}

// Finds the chunk's places, where the file is held until finish().
Reason DmabufChannel::hold(Move& move) {
  const Chunk& chunk = move.chunk;
  DmabufFile& file = file_of(move);
  if (const Reason reason = file.hold(); reason != Reason::none) return reason;
  const Reason reason = file.find(chunk.io_offset, chunk.io_size, move.pieces, move.piece_count);
  if (reason != Reason::none) file.let_go();
  return reason;
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
               .memory = offset_as_memory(place_of(index) + move.moved),
               .size = move.asked,
               .offset = piece.drive_offset,
               .tag = index,
               .slot = move.slot->number});
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
    if (move.piece < move.piece_count) push(index);
    else after_storage(index);
  } else if (move.request->op == Op::read && is_at_end(move)) {
    after_storage(index);
  } else {
    on_error(index, ENODEV);
  }
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
  const std::uint64_t offset = move.chunk.io_offset, end = file_of(move).end();
  move.moved = std::min(move.moved, end - std::min(end, offset));
  if (move.request->op == Op::write || payload_moved(move.chunk, move.moved) == 0) return finish(index, success());
  if (!file_of(move).is_intact(move.chunk.io_offset, move.chunk.io_size)) {
    return finish(index, os_failure(ESTALE, kStep));
  }
  // Later work on the device must see the bytes that the drive wrote.
  if (const Status status = device_.settle_peer_writes(); !status.ok()) finish(index, status);
  else start_copy(index);
}

void DmabufChannel::start_copy(std::uint32_t index) {
  Move& move = moves_[index];
  const Chunk& chunk = move.chunk;
  move.phase = Phase::copying;
  copies_.add(index, {.op = move.request->op,
                      .memory = move.request->memory_of(chunk),
                      .host = memory_.data() + place_of(index) + (chunk.file_offset - chunk.io_offset),
                      .size = move.request->op == Op::read ? payload_moved(move.chunk, move.moved) : chunk.size});
}

void DmabufChannel::on_copied(std::uint32_t index, const Status& status) {
  if (!status.ok()) broken_ = true;
  if (status.ok() && broken_) finish(index, failure(Code::closed, kStep));
  else if (status.ok() && moves_[index].request->op == Op::write) push(index);
  else finish(index, status);
}

void DmabufChannel::finish(std::uint32_t index, Status status) {
  file_of(moves_[index]).let_go();
  mark_done(index, status);
}

void DmabufChannel::mark_done(std::uint32_t index, Status status) {
  moves_[index].status = status;
  moves_[index].phase = Phase::done;
  done_.push_back(index);
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
  if (wait && done_.empty() && only_storage_is_busy()) return reap_ring(true);
  const bool stored = reap_ring(false);
  copies_.queue_collected();
  const bool copied = copies_.reap(false);
  if (stored || copied || !wait || !done_.empty()) return stored || copied;
  return storing_count_ > 0 && !copies_.feeds_storage() ? reap_ring(true) : copies_.reap(true);
}

// Returns when the drive and the device are done with all chunks; their completions wait for poll().
void DmabufChannel::drain() {
  while (!broken_ && (storing_count_ > 0 || !copies_.is_idle())) {
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
  if (storing_count_ > 0 && !broken_) (void)ring_->submit();
  unsigned count = 0;
  for (; count < completions.size() && count < done_.size(); ++count) {
    const std::uint32_t index = done_[count];
    const Move& move = moves_[index];
    completions[count] = completion_of(move.chunk, move.status, move.moved, move.cookie);
    completions[count].bounced = moves_[index].ineligible;
    moves_[index].phase = Phase::free;
    free_.push_back(index);
  }
  done_.erase(done_.begin(), done_.begin() + count);
  return count;
}

Completion DmabufChannel::move_and_wait(const RoutedRequest& request, const Chunk& chunk) {
  PENSTOCK_INVARIANT(is_idle());
  submit(request, chunk, 0);
  Completion completion;
  while (poll({&completion, 1}, true) == 0) {
  }
  return completion;
}

// Gives up: operations in flight may still reach the memory, so that it stays as it is.
void DmabufChannel::break_down(Status status) {
  broken_ = true;
  memory_.abandon();
  (void)ring_.release();
  storing_count_ = 0;
  slots_.clear();
  // Such a chunk must not be bounced: its operation may still come, after later ones of the program's.
  for (std::uint32_t i = 0; i < moves_.size(); ++i) {
    if (moves_[i].phase == Phase::storing) finish(i, failure(Code::closed, status.step));
  }
}

}  // namespace penstock::core
