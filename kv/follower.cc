// SPDX-License-Identifier: Apache-2.0

#include "kv/follower.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace penstock::kv {

using core::MutexLock;

core::Status Follower::refresh() {
  const MutexLock refreshing(refresh_mutex_);
  std::uint64_t offset = 0;
  {
    const MutexLock lock(mutex_);
    offset = replay_.offset();
  }
  core::Result<Volume::Journal> more = volume_.read_journal(offset);
  if (!more.ok()) return more.status();
  if (more->identity == identity_) {
    const MutexLock lock(mutex_);
    replay_.add(more->bytes);
    return core::success();
  }
  more = volume_.read_journal(0);  // The journal was rewritten: other records are at that offset now.
  if (!more.ok()) return more.status();
  Replay rewritten(name_);
  rewritten.add(more->bytes);
  identity_ = more->identity;
  const MutexLock lock(mutex_);
  std::swap(replay_, rewritten);
  return core::success();
}

void Follower::get(std::span<Request* const> requests) {
  for (Request* const one : requests) one->chunk = {};
  StoreView::get(requests);
  std::vector<Request*> again;
  // A miss whose place was known; generations begin with 1.
  const auto is_stale = [](const Request* one) { return one->outcome == Outcome::miss && one->chunk.generation > 0; };
  std::copy_if(requests.begin(), requests.end(), std::back_inserter(again), is_stale);
  if (again.empty() || !refresh().ok()) return;
  {
    const MutexLock lock(mutex_);
    counts_.gets[static_cast<unsigned>(Outcome::miss)] -= again.size();
  }
  StoreView::get(again);
}

// A chunk that differs from the journal has been overwritten since: for a reader that is no damage. Meanwhile the
// journal may have told of a newer chunk of this key. A read that ended early says nothing of the chunk.
void Follower::end_get(Request& request) {
  if (request.outcome != Outcome::damaged) return;
  request.outcome = Outcome::miss;
  if (request.is_short) return;
  const Chunk* const known = replay_.find(request.key);
  if (known != nullptr && known->generation == request.chunk.generation) replay_.forget(request.key);
}

State Follower::state() const {
  const MutexLock lock(mutex_);
  return {counts_, replay_.count(), 0, 0, 0, 0};
}

}  // namespace penstock::kv
