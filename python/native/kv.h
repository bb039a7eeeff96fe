// SPDX-License-Identifier: Apache-2.0

// A store of kv/ for Python: the writer's, or a reader's in another process. penstock/kv turns keys into names and
// combines stores.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "base/process.h"
#include "kv/follower.h"
#include "kv/session_volume.h"
#include "kv/store.h"
#include "kv/tiered_store.h"
#include "python/native/session.h"
#include "python/native/timed_gets.h"

namespace penstock::python {

class KvRequests;

class KvStore {
 public:
  // name: 16 bytes. With bytes 0 it reads what another process writes. With host_bytes there is a tier in host memory
  // in front of the drive. Raises the error of opening: BlockingIOError if there is a writer already.
  KvStore(std::shared_ptr<SessionHandle> session, const std::string& folder, const nanobind::bytes& name,
          std::uint64_t bytes, std::uint64_t extent_bytes, bool by_cost, bool direct, std::uint64_t host_bytes);
  ~KvStore();  // Releases the lease; does nothing in a forked child and at process exit.
  KvStore(const KvStore&) = delete;
  KvStore& operator=(const KvStore&) = delete;

  // keys: 16 bytes each, concatenated; memories: for each a list of its pieces of memory. Returns an outcome for each,
  // as bytes, and the error of the first that failed, or None.
  nanobind::tuple put(const nanobind::bytes& keys, const nanobind::list& memories, const std::vector<float>& costs,
                      nanobind::handle stream);
  // timeout_s: below 0 for none. Chunks that take longer are late: their memory does not change.
  nanobind::tuple get(const nanobind::bytes& keys, const nanobind::list& memories, nanobind::handle stream,
                      double timeout_s);
  nanobind::bytes lookup(const nanobind::bytes& keys) const;  // Returns 1 or 0 for each key.
  nanobind::bytes erase(const nanobind::bytes& keys);
  nanobind::bytes touch(const nanobind::bytes& keys);
  nanobind::bytes pin(const nanobind::bytes& keys);
  nanobind::bytes unpin(const nanobind::bytes& keys);
  std::uint64_t size_of(const nanobind::bytes& key) const;
  nanobind::object seconds_to_get(const nanobind::bytes& keys) const;  // Or None.

  void commit();
  void refresh();
  void close();
  void leave_lease();  // In a forked child, leaves the lease to the parent.
  nanobind::dict state() const;
  // The failure of the tier's last failed write to the drive, or None.
  nanobind::object failure() const;

 private:
  void check_is_own() const;
  void get_in_time(KvRequests& requests, double seconds);
  // Runs work that may wait, without the GIL. close() waits for it; after close() this fails.
  template <typename Work>
  penstock_status carry_out(const Work& work) const;
  void check_is_writer() const;
  core::Status open_writer(const kv::StoreSettings& settings, std::uint64_t host_bytes);
  const std::uint32_t forks_ = core::fork_count();  // It differs in a forked child.
  std::atomic<bool> is_closed_{false};
  mutable std::shared_mutex in_use_;  // Guards the members below, for threads without the GIL.
  std::shared_ptr<SessionHandle> session_;
  std::unique_ptr<kv::SessionVolume> volume_;
  std::unique_ptr<kv::Store> store_;
  std::unique_ptr<kv::Follower> follower_;
  std::unique_ptr<kv::SessionVolume> host_volume_;
  std::unique_ptr<kv::Store> host_store_;
  std::unique_ptr<kv::TieredStore> tier_;
  kv::Reader* reader_ = nullptr;  // The tier, the store or the follower,
  kv::Writer* writer_ = nullptr;  // and the tier, the store or null.
  std::atomic<std::uint64_t> late_{0};
  std::unique_ptr<TimedGets> timed_ = std::make_unique<TimedGets>();  // The last member: it uses the others.
};

void bind_kv(nanobind::module_& module);

}  // namespace penstock::python
