// SPDX-License-Identifier: Apache-2.0

#include "kv/follower.h"

#include <vector>

#include "kv/fetch.h"

namespace penstock::kv {

using core::MutexLock;

core::Status Follower::refresh() {
  const MutexLock lock(mutex_);
  core::Result<Drive::Journal> more = drive_.read_journal(replay_.offset());
  if (!more.ok()) return more.status();
  if (more->identity != identity_) {  // Written anew: other records are at that offset now.
    more = drive_.read_journal(0);
    if (!more.ok()) return more.status();
    replay_ = Replay(name_);
    identity_ = more->identity;
  }
  replay_.add(more->bytes);
  return core::success();
}

bool Follower::contains(const Name& key) const {
  const MutexLock lock(mutex_);
  return replay_.find(key) != nullptr;
}

std::uint64_t Follower::size_of(const Name& key) const {
  const MutexLock lock(mutex_);
  const Chunk* const chunk = replay_.find(key);
  return chunk == nullptr ? 0 : chunk->bytes;
}

std::optional<double> Follower::seconds_to_get(std::span<const Name> keys) const {
  std::uint64_t bytes = 0;
  for (const Name& key : keys) bytes += size_of(key);
  return bytes == 0 ? 0 : pace_.seconds(bytes);
}

void Follower::get(std::span<Request> requests) {
  std::vector<Fetch> fetches;
  std::vector<Request*> whose;
  {
    const MutexLock lock(mutex_);
    for (Request& request : requests) {
      const Chunk* const chunk = replay_.find(request.key);
      request.outcome = chunk == nullptr ? Outcome::miss : Outcome::unlike;
      if (chunk == nullptr || chunk->bytes != bytes_of(request.pieces)) continue;
      fetches.push_back({*chunk, request.pieces});
      whose.push_back(&request);
    }
  }
  fetch(drive_, name_, fetches, &pace_);
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < fetches.size(); ++i) {
    whose[i]->status = fetches[i].status;
    // A chunk that differs from the journal was overwritten since: for a reader that is no damage.
    whose[i]->outcome = fetches[i].outcome == Outcome::damaged ? Outcome::miss : fetches[i].outcome;
    if (fetches[i].outcome == Outcome::damaged) replay_.forget(fetches[i].chunk.key);
    if (fetches[i].outcome == Outcome::done) counts_.get_bytes += fetches[i].chunk.bytes;
  }
  for (const Request& request : requests) ++counts_.gets[static_cast<unsigned>(request.outcome)];
}

State Follower::state() const {
  const MutexLock lock(mutex_);
  return {counts_, replay_.count(), 0, 0, 0, 0};
}

}  // namespace penstock::kv
