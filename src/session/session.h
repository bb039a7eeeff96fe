// SPDX-License-Identifier: Apache-2.0

// The open files, buffers, devices and storage, and the engine that moves requests between them. It owns, and does not
// move; frontend/ has the ways to ask. capi/ and tests make one from a Config and the two seams to the outside world.
// Thread-safe.
#pragma once

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

// One request as callers state it, before anything about it is known to be sane.
struct RawRequest {
  Op op = Op::read;
  std::uint64_t file = 0;      // The number that register_file returned.
  const void* base = nullptr;  // Memory; a registered buffer's base, or any address.
  std::uint64_t size = 0;
  std::int64_t file_offset = 0;
  std::int64_t buffer_offset = 0;
  // If not null: pinned host memory of `size` bytes, between which and the file the bytes are moved, while the caller
  // copies between it and the buffer. For device memory alone.
  std::byte* staging = nullptr;
  // The facts of the memory, if the caller knows them and the device must not be asked.
  const PointerFacts* memory = nullptr;
  std::optional<PathId> required;  // Any other path refuses, as where the session requires it.
};

// A front end that has requests under way on its own account. Both calls come on any thread.
class Client {
 public:
  virtual ~Client() = default;
  // The file is being deregistered, perhaps by the very thread that should bring its requests to their end: they are
  // brought there here. Nothing of the file's is kept after. It is asked once: so a request that has the file pinned
  // must be seen here, or end by itself.
  virtual void forget_file(const File& file) = 0;
  // Host memory is being deregistered, like a file, and with a request under way that found it registered.
  virtual void forget_memory(std::byte* /*kept*/) {}
  // The session ends: waits for what is under way. The client has none from then on.
  virtual void stop() = 0;
};

class Session {
 public:
  Session(const Config& config, std::unique_ptr<Storage> storage, std::unique_ptr<DeviceSet> devices);
  ~Session();  // stop() comes first.
  // Stops its clients, whose requests have all been counted then.
  void stop();

  Result<std::uint64_t> register_file(int fd);
  Result<std::uint64_t> register_file(std::unique_ptr<UserspaceFile> file);
  Status deregister_file(std::uint64_t file);
  bool is_file(std::uint64_t file);
  Result<FileFacts> file_facts(std::uint64_t file);
  // Returns when what was written to the file would survive a loss of power.
  Status sync_file(std::uint64_t file);
  // Before its first request: see note_read_once() and note_flushed_later() of file.h.
  Status advise_read_once(std::uint64_t file);
  Status advise_flushed_later(std::uint64_t file);
  Status register_buffer(const void* base, std::uint64_t size);
  Status deregister_buffer(const void* base);
  // The registered memory that begins there, or no bytes.
  MemoryPiece buffer_at(const void* base) const;
  // True in a forked child: then every request is refused with `closed`, and the session must be leaked, since its
  // threads, rings and devices are the parent's.
  bool is_inherited() const { return fork_count() != forks_; }

  // ---- For front ends
  void add(Client* client);
  void remove(Client* client);
  // A pinned file stays registered until it is unpinned. Null where there is none.
  File* pin_file(std::uint64_t file) { return files_.pin(file); }
  void unpin_file(std::uint64_t file) { files_.unpin(file); }
  // Checks if a request on the pinned file (null: none) can be made at all. Fills in its numbers, and not its memory's
  // facts.
  Status check(const RawRequest& request, File* file, RoutedRequest& checked) const;
  // check(), and what its memory is: ready for the router.
  Status admit(const RawRequest& request, File* file, RoutedRequest& admitted) const;
  // True if the pieces, the first of which was admitted, are all in such memory.
  bool is_all_of(const PointerFacts& memory, RawRequest request, std::span<const MemoryPiece> pieces) const;
  // While it is the same, the same buffers are registered.
  std::uint64_t buffer_changes() const { return buffers_.changes(); }
  // A write came to less than it should: its blocks behind the file's end are given back, unless others use them.
  void release_blocks(std::uint64_t file_handle, File& file);

  Engine& engine() { return *engine_; }
  const Engine& engine() const { return *engine_; }
  DeviceSet& devices() { return *devices_; }
  Storage& storage() { return *storage_; }
  const Counters& counters() const { return engine_->counters(); }
  const Config& config() const { return config_; }

 private:
  Status find_memory(const RawRequest& request, PointerFacts& memory) const;
  Status advise(std::uint64_t file, void (File::*note)());
  void release_blocks_of_idle(File& file);

  const std::uint32_t forks_ = fork_count();
  const Config config_;
  const std::unique_ptr<Storage> storage_;
  const std::unique_ptr<DeviceSet> devices_;
  HandleTable<File> files_;
  UserDescriptors descriptors_;
  BufferTable buffers_;
  std::unique_ptr<Engine> engine_;
  Mutex clients_mutex_;
  std::vector<Client*> clients_ GUARDED_BY(clients_mutex_);
};

}  // namespace penstock::core
