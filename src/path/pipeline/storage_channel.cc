// SPDX-License-Identifier: Apache-2.0

#include "path/pipeline/storage_channel.h"

#include <algorithm>
#include <cerrno>

#include "base/align.h"
#include "base/invariant.h"
#include "base/page_size.h"
#include "base/shortage.h"
#include "path/pipeline/completions.h"
#include "storage/blocking_ring.h"

namespace penstock::core {
namespace {

constexpr unsigned kRetriesMax = 64;  // The most short transfers in a row before a chunk fails.
// Few at a time, as the ring submits few: otherwise a device runs dry while many completions are handled. Random reads
// of 4 KiB, 64 in flight, reached 0.89 of fio's rate with 16, and 0.98 with 8 (virtio disk, 2026-11-21).
constexpr std::size_t kReapMax = 8;
// The bytes that kernels copy at once; see staging_for().
constexpr std::uint64_t kWord = 16;
constexpr std::uint64_t kLongWrite = 64u << 10;  // Shorter ones hold the inode's lock for less time than waking takes.

std::byte* in_place(const RoutedRequest& request, const Chunk& chunk) {
  return request.memory_of(chunk).address() + request.shape.channel_facts.shift;
}

const char* step_of(Op op) { return op == Op::read ? "read from the file" : "write to the file"; }

Status storage_failure(Op op, int error) {
  // The kernel could not reach the memory: it is the caller's, because the library's own is mapped.
  if (error == EFAULT) return failure(Code::bad_pointer, step_of(op));
  return os_failure(error, step_of(op));
}

// True for the errors of a kernel that refuses direct I/O although the alignment that it asked for was kept.
bool means_no_direct_io(int error) { return error == EINVAL || error == EOPNOTSUPP; }

// "Direct I/O collision with buffered writes" in the kernel's log: file systems on iomap answer EIO to a direct read
// that meets a block whose place is not settled yet. The page cache has the bytes; if it is the drive that failed, the
// second read fails, too.
bool may_be_a_collision(Op op, int error) { return op == Op::read && error == EIO; }

// True if the chunk writes a part of a page directly. Another request may be writing the rest through the page cache.
// The kernel keeps the two apart by the inode's lock, which a write holds as long as its caller waits; a write for
// which no caller waits gives up early.
bool shares_a_page(Op op, const Chunk& chunk) {
  return op == Op::write && !is_aligned(chunk.io_offset | chunk.io_size, page_size());
}

}  // namespace

std::uint64_t resume_at(IoMode io_mode, std::uint64_t moved, std::uint32_t file_align) {
  return io_mode == IoMode::o_direct ? align_down(moved, file_align) : moved;
}

StorageChannel::StorageChannel(FileIo& io, const ChannelOptions& options)
    : Channel(this), io_(io), options_(options), staged_(options.device != nullptr), copies_(options.depth, *this) {}

Result<std::unique_ptr<Channel>> StorageChannel::open(FileIo& io, const ChannelOptions& options) {
  PENSTOCK_INVARIANT(options.depth > 0 && options.chunk_max > 0);
  std::unique_ptr<StorageChannel> channel(new StorageChannel(io, options));
  if (channel->staged_) {
    Result<PinnedBlock> block = open_block(options, options.depth * options.chunk_max);
    if (!block.ok()) return block.status();
    channel->block_ = std::move(*block);
    if (const Status status = channel->copies_.open(*options.device); !status.ok()) return status;
  }
  channel->free_.reserve(options.depth);
  channel->done_.reserve(options.depth);
  channel->slots_.resize(options.depth);  // Last: from here on the channel is idle only when all slots are free.
  for (unsigned i = options.depth; i > 0; --i) channel->free_.push_back(i - 1);
  return std::unique_ptr<Channel>(std::move(channel));
}

StorageChannel::~StorageChannel() {
  while (!is_idle() && !is_broken()) {
    Completion ignored[kReapMax];
    (void)poll(ignored, true);
  }
}

Status StorageChannel::open_ring() {
  if (ring_ != nullptr) return success();
  using Opened = Result<std::unique_ptr<Ring>>;
  const auto no_room = [] { return Opened(failure(Code::out_of_memory, "open the channel's submission queue")); };
  Opened ring = unless_short_of_memory([&] { return io_.open_ring(options_.depth); }, no_room);
  if (!ring.ok()) return ring.status();
  ring_ = std::move(*ring);
  // Without registration every transfer pins its pages again, which is slower but correct.
  if (staged_) (void)ring_->register_memory(block_.data(), block_.size());
  return success();
}

void StorageChannel::submit(const RoutedRequest& request, const Chunk& chunk, std::uint64_t cookie) {
  PENSTOCK_INVARIANT(has_room());
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.begin(request, chunk, cookie);
  slot.memory = staged_ ? staging_for(index, request, chunk) : in_place(request, chunk);
  begin(index);
}

void StorageChannel::Slot::begin(const RoutedRequest& its_request, const Chunk& its_chunk, std::uint64_t its_cookie) {
  take(its_request, its_chunk, its_cookie);
  moved = 0;
  retries = 0;
  status = {};
}

// Returns memory that is as far from a whole word as the device memory is, if storage does not mind and there is room:
// the copy between them then goes by words.
std::byte* StorageChannel::staging_for(std::uint32_t index, const RoutedRequest& request, const Chunk& chunk) const {
  std::byte* const start = block_.data() + index * options_.chunk_max;
  const bool anywhere = chunk.io_mode == IoMode::buffered && chunk.io_size + kWord <= options_.chunk_max;
  return anywhere ? start + reinterpret_cast<std::uintptr_t>(request.memory_of(chunk).address()) % kWord : start;
}

Status StorageChannel::prepare(Slot& slot) {
  const Chunk& chunk = slot.chunk;
  PENSTOCK_INVARIANT(chunk.io_size <= options_.chunk_max && chunk.size > 0);
  const Result<int> fd = slot.request->file->descriptor(chunk.io_mode);
  if (fd.ok()) {
    slot.fd = *fd;
    return success();
  }
  const bool beside_direct = slot.request->op == Op::write && chunk.io_mode == IoMode::buffered;
  return beside_direct ? failure(Code::unaligned_write, step_of(Op::write)) : fd.status();
}

void StorageChannel::begin(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (const Status status = prepare(slot); !status.ok()) {
    mark_done(index, status);
  } else if (staged_ && slot.request->op == Op::write) {
    start_copy(index);
  } else {
    start_storage(index);
  }
}

// A move that the page cache can do without waiting is a copy by the CPU. It is done at once, so that the device may
// start on it while the next chunk is copied: io_uring would do it inside the submission, for all chunks together, or
// in a kernel thread. The ring is for moves that wait: direct I/O, and reads of uncached bytes.
void StorageChannel::start_storage(std::uint32_t index) {
  const Slot& slot = slots_[index];
  const bool at_once = slot.chunk.io_mode == IoMode::buffered || shares_a_page(slot.request->op, slot.chunk);
  if (at_once && move_through_page_cache(index)) return;
  if (const Status status = open_ring(); !status.ok()) {
    mark_done(index, status);
  } else {
    push(index);
  }
}

bool StorageChannel::move_through_page_cache(std::uint32_t index) {
  Slot& slot = slots_[index];
  for (;;) {
    const std::int32_t result = slot.request->op == Op::read ? read_if_cached(slot) : write_in_turn(slot);
    if (result == -EAGAIN) return false;
    if (advance(slot, result) == Next::done) break;
  }
  flush(slot);
  after_storage(index);
  return true;
}

// Three ways to transfer the rest of the slot's I/O range on this thread. They return bytes, or a negative errno.
std::int32_t StorageChannel::read(const Slot& slot) {
  const Chunk& chunk = slot.chunk;
  return bytes_or_errno(
      io_.read(slot.fd, slot.memory + slot.moved, chunk.io_size - slot.moved, chunk.io_offset + slot.moved));
}

std::int32_t StorageChannel::read_if_cached(const Slot& slot) {
  const Chunk& chunk = slot.chunk;
  return bytes_or_errno(
      io_.read_if_cached(slot.fd, slot.memory + slot.moved, chunk.io_size - slot.moved, chunk.io_offset + slot.moved));
}

std::int32_t StorageChannel::write_in_turn(const Slot& slot) {
  const Chunk& chunk = slot.chunk;
  const std::uint64_t size = chunk.io_size - slot.moved;
  WriteTurns* const turns =
      chunk.io_mode == IoMode::buffered && size >= kLongWrite ? slot.request->file->write_turns() : nullptr;
  if (turns != nullptr) turns->take();
  const auto written = io_.write(slot.fd, slot.memory + slot.moved, size, chunk.io_offset + slot.moved);
  if (turns != nullptr) turns->give_back();
  return bytes_or_errno(written);
}

// Flushes bytes that are buffered beside direct ones: their page, if written later, would undo what others write.
void StorageChannel::flush(Slot& slot) {
  const Chunk& chunk = slot.chunk;
  if (!chunk.flush || !slot.status.ok()) return;
  slot.status = io_.flush(slot.fd, chunk.io_offset, chunk.io_size);
  if (may_have_lost_bytes(slot.status)) slot.request->file->note_failed_flush();
}

// Gives the rest of the chunk's I/O range to the ring.
void StorageChannel::push(std::uint32_t index) {
  Slot& slot = slots_[index];
  const Chunk& chunk = slot.chunk;
  slot.phase = Phase::storing;
  ++storing_count_;
  if (!staged_) registrations_.keep_memory(*ring_, slot.request->shape.channel_facts);
  ring_->push({.op = slot.request->op,
               .fd = slot.fd,
               .fixed_file = registrations_.number_of(*ring_, slot.request->file->id(), chunk.io_mode, slot.fd),
               .memory = slot.memory + slot.moved,
               .size = static_cast<std::uint32_t>(chunk.io_size - slot.moved),
               .offset = chunk.io_offset + slot.moved,
               .tag = index});
}

bool StorageChannel::at_end_of_file(const Slot& slot) const {
  return ends_by(*slot.request->file, slot.chunk.io_offset + slot.moved);
}

bool StorageChannel::fall_back_to_buffered(Slot& slot, int error) {
  if (options_.o_direct_only || slot.chunk.io_mode != IoMode::o_direct) return false;
  if (!means_no_direct_io(error) && !may_be_a_collision(slot.request->op, error)) return false;
  const Result<int> fd = slot.request->file->descriptor(IoMode::buffered);
  if (!fd.ok()) return false;
  if (means_no_direct_io(error)) slot.request->file->give_up_o_direct();
  slot.chunk.io_mode = IoMode::buffered;
  slot.chunk.flush = slot.request->op == Op::write;
  slot.fd = *fd;
  return true;
}

// Takes the result of one transfer. `again` means that the rest, from slot.moved on, has to be transferred.
StorageChannel::Next StorageChannel::advance(Slot& slot, std::int32_t result) {
  const Chunk& chunk = slot.chunk;
  if (result < 0) {
    if (fall_back_to_buffered(slot, -result)) return Next::again;
    slot.status = storage_failure(slot.request->op, -result);
    return Next::done;
  }
  slot.moved += static_cast<std::uint64_t>(result);
  const std::uint64_t needed = chunk.file_offset - chunk.io_offset + chunk.size;
  if (slot.moved >= needed) return Next::done;
  if (slot.request->op == Op::read && (result == 0 || at_end_of_file(slot))) return Next::done;
  if (++slot.retries > kRetriesMax) {
    slot.status = failure(Code::no_progress, step_of(slot.request->op));
    return Next::done;
  }
  slot.moved = resume_at(chunk.io_mode, slot.moved, slot.request->file->facts().direct_offset_align);
  return Next::again;
}

void StorageChannel::on_stored(std::uint32_t index, std::int32_t result) {
  --storing_count_;
  if (advance(slots_[index], result) == Next::again) {
    push(index);
  } else {
    after_storage(index);
  }
}

void StorageChannel::after_storage(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (!slot.status.ok() || !staged_ || slot.request->op == Op::write || payload_moved(slot.chunk, slot.moved) == 0) {
    mark_done(index, slot.status);
  } else {
    start_copy(index);
  }
}

// The bytes that are copied between the slot and the device, in either direction.
StagedCopies::SlotCopy StorageChannel::copy_of(const Slot& slot) const {
  const Chunk& chunk = slot.chunk;
  return {.op = slot.request->op,
          .memory = slot.request->memory_of(slot.chunk),
          .host = slot.memory + (chunk.file_offset - chunk.io_offset),
          .size = slot.request->op == Op::read ? payload_moved(slot.chunk, slot.moved) : chunk.size};
}

void StorageChannel::start_copy(std::uint32_t index) {
  Slot& slot = slots_[index];
  slot.phase = Phase::copying;
  copies_.add(index, copy_of(slot));
}

// All that end behind the first failure tell of it: whichever counts for its request has the device's error.
void StorageChannel::on_copied(std::uint32_t index, const Status& status) {
  if (!is_broken()) broken_by_ = status;
  if (!is_broken() && slots_[index].request->op == Op::write) start_storage(index);
  else mark_done(index, broken_by_);
}

Status StorageChannel::copy_and_wait(const Slot& slot) {
  const Status status = copies_.copy_and_wait(copy_of(slot));
  if (!status.ok()) broken_by_ = status;  // It may still be under way.
  return status;
}

void StorageChannel::mark_done(std::uint32_t index, Status status) {
  Slot& slot = slots_[index];
  slot.status = status;
  slot.phase = Phase::done;
  done_.push_back(index);
}

bool StorageChannel::reap_ring(bool wait) {
  if (storing_count_ == 0) return false;
  RingCompletion completions[kReapMax];
  const Result<unsigned> count = ring_->reap(completions, wait);
  if (!count.ok()) {
    break_down(count.status());
    return true;
  }
  for (unsigned i = 0; i < *count; ++i) on_stored(completions[i].tag, completions[i].result);
  return *count > 0;
}

bool StorageChannel::only_storage_is_busy() const { return storing_count_ > 0 && copies_.is_idle(); }

// Makes one round. Waits, if asked to, for the side that feeds the other: copies for writes, storage for reads.
bool StorageChannel::step(bool wait) {
  if (wait && only_storage_is_busy()) return reap_ring(true);
  const bool stored = reap_ring(false);
  copies_.queue_collected();
  const bool copied = copies_.reap(false);
  if (stored || copied || !wait || !done_.empty()) return stored || copied;
  return storing_count_ > 0 && !copies_.feeds_storage() ? reap_ring(true) : copies_.reap(true);
}

unsigned StorageChannel::poll(std::span<Completion> completions, bool wait) {
  copies_.queue_collected();
  while (done_.empty() && !is_idle()) {
    if (!step(wait) && !wait) break;
  }
  copies_.queue_collected();
  // Writes whose copies have just ended are pushed by now: this starts them before the caller turns away.
  if (storing_count_ > 0) (void)ring_->submit();
  unsigned count = 0;
  for (; count < completions.size() && count < done_.size(); ++count) {
    const std::uint32_t index = done_[count];
    Slot& slot = slots_[index];
    completions[count] = completion_of(slot.chunk, slot.status, slot.moved, slot.cookie);
    slot.phase = Phase::free;
    free_.push_back(index);
  }
  done_.erase(done_.begin(), done_.begin() + count);
  return count;
}

// Gives up after the ring has failed, which has none of its operations under way.
void StorageChannel::break_down(Status status) {
  if (!is_broken()) broken_by_ = status;
  ring_.reset();
  storing_count_ = 0;
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].phase == Phase::storing) mark_done(i, status);
  }
}

// Uses no ring and no second thread: the calling thread makes the transfer itself.
Completion StorageChannel::move_and_wait(const RoutedRequest& request, const Chunk& chunk) {
  PENSTOCK_INVARIANT(is_idle());
  Slot& slot = slots_[0];
  slot.begin(request, chunk, 0);
  slot.memory = staged_ ? block_.data() : in_place(request, chunk);
  slot.status = prepare(slot);
  if (slot.status.ok() && staged_ && request.op == Op::write) slot.status = copy_and_wait(slot);
  while (slot.status.ok()) {
    if (advance(slot, request.op == Op::read ? read(slot) : write_in_turn(slot)) == Next::done) break;
  }
  flush(slot);
  if (slot.status.ok() && staged_ && request.op == Op::read && payload_moved(slot.chunk, slot.moved) > 0)
    slot.status = copy_and_wait(slot);
  slot.phase = Phase::free;
  return completion_of(slot.chunk, slot.status, slot.moved);
}

void StorageChannel::forget_memory(std::byte* kept) { registrations_.forget_memory(ring_.get(), kept); }

void StorageChannel::forget_file(std::uint64_t file_id) { registrations_.forget_file(ring_.get(), file_id); }

}  // namespace penstock::core
