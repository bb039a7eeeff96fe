// SPDX-License-Identifier: Apache-2.0

// The kernel as Storage: plain positioned system calls, descriptors reopened through /proc/self/fd, io_uring where it
// is allowed.
#pragma once

#include <atomic>

#include "storage/storage.h"

namespace penstock::core {

class PosixStorage : public Storage {
 public:
  explicit PosixStorage(bool allow_io_uring);

  Result<FileFacts> facts(int fd) override;
  Result<UniqueFd> duplicate(int fd) override;
  Result<UniqueFd> reopen(int fd, int open_flags, bool o_direct) override;
  bool is_descriptor_of(int fd, const FileFacts& facts, std::uint64_t* reached) override;
  Result<std::uint64_t> size(int fd) override;
  Result<FileStamp> stamp(int fd) override;
  Result<std::size_t> read(int fd, void* memory, std::size_t size, std::uint64_t offset) override;
  Result<std::size_t> read_if_cached(int fd, void* memory, std::size_t size, std::uint64_t offset) override;
  Result<std::size_t> write(int fd, const void* memory, std::size_t size, std::uint64_t offset) override;
  Status flush(int fd, std::uint64_t offset, std::uint64_t size) override;
  Status sync(int fd) override;
  bool is_same_open_file(int first, int second) override;
  void start_reading(int fd, std::uint64_t offset, std::uint64_t size) override;
  void start_flush(int fd) override;
  void mark_changed(int fd) override;
  bool is_resident(int fd, std::uint64_t offset, std::uint64_t size) override;
  bool is_data(int fd, std::uint64_t offset, std::uint64_t size) override;
  bool release_blocks_behind_end(int fd) override;
  bool preallocate(int fd, std::uint64_t offset, std::uint64_t size) override;
  Result<Scratch> open_scratch(int fd, ScratchKind kind) override;
  Result<std::unique_ptr<Ring>> open_ring(unsigned depth) override;
  int io_uring_error() override;
  int dmabuf_error() override;

 private:
  std::atomic<int> io_uring_error_;
  std::atomic<bool> io_uring_tried_{false};
  std::atomic<bool> no_cachestat_{false};
};

}  // namespace penstock::core
