// SPDX-License-Identifier: Apache-2.0

#include "kv/follower.h"

namespace penstock::kv {

using core::MutexLock;

core::Status Follower::refresh() {
  const MutexLock lock(mutex_);
  core::Result<Volume::Journal> more = volume_.read_journal(replay_.offset());
  if (!more.ok()) return more.status();
  if (more->identity != identity_) {  // The journal was rewritten: other records are at that offset now.
    more = volume_.read_journal(0);
    if (!more.ok()) return more.status();
    replay_ = Replay(name_);
    identity_ = more->identity;
  }
  replay_.add(more->bytes);
  return core::success();
}

// A chunk that differs from the journal has been overwritten since: for a reader that is no damage.
void Follower::end_get(Request& request) {
  if (request.outcome != Outcome::damaged) return;
  request.outcome = Outcome::miss;
  replay_.forget(request.key);
}

State Follower::state() const {
  const MutexLock lock(mutex_);
  return {counts_, replay_.count(), 0, 0, 0, 0};
}

}  // namespace penstock::kv
