// SPDX-License-Identifier: Apache-2.0

// A store's folder on a drive. A session of Penstock moves the slab's bytes, by the most direct path for the caller's
// memory. In the folder are `slab`, `journal` and `lease`: the writer holds a lock on the lease, which the kernel
// releases when the process dies, so that another writer can follow.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "kv/format.h"
#include "kv/queue_pool.h"
#include "kv/volume.h"

namespace penstock::kv {

class SessionVolume final : public Volume {
 public:
  enum class Role : std::uint8_t { writer, reader, memory };

  // is_direct: around the page cache, if the file system can. A writer creates missing files, readable only by their
  // owner (0600), and sets the slab's size; it fails with EWOULDBLOCK if there is another writer. A reader fails with
  // ENOENT if there is no store yet. Role::memory has no folder: its slab is in host memory, limited to the machine's,
  // is not durable, and is freed with this object. The session must outlive this.
  static core::Result<std::unique_ptr<SessionVolume>> open(const Library& library, penstock_session* session,
                                                           const std::string& folder, Role role,
                                                           std::uint64_t slab_bytes, bool is_direct = true);
  ~SessionVolume() override;
  SessionVolume(const SessionVolume&) = delete;
  SessionVolume& operator=(const SessionVolume&) = delete;

  void transfer_each(std::span<penstock_request> requests, const Ended& ended) override;
  core::Status sync() override;
  core::Status crc32c(std::span<const iovec> pieces, std::span<std::uint32_t> sums) override;
  std::span<const std::byte> in_memory() const override { return in_memory_; }
  std::span<std::byte> for_copies(std::uint64_t offset, std::uint64_t bytes) override;
  core::Result<Journal> read_journal(std::uint64_t offset) override;
  core::Status write_journal(std::uint64_t offset, std::span<const std::byte> bytes) override;
  core::Status replace_journal(std::span<const std::byte> bytes, bool& is_replaced) override;

  // Call it in a forked child: its copy of the descriptor would keep the lock as long as the child lives.
  void leave_lease() { lease_.reset(); }

  // The bytes moved so far.
  MovedBytes moved() const;

 private:
  SessionVolume(const Library& library, penstock_session* session, std::string folder, Role role)
      : library_(library), session_(session), folder_(std::move(folder)), role_(role), queues_(library, session),
        moved_(library) {}

  core::Status open_memory(std::uint64_t slab_bytes);
  core::Status open_files(Role role, std::uint64_t slab_bytes, bool is_direct);
  std::string path(const char* name) const { return folder_ + "/" + name; }

  const Library library_;
  penstock_session* const session_;
  const std::string folder_;
  const Role role_;
  core::UniqueFd lease_, journal_;
  penstock_file* slab_ = nullptr;
  core::UniqueFd memory_;
  std::span<std::byte> in_memory_;           // The mapped slab of Role::memory.
  std::vector<std::atomic<bool>> is_given_;  // It is true where the kernel has given its pages.
  QueuePool queues_;

  mutable core::Mutex mutex_;
  MovedBytes moved_ GUARDED_BY(mutex_);
};

}  // namespace penstock::kv
