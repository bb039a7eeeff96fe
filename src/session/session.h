// SPDX-License-Identifier: Apache-2.0

// The open files, buffers, devices and storage, and the engine that moves requests between them. It owns them but moves
// no bytes; frontend/ has the calls, queues and streams. capi/ and tests make one from a Config and the two seams to
// the outside world. Thread-safe.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/process.h"
#include "engine/engine.h"
#include "session/buffer_table.h"
#include "session/config.h"
#include "session/handle_table.h"
#include "session/user_descriptors.h"

namespace penstock::core {

// One request from a caller, before any check.
struct RawRequest {
  Op op = Op::read;
  std::uint64_t file = 0;      // The number that register_file returned.
  const void* base = nullptr;  // A registered buffer's base, or any address.
  std::uint64_t size = 0;
  std::int64_t file_offset = 0;
  std::int64_t buffer_offset = 0;
  // If not null: pinned host memory of `size` bytes. The request moves bytes between it and the file; the caller copies
  // between it and the buffer. Only for device memory.
  std::byte* staging = nullptr;
  // The facts of the memory, if the caller has them and the driver must not be called.
  const PointerFacts* memory = nullptr;
  std::optional<PathId> required;  // All other paths refuse, as with Config::require.
};

// A front end that has its own requests in flight. The session calls it on any thread, and without a lock: a client may
// wait for long. It calls Session::remove() before it goes.
class Client {
 public:
  virtual ~Client() = default;
  // The file is being deregistered, perhaps by the thread that has to complete its requests: so complete them here, and
  // keep nothing of the file afterwards. Called once: a request that has the file pinned must be found here, or end by
  // itself.
  virtual void forget_file(const File& file) = 0;
  // Host memory is being deregistered; a request that found it registered may be in flight.
  virtual void forget_memory(std::byte* /*kept*/) {}
  // The session ends: waits for the client's requests in flight; it starts no more.
  virtual void stop() = 0;
};

class Session {
 public:
  Session(const Config& config, std::unique_ptr<Storage> storage, std::unique_ptr<DeviceSet> devices);
  ~Session();  // Call stop() first.
  // Stops the clients; all their requests are counted when it returns.
  void stop();

  Result<std::uint64_t> register_file(int fd);
  Result<std::uint64_t> register_file(std::unique_ptr<UserspaceFile> file);
  Status deregister_file(std::uint64_t file);
  bool is_file(std::uint64_t file);
  Result<FileFacts> file_facts(std::uint64_t file);
  // Returns when all earlier writes to the file would survive a loss of power.
  Status sync_file(std::uint64_t file);
  // Call these before the file's first request: see note_read_once() and note_flushed_later() in file.h.
  Status advise_read_once(std::uint64_t file);
  Status advise_flushed_later(std::uint64_t file);
  Status advise_own_store(std::uint64_t file);
  // Fails if the library's descriptors of the file have become another file's.
  Status check_descriptors(std::uint64_t file);
  // Fails once any flush of the file has failed: nobody knows all that was lost.
  Status check_flushes(std::uint64_t file);
  Status register_buffer(const void* base, std::uint64_t size);
  Status deregister_buffer(const void* base);
  // The registered buffer that begins at `base`, or an empty piece.
  MemoryPiece buffer_at(const void* base) const;
  // True in a forked child: every request fails with `closed`, and the session must be leaked, since its threads, rings
  // and devices are the parent's.
  bool is_inherited() const { return fork_count() != forks_; }

  // ---- For front ends
  void add(Client* client);
  // Returns when no call of the client is in progress.
  void remove(Client* client);
  // Pins a file, which then stays registered until it is unpinned. Null if there is no such file.
  File* pin_file(std::uint64_t file) { return files_.pin(file); }
  void unpin_file(std::uint64_t file) { files_.unpin(file); }
  // Checks a request on the pinned file (null: no such file). Fills in everything but the facts of its memory.
  Status check(const RawRequest& request, File* file, RoutedRequest& checked) const;
  // check(), plus the facts of the memory: ready for the router.
  Status admit(const RawRequest& request, File* file, RoutedRequest& admitted) const;
  // True if all pieces are in the same kind of memory as the first, admitted one.
  bool is_all_of(PointerFacts& memory, RawRequest request, std::span<const MemoryPiece> pieces) const;
  // While this number is unchanged, the same buffers are registered.
  std::uint64_t buffer_changes() const { return buffers_.changes(); }
  // After a short write: releases the preallocated blocks behind the file's end, unless others use them.
  void release_blocks(std::uint64_t file_handle, File& file);

  Engine& engine() { return *engine_; }
  const Engine& engine() const { return *engine_; }
  DeviceSet& devices() { return *devices_; }
  Storage& storage() { return *storage_; }
  const Counters& counters() const { return engine_->counters(); }
  const Config& config() const { return config_; }

 private:
  struct Listed {
    Client* client;
    unsigned calls = 0;  // It stays in the list while one is in progress.
  };
  template <typename Call>
  void call_all(Call call) EXCLUDES(clients_mutex_);
  Status find_memory(const RawRequest& request, PointerFacts& memory) const;
  Status advise(std::uint64_t file, void (File::*note)());
  std::uint64_t release_blocks_of_idle(File& file);

  const std::uint32_t forks_ = fork_count();
  const Config config_;
  const std::unique_ptr<Storage> storage_;
  const std::unique_ptr<DeviceSet> devices_;
  HandleTable<File> files_;
  UserDescriptors descriptors_;
  BufferTable buffers_;
  std::unique_ptr<Engine> engine_;
  Mutex clients_mutex_;
  ConditionVariable call_ended_;
  std::list<Listed> clients_ GUARDED_BY(clients_mutex_);
};

// Keeps a file pinned; null if there is no such file. The session must outlive it.
class PinnedFile {
 public:
  PinnedFile(Session& session, std::uint64_t handle)
      : session_(session), handle_(handle), file_(session.pin_file(handle)) {}
  ~PinnedFile() {
    if (file_ != nullptr) session_.unpin_file(handle_);
  }
  PinnedFile(const PinnedFile&) = delete;
  PinnedFile& operator=(const PinnedFile&) = delete;

  File* get() const { return file_; }
  File& operator*() const { return *file_; }
  File* operator->() const { return file_; }
  explicit operator bool() const { return file_ != nullptr; }

 private:
  Session& session_;
  const std::uint64_t handle_;
  File* const file_;
};

}  // namespace penstock::core
