// SPDX-License-Identifier: Apache-2.0

// Reads a store that another process writes: by its journal, which lists the committed chunks, and by the headers and
// checksums of its slots. A chunk that the writer has overwritten, or overwrites while it is read, is looked up once
// more in a newer view of the journal, and is a miss if it is not there either. Any thread.
#pragma once

#include "kv/journal.h"
#include "kv/store.h"
#include "kv/store_view.h"

namespace penstock::kv {

class Follower final : public StoreView {
 public:
  // The volume must outlive it.
  Follower(Volume& volume, const Name& name) : StoreView(volume, name), replay_(name) {}

  void get(std::span<Request* const> requests) override EXCLUDES(refresh_mutex_, mutex_);
  // Reads the journal's new records. Other calls do not wait for that.
  core::Status refresh() EXCLUDES(refresh_mutex_, mutex_);
  State state() const EXCLUDES(mutex_);

 private:
  const Chunk* find(const Name& key) const override REQUIRES(mutex_) { return replay_.find(key); }
  void end_get(Request& request) override REQUIRES(mutex_);

  core::Mutex refresh_mutex_;  // Locked before mutex_, and while the journal is read.
  Replay replay_ GUARDED_BY(mutex_);
  std::uint64_t identity_ GUARDED_BY(refresh_mutex_) = 0;
};

}  // namespace penstock::kv
