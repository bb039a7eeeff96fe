// SPDX-License-Identifier: Apache-2.0

// A store as other processes than its writer see it: by its journal, as far as the writer has told, and by the headers
// and checksums of its slots. A chunk that the writer overwrites while it is read is a miss. Any thread.
#pragma once

#include <span>

#include "base/mutex.h"
#include "base/status.h"
#include "kv/drive.h"
#include "kv/journal.h"
#include "kv/store.h"

namespace penstock::kv {

class Follower {
 public:
  // The drive outlives it.
  Follower(Drive& drive, const Name& name) : drive_(drive), name_(name), replay_(name) {}

  // Reads what the writer has told since.
  core::Status refresh() EXCLUDES(mutex_);
  bool contains(const Name& key) const EXCLUDES(mutex_);
  std::uint64_t size_of(const Name& key) const EXCLUDES(mutex_);
  std::optional<double> seconds_to_get(std::span<const Name> keys) const EXCLUDES(mutex_);  // The same as Store's.
  void get(std::span<Request> requests) EXCLUDES(mutex_);
  State state() const EXCLUDES(mutex_);

 private:
  Drive& drive_;
  const Name name_;
  Pace pace_;
  mutable core::Mutex mutex_;
  Replay replay_ GUARDED_BY(mutex_);
  std::uint64_t identity_ GUARDED_BY(mutex_) = 0;
  Counts counts_ GUARDED_BY(mutex_);
};

}  // namespace penstock::kv
