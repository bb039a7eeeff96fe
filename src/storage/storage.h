// SPDX-License-Identifier: Apache-2.0

// The seams to files, one for each kind of user: descriptors and facts, transfers, and hints. PosixStorage is the
// kernel as all three; test/fakes/fake_storage.h scripts faults. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "base/unique_fd.h"
#include "storage/file_facts.h"
#include "storage/file_stamp.h"
#include "storage/ring.h"
#include "storage/scratch.h"

namespace penstock::core {

// Facts of files that are open, and descriptors of our own on them.
class Descriptors {
 public:
  // Fails with unsupported_file, unsupported_flags, or the errno of a dead descriptor.
  virtual Result<FileFacts> facts(int fd) = 0;
  // A descriptor of our own on the same open file.
  virtual Result<UniqueFd> duplicate(int fd) = 0;
  // Opens the same file anew, with O_DIRECT or without, and with the access mode and O_SYNC or O_DSYNC of open_flags;
  // the given descriptor stays as it is.
  virtual Result<UniqueFd> reopen(int fd, int open_flags, bool direct) = 0;
  // False where the descriptor was closed, or is another file's by now, than the one that the facts tell of. reached:
  // where not null, and the file is a regular one, how many bytes it has.
  virtual bool is_descriptor_of(int fd, const FileFacts& facts, std::uint64_t* reached) = 0;
  // True where two descriptors share one open file, and where the kernel does not tell.
  virtual bool is_same_open_file(int first, int second) = 0;
  // Bytes now: a file's size, a block device's capacity.
  virtual Result<std::uint64_t> size(int fd) = 0;
  // How far a regular file reaches, and when it was last changed; without a time where that is not known.
  virtual Result<FileStamp> stamp(int fd);
  // A file in the folder of an open one, and on its file system, for us to write to, with O_DIRECT.
  virtual Result<Scratch> open_scratch(int fd, ScratchKind kind) = 0;

 protected:
  ~Descriptors() = default;
};

// Bytes between files and memory.
class FileIo {
 public:
  // One transfer, possibly short; 0 from a read is the end of the file.
  virtual Result<std::size_t> read(int fd, void* memory, std::size_t size, std::uint64_t offset) = 0;
  // The same for what the page cache holds; EAGAIN where the caller would have to wait for storage.
  virtual Result<std::size_t> read_cached(int fd, void* memory, std::size_t size, std::uint64_t offset) = 0;
  virtual Result<std::size_t> write(int fd, const void* memory, std::size_t size, std::uint64_t offset) = 0;
  // Returns when storage has what the page cache holds of the range. No promise about a loss of power.
  virtual Status flush(int /*fd*/, std::uint64_t /*offset*/, std::uint64_t /*size*/) { return success(); }
  // Returns when all of the file, and what is needed to find it, would survive a loss of power.
  virtual Status sync(int /*fd*/) { return success(); }
  virtual Result<std::unique_ptr<Ring>> open_ring(unsigned depth) = 0;
  // Why rings are not io_uring: the errno its set-up ended with; 0 where io_uring is used, ECANCELED where
  // configuration turned it off.
  virtual int io_uring_error() = 0;

 protected:
  ~FileIo() = default;
};

// Guesses about a file's pages and blocks, and wishes for them. None of them is a promise.
class FileHints {
 public:
  // True when (nearly) all of the range is in the page cache: pages come and go.
  virtual bool is_resident(int fd, std::uint64_t offset, std::uint64_t size) = 0;
  // False where some of the range is a hole, or was allocated and never written: the kernel makes up zeros there. May
  // move the descriptor's own position.
  virtual bool is_data(int fd, std::uint64_t offset, std::uint64_t size) = 0;
  // Has storage begin to take what the page cache holds of the file.
  virtual void start_flush(int /*fd*/) {}
  // Sets the time of the file's last change to now, as a write would.
  virtual void mark_changed(int /*fd*/) {}
  // For a write that makes the file longer, and knows by how much: asks for its blocks at once. The size stays as it
  // is, so that whatever becomes of the write, the file is no longer than what was written. False where nothing was
  // given.
  virtual bool preallocate(int /*fd*/, std::uint64_t /*offset*/, std::uint64_t /*size*/) { return false; }
  // Gives the blocks behind the file's end back. Only where no other open file has it, since it means cutting it where
  // it ends just now: false else. The descriptor shares its open file with the caller's own alone, who has no write
  // under way.
  virtual bool release_blocks_behind_end(int /*fd*/) { return false; }

 protected:
  ~FileHints() = default;
};

// All of it, for who owns it and hands out its parts.
class Storage : public Descriptors, public FileIo, public FileHints {
 public:
  virtual ~Storage() = default;
};

inline Result<FileStamp> Descriptors::stamp(int fd) {
  const Result<std::uint64_t> bytes = size(fd);
  if (!bytes.ok()) return bytes.status();
  return FileStamp{*bytes, {}, {}};
}

}  // namespace penstock::core
