// SPDX-License-Identifier: Apache-2.0

#include "path/pagecache/pagecache_channel.h"

#include <algorithm>
#include <cerrno>

#include "base/invariant.h"

namespace penstock::core {
namespace {

constexpr const char* kStep = "move bytes between the file's pages and the device";
constexpr std::uint64_t kSmall = 64u << 10;

Status stale() { return os_failure(ESTALE, kStep); }

}  // namespace

PagecacheChannel::PagecacheChannel(RegistrationCache& cache, const ChannelOptions& options)
    : Channel(this), cache_(cache), options_(options), slots_(options.depth),
      batch_(kExtentsMax * std::size_t{options.depth}) {
  for (Launch& each : launches_) {
    each.copies.reserve(kExtentsMax * std::size_t{options.depth});
    each.slots.reserve(options.depth);
  }
  for (std::vector<std::uint32_t>* line : {&free_, &waiting_, &copying_, &done_}) line->reserve(options.depth);
  for (unsigned i = options.depth; i > 0; --i) free_.push_back(i - 1);
}

Result<std::unique_ptr<Channel>> PagecacheChannel::open(RegistrationCache& cache, const ChannelOptions& options) {
  PENSTOCK_INVARIANT(options.depth > 0 && options.device != nullptr);
  std::unique_ptr<PagecacheChannel> channel(new PagecacheChannel(cache, options));
  Result<std::unique_ptr<CopyQueue>> copies = options.device->open_copy_queue(options.depth);
  if (!copies.ok()) return copies.status();
  channel->copies_ = std::move(*copies);
  return std::unique_ptr<Channel>(std::move(channel));
}

// Closing the queue waits for its copies; only then may extents be released.
PagecacheChannel::~PagecacheChannel() {
  copies_.reset();
  for (Slot& slot : slots_) release_extents(slot);
}

void PagecacheChannel::Slot::begin(const RoutedRequest& its_request, const Chunk& its_chunk, std::uint64_t its_cookie) {
  take(its_request, its_chunk, its_cookie);
  file = static_cast<CachedFile*>(request->shape.channel_facts.file_state);
  extent_count = 0;
  bytes = 0;
  status = success();
}

bool PagecacheChannel::hold_extents(Slot& slot) {
  const Chunk& chunk = slot.chunk;
  PENSTOCK_INVARIANT(chunk.size > 0 && chunk.size <= kChunkMax);
  const auto [first, last] = Extent::range_of(chunk.file_offset, chunk.size);
  for (std::uint64_t index = first; index <= last; ++index) {
    Extent* const extent = slot.file->find(index);
    if (extent == nullptr || !extent->hold(cache_.now())) return false;
    slot.extents[slot.extent_count++] = extent;
    if (slot.request->op == Op::write && !extent->writable()) return false;
  }
  return true;
}

void PagecacheChannel::release_extents(Slot& slot) {
  for (unsigned i = 0; i < slot.extent_count; ++i) slot.extents[i]->release();
  slot.extent_count = 0;
}

// The file's stamp, read once per pass over the slots for all slots of a file. If reading fails, the file counts as
// empty: then nothing is fetched, and the bouncing channel reports the error.
const FileStamp& PagecacheChannel::stamp_of(File& file) {
  if (stamped_ == &file) return stamp_;
  const Result<FileStamp> stamp = file.stamp();
  stamped_ = &file;
  stamp_ = stamp.ok() ? *stamp : FileStamp{};
  return stamp_;
}

// Finds the chunk's bytes in the held extents; an extent ends where the file ended when it was registered.
void PagecacheChannel::find_copies(Slot& slot) {
  std::vector<Found>& copies = launches_[static_cast<unsigned>(slot.request->op)].copies;
  const Chunk& chunk = slot.chunk;
  std::uint64_t at = chunk.file_offset;
  // Copies nothing past the file's end, which may be within a page: the rest of the buffer must not change.
  const std::uint64_t wanted_end = std::min(at + chunk.size, stamp_of(*slot.request->file).size);
  for (unsigned i = 0; i < slot.extent_count; ++i) {
    const Extent& extent = *slot.extents[i];
    const std::uint64_t end = std::min(wanted_end, extent.end());
    if (at >= end) break;
    copies.push_back(
        {slot.request->memory.after(chunk.buffer_offset + at - chunk.file_offset), extent.at(at), end - at});
    at = end;
  }
  slot.bytes = at - chunk.file_offset;
}

// On failure nothing is held. A write moves as a whole or not at all.
Status PagecacheChannel::start(Slot& slot) {
  if (is_broken()) return broken_by_;
  std::vector<Found>& copies = launches_[static_cast<unsigned>(slot.request->op)].copies;
  const std::size_t before = copies.size();
  const bool held = hold_extents(slot);
  if (held) find_copies(slot);
  if (slot.bytes > 0 && (slot.request->op == Op::read || slot.bytes == slot.chunk.size)) return success();
  copies.resize(before);
  // If a file has grown past its last extent, that extent would stay short for good.
  const bool has_grown = held && slot.bytes == 0 && stamp_of(*slot.request->file).size > slot.chunk.file_offset;
  Extent* const first = slot.extents[0];
  release_extents(slot);
  if (has_grown) cache_.evict(*first);
  return stale();
}

// Launches all found copies, followed by one marker.
void PagecacheChannel::launch(Op op) {
  auto& [copies, slots] = launches_[static_cast<unsigned>(op)];
  if (slots.empty()) return;
  const unsigned marker = slots.back();
  Status status = broken_by_;
  for (const Found& found : copies) {
    if (status.ok()) status = batch_.add(*copies_, direction_of(op), found.memory, found.pages, found.size);
  }
  if (status.ok()) status = batch_.queue_all(*copies_, direction_of(op));
  if (status.ok()) status = copies_->record(marker);
  for (const std::uint32_t index : slots) {
    slots_[index].marker = marker;
    slots_[index].status = status;
    (status.ok() ? copying_ : done_).push_back(index);
  }
  slots.clear();
  copies.clear();
  if (!status.ok()) break_off(status);
}

// A copy has failed. This waits for what was launched before it, and closing the queue waits for the rest, so that no
// copy is in flight. No slot may hold an extent behind its completion: its file may be forgotten before this channel.
void PagecacheChannel::break_off(Status status) {
  if (broken_by_.ok()) broken_by_ = status;
  while (!copying_.empty()) {
    const unsigned marker = slots_[copying_.front()].marker;
    land(marker, copies_->wait(marker, false));
  }
  copies_.reset();
  for (const std::uint32_t index : done_) release_extents(slots_[index]);
}

// After the copies: determines how much moved, and whether the pages were the file's all the time.
void PagecacheChannel::verify(Slot& slot) {
  const Chunk& chunk = slot.chunk;
  const std::uint64_t end = chunk.file_offset + slot.bytes;
  const FileStamp& stamp = stamp_of(*slot.request->file);
  for (unsigned i = 0; i < slot.extent_count; ++i) {
    Extent& extent = *slot.extents[i];
    const std::uint64_t first = std::max(chunk.file_offset, extent.begin());
    const std::uint64_t last = std::min(end, extent.end());
    if (first >= last || cache_.watch().are_of_file(*slot.file, extent, first, last - first, stamp)) continue;
    slot.status = stale();
  }
  // The file may be shorter now, or longer than its extents. Bytes written past the end are not part of the file, and
  // would appear if it grew again: so the chunk is refused and written again.
  const std::uint64_t file_end = stamp.size;
  if (file_end < end && slot.request->op == Op::write) slot.status = stale();
  else if (file_end < end) slot.bytes = file_end > chunk.file_offset ? file_end - chunk.file_offset : 0;
  else if (slot.bytes < chunk.size && file_end > end) slot.status = stale();
  if (slot.status.ok() && slot.request->op == Op::write) mark_changed(*slot.request->file);
  const std::array<Extent*, kExtentsMax> extents = slot.extents;
  const unsigned count = slot.extent_count;
  release_extents(slot);
  if (slot.status.ok()) return;
  for (unsigned i = 0; i < count; ++i) cache_.evict(*extents[i]);
}

// Sets the file's change time, as a write would; once per pass.
void PagecacheChannel::mark_changed(File& file) {
  if (changed_ == &file) return;
  changed_ = &file;
  file.mark_changed();
}

void PagecacheChannel::submit(const RoutedRequest& request, const Chunk& chunk, std::uint64_t cookie) {
  PENSTOCK_INVARIANT(has_room());
  const std::uint32_t index = free_.back();
  free_.pop_back();
  slots_[index].begin(request, chunk, cookie);
  waiting_.push_back(index);
  // Small chunks are launched together, at the next poll.
  if (chunk.size > kSmall) fetch_waiting();
}

void PagecacheChannel::register_extents(const Slot& slot) {
  const auto [first, last] = Extent::range_of(slot.chunk.file_offset, slot.chunk.size);
  for (std::uint64_t index = first; index <= last; ++index) cache_.register_now(*slot.file, index);
}

// Starts the copies of all waiting slots. Extents are registered here, too, while earlier copies go on: from another
// thread, the driver's lock would keep the copies waiting (36 in place of 50 GB/s on an H200 machine).
void PagecacheChannel::fetch_waiting() {
  begin_pass();
  for (const std::uint32_t index : waiting_) {
    Slot& slot = slots_[index];
    if (slot.request->shape.channel_facts.registers_first && !is_broken()) register_extents(slot);
    slot.status = start(slot);
    (slot.status.ok() ? launches_[static_cast<unsigned>(slot.request->op)].slots : done_).push_back(index);
  }
  waiting_.clear();
  launch(Op::read);
  launch(Op::write);
}

bool PagecacheChannel::reap(bool wait) {
  bool progress = false;
  while (!copying_.empty()) {
    const unsigned marker = slots_[copying_.front()].marker;
    Status status;
    if (wait && !progress) {
      status = copies_->wait(marker, false);
    } else {
      const Result<bool> reached = copies_->reached(marker);
      if (reached.ok() && !*reached) break;
      status = reached.status();
    }
    land(marker, status);
    if (!status.ok()) break_off(status);
    progress = true;
  }
  return progress;
}

// Completes the slots whose copies are before the marker.
void PagecacheChannel::land(unsigned marker, Status status) {
  begin_pass();
  const auto behind = [&](std::uint32_t index) { return slots_[index].marker != marker; };
  const auto end = std::find_if(copying_.begin(), copying_.end(), behind);
  for (auto each = copying_.begin(); each != end; ++each) {
    Slot& slot = slots_[*each];
    slot.status = status;
    if (status.ok()) verify(slot);
    done_.push_back(*each);
  }
  copying_.erase(copying_.begin(), end);
}

unsigned PagecacheChannel::poll(std::span<Completion> completions, bool wait) {
  fetch_waiting();
  while (done_.empty() && !is_idle()) {
    if (!reap(wait)) break;
  }
  const auto count = static_cast<unsigned>(std::min(completions.size(), done_.size()));
  for (unsigned i = 0; i < count; ++i) {
    completions[i] = completion_of(slots_[done_[i]]);
    free_.push_back(done_[i]);
  }
  done_.erase(done_.begin(), done_.begin() + count);
  return count;
}

Completion PagecacheChannel::completion_of(const Slot& slot) const {
  return {.cookie = slot.cookie,
          .file_offset = slot.chunk.file_offset,
          .size = slot.chunk.size,
          .bytes = slot.status.ok() ? slot.bytes : 0,
          .status = slot.status,
          .io_mode = slot.chunk.io_mode};
}

Status PagecacheChannel::copy_found_and_wait(Op op) {
  std::vector<Found>& copies = launches_[static_cast<unsigned>(op)].copies;
  Status status;
  for (const Found& found : copies) {
    if (status.ok()) status = copy_and_wait(*copies_, batch_, op, found.memory, found.pages, found.size);
  }
  copies.clear();
  return status;
}

Completion PagecacheChannel::move_and_wait(const RoutedRequest& request, const Chunk& chunk) {
  PENSTOCK_INVARIANT(is_idle());
  Slot& slot = slots_[0];
  slot.begin(request, chunk, 0);
  if (request.shape.channel_facts.registers_first) register_extents(slot);
  begin_pass();
  slot.status = start(slot);
  if (slot.status.ok()) {
    slot.status = copy_found_and_wait(request.op);
    begin_pass();
    if (slot.status.ok()) {
      verify(slot);
    } else {
      break_off(slot.status);
      release_extents(slot);
    }
  }
  return completion_of(slot);
}

}  // namespace penstock::core
