// SPDX-License-Identifier: Apache-2.0

#include "engine/flight.h"

#include <algorithm>

#include "base/align.h"
#include "base/page_size.h"

namespace penstock::core {

void Flight::cut_into_chunks(std::uint64_t chunk_max) {
  request.buffer_address = reinterpret_cast<std::uintptr_t>(request.memory.address());
  Limits limits = request.shape.limits;
  limits.page = static_cast<std::uint32_t>(page_size());
  limits.chunk_max = std::min(limits.chunk_max, chunk_max);
  if (!is_aligned(limits.chunk_max, limits.file_align)) limits.file_align = 1;
  plan_.emplace(request, limits);
  progress_ = Progress(request.file_offset, request.size);
  turn_ = 0;
  turns_end_ = plan_->middle_count();
  state_ = State::middle;
  proceed();
}

Chunk Flight::in_turn(std::uint64_t turn) const {
  Chunk chunk = plan_->in_turn(turn);
  chunk.io_mode = query_io_mode(chunk);
  return chunk;
}

IoMode Flight::query_io_mode(const Chunk& chunk) const {
  if (!request.prefer_cached || chunk.io_mode == IoMode::buffered) return chunk.io_mode;
  return request.file->is_resident(chunk.io_offset, chunk.io_size) ? IoMode::buffered : IoMode::o_direct;
}

// Leaves a state in which everything was moved, or in which nothing more will be. The report counts bytes from the
// request's start: so a middle that came out short still needs its head, but not its tail.
void Flight::leave_state() {
  if (state_ == State::middle && progress_.bytes() > 0) {
    turn_ = plan_->middle_count();
    turns_end_ = progress_.goes_on() ? plan_->chunk_count() : turn_ + plan_->head_count();
    state_ = State::ends;
    if (has_next()) return;
  }
  turns_end_ = 0;
  state_ = State::over;
  progress_.fill_report(report);
}

void Flight::end_middle(const Progress& progress) {
  if (state_ == State::over) return;  // There was nothing to move.
  progress_ = progress;
  if (state_ == State::middle) turn_ = turns_end_;  // If there was no middle, the ends are next already.
  proceed();
}

void Flight::end(const Progress& progress) {
  progress_ = progress;
  state_ = State::over;
  leave_state();
}

void Flight::fail(const Status& status) {
  progress_.fail_at(progress_.begin(), status);
  leave_state();
}

}  // namespace penstock::core
