// SPDX-License-Identifier: Apache-2.0

// The seams to files, one for each kind of user: descriptors and facts, transfers, and hints. PosixStorage implements
// all three on the kernel; test/fakes/fake_storage.h injects faults. Thread-safe.
#pragma once

#include <cerrno>
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

// Facts of open files, and our own descriptors of them.
class Descriptors {
 public:
  // Fails with unsupported_file, unsupported_flags, or the errno of a dead descriptor.
  virtual Result<FileFacts> facts(int fd) = 0;
  // A descriptor of our own on the same open file.
  virtual Result<UniqueFd> duplicate(int fd) = 0;
  // Reopens the same file, with or without O_DIRECT, and with the access mode and O_SYNC or O_DSYNC of open_flags; `fd`
  // is not changed.
  virtual Result<UniqueFd> reopen(int fd, int open_flags, bool o_direct) = 0;
  // False if the descriptor was closed, or is now another file than that of the facts. If `reached` is not null, it
  // gets the size of a regular file.
  virtual bool is_descriptor_of(int fd, const FileFacts& facts, std::uint64_t* reached) = 0;
  // True if two descriptors share one open file, or if the kernel does not say.
  virtual bool is_same_open_file(int first, int second) = 0;
  // The current size of a file, or capacity of a block device, in bytes.
  virtual Result<std::uint64_t> size(int fd) = 0;
  // A regular file's size and the time of its last change, if that is known.
  virtual Result<FileStamp> stamp(int fd);
  // Creates a file for a self-test's writes, with O_DIRECT, in the same folder and file system as `fd`.
  virtual Result<Scratch> open_scratch(int fd, ScratchKind kind) = 0;

 protected:
  ~Descriptors() = default;
};

// Moves bytes between files and memory.
class FileIo {
 public:
  // One transfer, possibly short; 0 from a read is the end of the file.
  virtual Result<std::size_t> read(int fd, void* memory, std::size_t size, std::uint64_t offset) = 0;
  // Reads only from the page cache; EAGAIN if the call would have to wait for storage.
  virtual Result<std::size_t> read_if_cached(int fd, void* memory, std::size_t size, std::uint64_t offset) = 0;
  virtual Result<std::size_t> write(int fd, const void* memory, std::size_t size, std::uint64_t offset) = 0;
  // Returns when the range's dirty pages are written to storage. This gives no guarantee against a loss of power.
  virtual Status flush(int /*fd*/, std::uint64_t /*offset*/, std::uint64_t /*size*/) { return success(); }
  // Returns when the whole file and its metadata would survive a loss of power.
  virtual Status sync(int /*fd*/) { return success(); }
  virtual Result<std::unique_ptr<Ring>> open_ring(unsigned depth) = 0;
  // The errno with which io_uring's set-up failed; 0 if io_uring is used, ECANCELED if settings turn it off.
  virtual int io_uring_error() = 0;
  // The errno with which the kernel refuses dma-bufs in rings (dmabuf_slots.h); 0 if it takes them. EINVAL: it does not
  // know the interface. Needs neither drive, GPU nor rights; a process asks once.
  virtual int dmabuf_error() { return EINVAL; }

 protected:
  ~FileIo() = default;
};

// Guesses about a file's pages and blocks, and advice to the kernel. None of them is guaranteed.
class FileHints {
 public:
  // True if nearly all of the range is in the page cache at this moment.
  virtual bool is_resident(int fd, std::uint64_t offset, std::uint64_t size) = 0;
  // False if part of the range is a hole, or is allocated but unwritten: the kernel supplies zeros there. May move the
  // descriptor's position.
  virtual bool is_data(int fd, std::uint64_t offset, std::uint64_t size) = 0;
  // Starts to read the range into the page cache.
  virtual void start_reading(int /*fd*/, std::uint64_t /*offset*/, std::uint64_t /*size*/) {}
  // Starts to write back the file's dirty pages.
  virtual void start_flush(int /*fd*/) {}
  // Sets the time of the file's last change to now, as a write would.
  virtual void mark_changed(int /*fd*/) {}
  // Allocates the blocks of a write that extends the file, all at once. The file's size does not change, so that it
  // never exceeds what was really written. Returns false if nothing was allocated.
  virtual bool preallocate(int /*fd*/, std::uint64_t /*offset*/, std::uint64_t /*size*/) { return false; }
  // Releases the blocks behind the file's end, by truncating it at its current size. Returns false if another open file
  // description exists. The caller must have no write in flight.
  virtual bool release_blocks_behind_end(int /*fd*/) { return false; }

 protected:
  ~FileHints() = default;
};

// All three seams, for the owner that passes them on.
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
