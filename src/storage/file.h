// SPDX-License-Identifier: Apache-2.0

// A registered file: its facts and up to two descriptors of our own on it, one with O_DIRECT and one without. The
// user's descriptor is duplicated once and never changed; the second one is opened when first needed. A program may
// close both by number (closefrom): each request checks them first, and we never close a number that is no longer ours.
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "core/io.h"
#include "core/paths.h"
#include "storage/storage.h"
#include "storage/userspace_file.h"

namespace penstock::core {

class FileUsage;  // Of stats/.

// Limits long writes to one file through the page cache to two at a time: the kernel serializes them by the inode's
// lock, and waiters spin. Eight writers took 1.2 to 2.0 CPU s/GB where two take 0.3 (ext4, H100 machine, 2026-11-25).
class WriteTurns {
 public:
  void take() {
    for (unsigned now = taken_.load(std::memory_order_relaxed);;) {
      if (now == kAtOnce) {
        taken_.wait(now, std::memory_order_relaxed);
        now = taken_.load(std::memory_order_relaxed);
      } else if (taken_.compare_exchange_weak(now, now + 1, std::memory_order_acquire, std::memory_order_relaxed)) {
        return;
      }
    }
  }
  void give_back() {
    taken_.fetch_sub(1, std::memory_order_release);
    taken_.notify_one();
  }

 private:
  static constexpr unsigned kAtOnce = 2;  // One enters or leaves the kernel while the other has the lock.
  std::atomic<unsigned> taken_{0};
};

class File {
 public:
  static Result<std::unique_ptr<File>> open(Storage& storage, int fd);
  // For a file system in user space: such a file has no descriptors, and the kernel does not know it.
  static std::unique_ptr<File> open(Storage& storage, std::unique_ptr<UserspaceFile> file);
  ~File();

  const FileFacts& facts() const { return facts_; }
  // Call it before any other thread sees the file.
  void deny_direct_paths() { facts_.denied = true; }
  void count_in(FileUsage& usage) { usage_ = &usage; }
  // Counts this file's requests for a report (front ends add to it); null if no report was requested.
  FileUsage* usage() const { return usage_; }
  // Unlike a descriptor's number, an id is never reused.
  std::uint64_t id() const { return id_; }
  // The duplicate of the user's descriptor.
  int own_descriptor() const { return own_.get(); }
  // False if the program closed one of our descriptors. Costs one system call per open descriptor, which also returns a
  // regular file's size.
  bool fstat_descriptors(std::uint64_t* reached = nullptr) const {
    if (userspace_ != nullptr) return true;
    const int second = second_.load(std::memory_order_acquire);
    return is_ours(own_.get(), reached) && (second < 0 || is_ours(second));
  }
  // The descriptor for an I/O mode. Fails if the kernel refuses to open the file in that mode.
  Result<int> descriptor(IoMode io_mode);
  // The descriptor that shares nothing with the user's, not even the position.
  Result<int> second_descriptor() {
    return descriptor(own_io_mode_ == IoMode::o_direct ? IoMode::buffered : IoMode::o_direct);
  }
  // Bytes now.
  Result<std::uint64_t> size() const { return descriptors_.size(own_.get()); }
  Result<FileStamp> stamp() const { return descriptors_.stamp(own_.get()); }
  // Hints (storage.h). If the needed descriptor cannot be opened, is_resident returns false and is_data true.
  bool is_resident(std::uint64_t offset, std::uint64_t size);
  bool is_data(std::uint64_t offset, std::uint64_t size);
  bool preallocate(std::uint64_t offset, std::uint64_t size) { return hints_.preallocate(own_.get(), offset, size); }
  void mark_changed() { hints_.mark_changed(own_.get()); }
  // The offset alignment that direct I/O needs on this file; 1 if it is not possible.
  std::uint32_t direct_offset_align();
  // The kernel refused an aligned direct transfer: use the page cache from now on.
  void give_up_o_direct() { o_direct_refused_.store(true, std::memory_order_relaxed); }
  // Null for files that the kernel serves.
  UserspaceFile* userspace() const { return userspace_.get(); }
  // True if the user's own descriptor has O_DIRECT.
  bool prefers_o_direct() const { return own_io_mode_ == IoMode::o_direct; }
  // The program reads each byte of the file only once.
  void note_read_once() { read_once_.store(true, std::memory_order_relaxed); }
  bool is_read_once() const { return read_once_.load(std::memory_order_relaxed); }
  // A store's own file: preallocated, written in whole pages at fixed places, and opened by nobody else.
  void note_own_store() { own_store_.store(true, std::memory_order_relaxed); }
  bool is_own_store() const { return own_store_.load(std::memory_order_relaxed); }
  // The file will be flushed after the last write, so write-back starts early, beside further writes.
  void note_flushed_later() { flushed_later_.store(true, std::memory_order_relaxed); }
  void note_written(std::uint64_t bytes) {
    if (flushed_later_.load(std::memory_order_relaxed)) start_flush_after(bytes);
  }
  // A flush failed, of a request's bytes or of the whole file. The kernel tells this once (fsync(2)): a later flush may
  // succeed without those bytes, and without those of other requests.
  void note_failed_flush() { failed_flushes_.fetch_add(1); }
  bool has_failed_flush() const { return failed_flushes_.load() != 0; }
  // True if one failed since this was asked last.
  bool take_failed_flush() {
    const unsigned now = failed_flushes_.load();
    return told_failures_.exchange(now) != now;
  }
  // Null if the file system lets many threads write at once.
  WriteTurns* write_turns() { return takes_turns_ ? &write_turns_ : nullptr; }
  // A failed write has left preallocated blocks behind the file's end.
  void note_blocks_behind_end() { blocks_behind_end_.store(true, std::memory_order_relaxed); }
  bool has_blocks_behind_end() const { return blocks_behind_end_.load(std::memory_order_relaxed); }
  // Releases them if possible (storage.h). Call it with no request of the file in flight.
  void release_blocks_behind_end();
  // One word per path for its own state of the file, a value or a pointer; 0 is empty. So a request needs no lookup and
  // no lock. The path frees it in Path::forget_file().
  std::atomic<std::uintptr_t>& slot(PathId path) const { return slots_[static_cast<unsigned>(path)]; }

 private:
  File(Storage& storage, const FileFacts& facts, UniqueFd own);
  Result<int> open_second();
  void close_second();
  void start_flush_after(std::uint64_t bytes);
  bool is_ours(int fd, std::uint64_t* reached = nullptr) const {
    return descriptors_.is_descriptor_of(fd, facts_, reached);
  }

  Descriptors& descriptors_;
  FileHints& hints_;
  FileFacts facts_;
  FileUsage* usage_ = nullptr;
  const std::uint64_t id_;
  UniqueFd own_;
  const IoMode own_io_mode_;
  std::unique_ptr<UserspaceFile> userspace_;
  std::atomic<int> second_{-1};       // The descriptor for the other I/O mode, once open.
  std::atomic<int> second_error_{0};  // The errno if opening second_ failed.
  std::atomic<bool> o_direct_refused_{false};
  std::atomic<bool> blocks_behind_end_{false};
  std::atomic<bool> read_once_{false};
  std::atomic<bool> flushed_later_{false};
  std::atomic<bool> own_store_{false};
  std::atomic<unsigned> failed_flushes_{0}, told_failures_{0};
  const bool takes_turns_;
  WriteTurns write_turns_;
  std::atomic<std::uint64_t> unflushed_{0};  // Bytes written since write-back was last started.
  mutable std::array<std::atomic<std::uintptr_t>, kPathCount> slots_{};
};

inline Status descriptor_lost() { return failure(Code::descriptor_lost, "use the file's descriptor"); }

}  // namespace penstock::core
