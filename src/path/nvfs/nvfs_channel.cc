// SPDX-License-Identifier: Apache-2.0

#include "path/nvfs/nvfs_channel.h"

#include <algorithm>
#include <cerrno>
#include <thread>

#include "base/align.h"
#include "path/nvfs/nvfs_path.h"

namespace penstock::core {
namespace {

using nvfs::kBlock;

constexpr const char* kStep = "move bytes by nvidia-fs";
constexpr unsigned kLooksMax = 512;  // Before it naps.
constexpr auto kNap = std::chrono::microseconds(20);

std::uint64_t piece_max(const ChannelOptions& options) {
  return std::min(align_up(options.chunk_max, nvfs::kGpuPage), NvfsChannel::kPieceMax);
}

}  // namespace

std::uint64_t NvfsChannel::shadow_bytes(const ChannelOptions& options) { return options.depth * piece_max(options); }

Result<std::unique_ptr<Channel>> NvfsChannel::open(NvfsPath& path, Storage& storage, const ChannelOptions& options,
                                                   bool strict) {
  std::unique_ptr<NvfsChannel> channel(new NvfsChannel(path, storage, options, strict));
  Result<std::unique_ptr<CopyQueue>> copies = options.device->open_copy_queue(options.depth);
  if (!copies.ok()) return copies.status();
  channel->copies_ = std::move(*copies);
  return std::unique_ptr<Channel>(std::move(channel));
}

NvfsChannel::NvfsChannel(NvfsPath& path, Storage& storage, const ChannelOptions& options, bool strict)
    : path_(path), storage_(storage), device_(*options.device), options_(options), strict_(strict),
      slots_(options.depth) {
  free_.reserve(options.depth);
  for (unsigned i = options.depth; i > 0; --i) free_.push_back(i - 1);
}

// ---- A chunk -------------------------------------------------------------------------------------------------------

void NvfsChannel::begin(std::uint32_t index, const Task& task) {
  Slot& slot = slots_[index];
  slot.task = task;
  slot.moved = slot.piece = slot.came = 0;
  slot.retries = 0;
  slot.bounced = Reason::none;
  slot.status = success();
  if (const Status status = choose_memory(slot); !status.ok()) finish(index, status);
  else next_piece(index);
}

// In place: the payload is all that is moved, on a block's boundary of memory that is registered. A read there would
// fill the file's last block behind its end, in memory that is not ours.
Status NvfsChannel::choose_memory(Slot& slot) {
  const Chunk& chunk = slot.task.chunk;
  const auto address = reinterpret_cast<std::uintptr_t>(slot.task.memory.address());
  const bool is_whole = chunk.io_offset == chunk.file_offset && chunk.io_size == chunk.size &&
                        is_aligned(address | chunk.size, kBlock) && !slot.task.memory.is_in_pieces();
  if (is_whole && (slot.task.op == Op::write || lies_in_file(slot))) {
    slot.in_place = path_.buffers().borrow(path_.module(), device_, address, chunk.size);
  }
  if (slot.in_place) return success();
  if (slot.own != nullptr && slot.own->group().is_broken()) slot.own.reset();
  if (slot.own != nullptr) return success();
  Result<std::unique_ptr<OwnMemory>> own = OwnMemory::open(path_.module(), device_, piece_max(options_));
  if (!own.ok()) return own.status();
  slot.own = std::move(*own);
  return success();
}

bool NvfsChannel::lies_in_file(const Slot& slot) {
  const Result<std::uint64_t> size = storage_.size(slot.task.file->own_descriptor());
  return size.ok() && slot.task.chunk.file_offset + slot.task.chunk.size <= *size;
}

void NvfsChannel::next_piece(std::uint32_t index) {
  Slot& slot = slots_[index];
  const std::uint64_t left = slot.task.chunk.io_size - slot.moved;
  if (slot.in_place) {
    const auto address = reinterpret_cast<std::uintptr_t>(slot.task.memory.address()) + slot.moved;
    slot.piece = group_of(slot).fit(slot.in_place.offset_of(address), left);
  } else {
    slot.piece = group_of(slot).fit(0, left);
  }
  if (slot.in_place || slot.task.op == Op::read) return start_move(index);
  const Status status = copy_in(index);
  if (status.ok()) slot.phase = Phase::copying;
  else finish(index, status);
}

NvfsRequest NvfsChannel::request_of(const Slot& slot, int fd) const {
  const auto address = reinterpret_cast<std::uintptr_t>(slot.task.memory.address()) + slot.moved;
  return {.op = slot.task.op,
          .file = NvfsFile::of(fd, slot.task.file->facts()),
          .file_offset = slot.task.chunk.io_offset + slot.moved,
          .gpu_offset = slot.in_place ? slot.in_place.offset_of(address) : 0,
          .size = slot.piece};
}

void NvfsChannel::start_move(std::uint32_t index) {
  Slot& slot = slots_[index];
  const Result<int> fd = slot.task.file->descriptor(Way::direct);
  if (!fd.ok()) return finish(index, fd.status());
  const NvfsRequest request = request_of(slot, *fd);
  slot.phase = Phase::moving;
  if (is_sync_) return on_moved(index, group_of(slot).run(request));
  if (const Status status = group_of(slot).start(request); !status.ok()) finish(index, status);
}

void NvfsChannel::on_moved(std::uint32_t index, const NvfsAnswer& answer) {
  Slot& slot = slots_[index];
  if (!answer.status.ok()) return finish(index, answer.status);
  if (slot.task.op == Op::read) return on_read(index, answer);
  // Nothing was written, and no error told: the driver below does not ask the module. The file may hold the shadow
  // buffer's bytes by now; the bounce that follows writes the right ones.
  if (answer.bytes == 0) return finish(index, os_failure(EREMOTEIO, kStep));
  advance(index, answer.bytes);
}

void NvfsChannel::on_read(std::uint32_t index, const NvfsAnswer& answer) {
  Slot& slot = slots_[index];
  slot.came = answer.bytes;
  if (slot.came == 0) return finish(index, success());
  Status status = answer.hole_count > 0 ? repair(slot, answer) : success();
  // What other devices have written is to be seen by whatever the device does next.
  if (status.ok() && answer.hole_bytes < slot.came) status = device_.settle_peer_writes();
  const bool is_copied = !slot.in_place || answer.hole_count > 0;
  if (status.ok() && !slot.in_place) status = copy_out(index);
  if (status.ok() && is_copied) status = copies_->record(index);
  if (!status.ok()) return finish(index, status);
  if (is_copied) slot.phase = Phase::copying;
  else advance(index, slot.came);
}

// The kernel has left these bytes in the shadow buffer: a CPU moved them there, and the device fetches them. Where the
// file has data there, its driver does not go by the module, and no byte of it is to be sent that way again.
Status NvfsChannel::repair(Slot& slot, const NvfsAnswer& answer) {
  if (strict_) return failure(Code::path_refused, kStep);
  slot.bounced = path_.take_in_holes(options_.device, *slot.task.file, slot.task.chunk.io_offset + slot.moved, answer,
                                     group_of(slot));
  std::byte* const to = slot.in_place ? slot.task.memory.address() + slot.moved : slot.own->data();
  Status status;
  for (unsigned i = 0; i < answer.hole_count && status.ok(); ++i) {
    const NvfsHole hole = group_of(slot).hole(i);
    if (hole.offset >= answer.bytes) continue;
    status = copies_->copy_to_device(to + hole.offset, hole.seen, std::min(hole.bytes, answer.bytes - hole.offset));
  }
  return status;
}

// The payload of what came, from our memory to the user's.
Status NvfsChannel::copy_out(std::uint32_t index) {
  const Slot& slot = slots_[index];
  const std::uint64_t begin = std::max(slot.moved, skipped(slot));
  const std::uint64_t end = std::min(slot.moved + slot.came, skipped(slot) + slot.task.chunk.size);
  if (end <= begin) return success();
  const std::byte* from = slot.own->data() + (begin - slot.moved);
  Status status;
  slot.task.memory.after(begin - skipped(slot)).each_place(end - begin, [&](std::byte* to, std::uint64_t bytes) {
    if (status.ok()) status = copies_->copy_on_device(to, from, bytes);
    from += bytes;
  });
  return status;
}

// A write's chunk is not widened.
Status NvfsChannel::copy_in(std::uint32_t index) {
  const Slot& slot = slots_[index];
  std::byte* to = slot.own->data();
  Status status;
  slot.task.memory.after(slot.moved).each_place(slot.piece, [&](std::byte* from, std::uint64_t bytes) {
    if (status.ok()) status = copies_->copy_on_device(to, from, bytes);
    to += bytes;
  });
  return status.ok() ? copies_->record(index) : status;
}

bool NvfsChannel::is_at_end(const Slot& slot) const {
  const Result<std::uint64_t> size = storage_.size(slot.task.file->own_descriptor());
  return size.ok() && slot.task.chunk.io_offset + slot.moved >= *size;
}

void NvfsChannel::advance(std::uint32_t index, std::uint64_t bytes) {
  Slot& slot = slots_[index];
  const bool is_short = bytes < slot.piece;
  slot.moved += bytes;
  slot.retries = is_short ? slot.retries + 1 : 0;
  if (slot.moved >= skipped(slot) + slot.task.chunk.size) return finish(index, success());
  if (is_short && slot.task.op == Op::read && is_at_end(slot)) return finish(index, success());
  if (slot.retries > kRetriesMax) return finish(index, failure(Code::no_progress, kStep));
  slot.moved = align_down(slot.moved, kBlock);
  next_piece(index);
}

void NvfsChannel::finish(std::uint32_t index, const Status& status) {
  Slot& slot = slots_[index];
  slot.status = status;
  slot.phase = Phase::done;
  slot.in_place.give_back();
}

// ---- Many of them --------------------------------------------------------------------------------------------------

// True where something happened.
bool NvfsChannel::step(std::uint32_t index) {
  Slot& slot = slots_[index];
  if (slot.phase == Phase::moving) {
    NvfsAnswer answer;
    if (!group_of(slot).poll(answer)) return false;
    on_moved(index, answer);
    return true;
  }
  if (slot.phase != Phase::copying) return false;
  const Result<bool> reached = copies_->reached(index);
  if (reached.ok() && !*reached) return false;
  if (!reached.ok()) {
    is_broken_ = true;  // It may still be under way: its memory is not safe to use again.
    finish(index, reached.status());
  } else if (slot.task.op == Op::read) {
    advance(index, slot.came);
  } else {
    start_move(index);
  }
  return true;
}

void NvfsChannel::submit(const Task& task) {
  PENSTOCK_INVARIANT(has_room());
  const std::uint32_t index = free_.back();
  free_.pop_back();
  begin(index, task);
}

void NvfsChannel::look_at_all(bool& progress) {
  for (std::uint32_t i = 0; i < slots_.size(); ++i) progress = step(i) || progress;
}

unsigned NvfsChannel::poll(std::span<Completion> completions, bool wait) {
  for (unsigned looks = 0;; ++looks) {
    bool progress = false;
    look_at_all(progress);
    unsigned count = 0;
    for (std::uint32_t i = 0; i < slots_.size() && count < completions.size(); ++i) {
      if (slots_[i].phase != Phase::done) continue;
      completions[count++] = completion_of(slots_[i]);
      slots_[i].phase = Phase::free;
      free_.push_back(i);
    }
    if (count > 0 || !wait || is_idle() || completions.empty()) return count;
    if (!progress && looks > kLooksMax) std::this_thread::sleep_for(kNap);
  }
}

// The calls return when all is over, which costs less than looking at the fence page.
Completion NvfsChannel::run(const Task& task) {
  PENSTOCK_INVARIANT(is_idle());
  is_sync_ = true;
  begin(0, task);
  while (slots_[0].phase == Phase::copying) {
    if (const Status status = copies_->wait(0, true); !status.ok()) {
      is_broken_ = true;
      finish(0, status);
    } else {
      (void)step(0);
    }
  }
  is_sync_ = false;
  slots_[0].phase = Phase::free;
  return completion_of(slots_[0]);
}

Completion NvfsChannel::completion_of(const Slot& slot) const {
  const Chunk& chunk = slot.task.chunk;
  const std::uint64_t payload = slot.moved <= skipped(slot) ? 0 : std::min(slot.moved - skipped(slot), chunk.size);
  return {.cookie = slot.task.cookie,
          .file_offset = chunk.file_offset,
          .size = chunk.size,
          .bytes = slot.status.ok() ? payload : 0,
          .status = slot.status,
          .way = chunk.way,
          .bounced = slot.bounced};
}

}  // namespace penstock::core
