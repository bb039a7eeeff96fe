// SPDX-License-Identifier: Apache-2.0

#include "path/pipeline/fallback_channel.h"

#include <algorithm>
#include <cerrno>

#include "base/invariant.h"
#include "base/shortage.h"
#include "path/pipeline/storage_channel.h"

namespace penstock::core {
namespace {

constexpr unsigned kCollisionsMax = 8;
constexpr const char* kStep = "move bytes directly between storage and device memory";

}  // namespace

FallbackChannel::FallbackChannel(PreferredTerms& terms, FileIo& io, std::unique_ptr<Channel> preferred,
                                 const ChannelOptions& options, bool strict)
    : Channel(this), terms_(terms), io_(io), options_(options), strict_(strict), preferred_(std::move(preferred)),
      slots_(options.depth) {
  free_.reserve(options.depth);
  failed_.reserve(options.depth);
  for (unsigned i = options.depth; i > 0; --i) free_.push_back(i - 1);
}

Result<Channel*> FallbackChannel::bounce() {
  if (strict_) return failure(Code::path_refused, kStep);
  if (bounce_ == nullptr) {
    using Opened = Result<std::unique_ptr<Channel>>;
    const auto no_room = [] { return Opened(failure(Code::out_of_memory, kStep)); };
    Opened channel = unless_short_of_memory([&] { return StorageChannel::open(io_, options_); }, no_room);
    if (!channel.ok()) return channel.status();
    bounce_ = std::move(*channel);
  }
  return bounce_.get();
}

void FallbackChannel::submit(const RoutedRequest& request, const Chunk& chunk, std::uint64_t cookie) {
  PENSTOCK_INVARIANT(has_room());
  const std::uint32_t index = free_.back();
  free_.pop_back();
  Slot& slot = slots_[index];
  slot.take(request, chunk, cookie);
  slot.bounced = reason_to_bounce(request, chunk);
  slot.refusal = 0;
  slot.bounced_bytes = 0;
  if (slot.bounced != Reason::none) start_bounce(index);
  else preferred_->submit(request, chunk, index);
}

// The request that breaks the preferred channel may have more chunks.
Reason FallbackChannel::reason_to_bounce(const RoutedRequest& request, const Chunk& chunk) {
  return preferred_->is_broken() ? terms_.late_reason() : terms_.ineligible(request, chunk);
}

void FallbackChannel::start_bounce(std::uint32_t index) {
  const Result<Channel*> channel = bounce();
  if (!channel.ok() || (*channel)->is_broken()) {
    failed_.push_back({index, channel.ok() ? (*channel)->hooks().broken_by() : channel.status()});
    return;
  }
  (*channel)->submit(*slots_[index].request, next_part(slots_[index]), index);
}

// The next of a chunk's bytes that the bouncing channel takes together: nearly always all of them.
Chunk FallbackChannel::next_part(const Slot& slot) const {
  Chunk part = slot.chunk;
  if (part.io_size <= options_.chunk_max) return part;
  PENSTOCK_INVARIANT(part.io_mode == IoMode::buffered);
  part.file_offset += slot.bounced_bytes;
  part.buffer_offset += slot.bounced_bytes;
  part.size = std::min(part.size - slot.bounced_bytes, options_.chunk_max);
  part.io_offset = part.file_offset;
  part.io_size = part.size;
  return part;
}

// True if the chunk continues. Otherwise the completion becomes that of the whole chunk.
bool FallbackChannel::takes_next_part(std::uint32_t index, Completion& completion) {
  Slot& slot = slots_[index];
  const bool whole = completion.status.ok() && completion.bytes == completion.size;
  slot.bounced_bytes += completion.bytes;
  if (whole && slot.bounced_bytes < slot.chunk.size) {
    start_bounce(index);
    return true;
  }
  completion.file_offset = slot.chunk.file_offset;
  completion.size = slot.chunk.size;
  completion.bytes = slot.bounced_bytes;
  return false;
}

Completion FallbackChannel::failure_of(const Slot& slot, Status status) const {
  const Chunk& chunk = slot.chunk;
  return {.cookie = slot.cookie,
          .file_offset = chunk.file_offset,
          .size = chunk.size,
          .status = status,
          .io_mode = chunk.io_mode,
          .bounced = slot.bounced};
}

void FallbackChannel::release(std::uint32_t index, Completion& completion) {
  completion.cookie = slots_[index].cookie;
  if (slots_[index].bounced != Reason::none) completion.bounced = slots_[index].bounced;
  free_.push_back(index);
}

// The reason to bounce what the preferred channel has completed so; none if that is the end.
Reason FallbackChannel::reason_after(Slot& slot, const Completion& completion) {
  if (slot.request->op == Op::read && completion.status.ok()) collisions_ = 0;
  if (completion.status.is(Code::path_refused) && completion.bounced != Reason::none) return completion.bounced;
  slot.refusal = terms_.refusal_errno(completion.status);
  return slot.refusal != 0 ? terms_.late_reason() : Reason::none;
}

// Remembers a refusal. If direct I/O into host memory failed as well, it was no refusal of this memory but, for
// example, a drive's read error. And a read may end with EIO when it met a buffered write: only if no read gets through
// is that a refusal.
void FallbackChannel::remember(const Slot& slot, const Completion& completion) {
  const bool as_asked = completion.status.ok() && completion.io_mode == slot.chunk.io_mode;
  if (slot.refusal == EIO && slot.request->op == Op::read && ++collisions_ < kCollisionsMax) return;
  if (slot.refusal != 0 && as_asked) {
    terms_.refuse_late(options_.device, *slot.request->file, slot.request->op, slot.refusal);
  }
}

// Completes the chunks that could not even start.
unsigned FallbackChannel::take_failed(std::span<Completion> completions) {
  unsigned count = 0;
  for (; count < completions.size() && !failed_.empty(); ++count) {
    const Failed failed = failed_.back();
    failed_.pop_back();
    completions[count] = failure_of(slots_[failed.index], failed.status);
    release(failed.index, completions[count]);
  }
  return count;
}

// Reaps the preferred channel. Chunks that the kernel refused go to the other channel instead of into `completions`.
unsigned FallbackChannel::reap_preferred(std::span<Completion> completions, bool wait) {
  const unsigned reaped = preferred_->poll(completions, wait);
  unsigned count = 0;
  for (unsigned i = 0; i < reaped; ++i) {
    Completion& completion = completions[i];
    const auto index = static_cast<std::uint32_t>(completion.cookie);
    Slot& slot = slots_[index];
    slot.bounced = reason_after(slot, completion);
    if (slot.bounced != Reason::none) {
      start_bounce(index);
      continue;
    }
    release(index, completion);
    if (count != i) completions[count] = completion;
    ++count;
  }
  return count;
}

unsigned FallbackChannel::reap_bounced(std::span<Completion> completions, bool wait) {
  if (bounce_ == nullptr) return 0;
  const unsigned reaped = bounce_->poll(completions, wait);
  unsigned count = 0;
  for (unsigned i = 0; i < reaped; ++i) {
    Completion completion = completions[i];
    const auto index = static_cast<std::uint32_t>(completion.cookie);
    if (takes_next_part(index, completion)) continue;
    remember(slots_[index], completion);
    release(index, completion);
    completions[count++] = completion;
  }
  return count;
}

unsigned FallbackChannel::poll(std::span<Completion> completions, bool wait) {
  if (completions.empty()) return 0;
  unsigned count = 0;
  do {
    count += take_failed(completions.subspan(count));
    count += reap_preferred(completions.subspan(count), false);
    count += reap_bounced(completions.subspan(count), false);
    if (count > 0 || !wait || is_idle()) break;
    // Nothing is done yet: waits for one side, and then takes the other side's completions, too.
    if (!preferred_->is_idle()) count += reap_preferred(completions, true);
    else if (failed_.empty()) count += reap_bounced(completions, true);
  } while (count == 0);
  return count;
}

// False unless exactly one of the channels is busy: neither can wait with a limit for the other.
bool FallbackChannel::wait_for_storage(std::chrono::steady_clock::time_point deadline) {
  const bool is_bouncing = bounce_ != nullptr && !bounce_->is_idle();
  if (!failed_.empty() || is_bouncing == !preferred_->is_idle()) return false;
  return (is_bouncing ? *bounce_ : *preferred_).hooks().wait_for_storage(deadline);
}

Completion FallbackChannel::move_and_wait(const RoutedRequest& request, const Chunk& chunk) {
  PENSTOCK_INVARIANT(is_idle());
  Slot slot;
  slot.take(request, chunk, 0);
  slot.bounced = reason_to_bounce(request, chunk);
  if (slot.bounced == Reason::none) {
    const Completion completion = preferred_->move_and_wait(request, chunk);
    slot.bounced = reason_after(slot, completion);
    if (slot.bounced == Reason::none) return completion;
  }
  const Result<Channel*> channel = bounce();
  if (!channel.ok()) return failure_of(slot, channel.status());
  Completion completion = (*channel)->move_and_wait(request, next_part(slot));
  remember(slot, completion);
  completion.bounced = slot.bounced;
  return completion;
}

void FallbackChannel::forget_file(std::uint64_t file_id) {
  preferred_->forget_file(file_id);
  if (bounce_ != nullptr) bounce_->forget_file(file_id);
}

}  // namespace penstock::core
