// SPDX-License-Identifier: Apache-2.0

// A registered file: its facts and up to two descriptors of our own on it, one with O_DIRECT and one without. The
// user's descriptor is duplicated once and never changed; the second one is opened when it is first needed. A program
// may close both by their numbers (closefrom): they are looked at before each request, and not closed as ours when
// they no longer are. Thread-safe.
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

// Long writes to one file through the page cache, of which two are under way at a time: the kernel does one after the
// other under the inode's lock, and who waits for that spins. Eight writers took 1.2 to 2.0 CPU s/GB where two take 0.3
// (ext4, H100 machine, 2026-11-25).
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
  static constexpr unsigned kAtOnce = 2;  // One is on its way in or out while the other has the lock.
  std::atomic<unsigned> taken_{0};
};

class File {
 public:
  static Result<std::unique_ptr<File>> open(Storage& storage, int fd);
  // For a file system in user space: there are no descriptors then, and nothing to be asked of the kernel.
  static std::unique_ptr<File> open(Storage& storage, std::unique_ptr<UserspaceFile> file);
  ~File();

  const FileFacts& facts() const { return facts_; }
  // Before any other thread knows of the file.
  void deny_direct_paths() { facts_.denied = true; }
  void count_in(FileUsage& usage) { usage_ = &usage; }
  // The counts of this file's requests for a report, kept by front ends; null where no report was asked for.
  FileUsage* usage() const { return usage_; }
  // Unlike a descriptor's number, never used again for another file.
  std::uint64_t id() const { return id_; }
  // The duplicate of the user's.
  int own_descriptor() const { return own_.get(); }
  // False where one of them was closed by others. One system call for each that is open, which tells as well how far a
  // regular file reaches.
  bool has_its_descriptors(std::uint64_t* reached = nullptr) const {
    if (userspace_ != nullptr) return true;
    const int second = second_.load(std::memory_order_acquire);
    return is_ours(own_.get(), reached) && (second < 0 || is_ours(second));
  }
  // Fails when the kernel would not open the file that way.
  Result<int> descriptor(IoMode io_mode);
  // The one that shares nothing with the user's, not even the position.
  Result<int> second_descriptor() {
    return descriptor(own_io_mode_ == IoMode::direct ? IoMode::buffered : IoMode::direct);
  }
  // Bytes now.
  Result<std::uint64_t> size() const { return descriptors_.size(own_.get()); }
  Result<FileStamp> stamp() const { return descriptors_.stamp(own_.get()); }
  // Hints (storage.h). Where the kernel would not open the file that way, is_resident is false and is_data true.
  bool is_resident(std::uint64_t offset, std::uint64_t size);
  bool is_data(std::uint64_t offset, std::uint64_t size);
  bool preallocate(std::uint64_t offset, std::uint64_t size) { return hints_.preallocate(own_.get(), offset, size); }
  void mark_changed() { hints_.mark_changed(own_.get()); }
  // The alignment of offsets that direct I/O needs here; 1 where direct I/O is not possible.
  std::uint32_t direct_offset_align();
  // The kernel refused an aligned direct transfer: use the page cache from now on.
  void give_up_direct() { direct_refused_.store(true, std::memory_order_relaxed); }
  // Null for files of the kernel's.
  UserspaceFile* userspace() const { return userspace_.get(); }
  // True where the user's own descriptor does direct I/O.
  bool prefers_direct() const { return own_io_mode_ == IoMode::direct; }
  // The program reads no byte of it again.
  void note_read_once() { read_once_.store(true, std::memory_order_relaxed); }
  bool is_read_once() const { return read_once_.load(std::memory_order_relaxed); }
  // Will be flushed when all is written: so storage begins with what is there while more comes.
  void note_flushed_later() { flushed_later_.store(true, std::memory_order_relaxed); }
  void note_written(std::uint64_t bytes) {
    if (flushed_later_.load(std::memory_order_relaxed)) start_flush_after(bytes);
  }
  // Null where the kernel lets many write at once.
  WriteTurns* write_turns() { return takes_turns_ ? &write_turns_ : nullptr; }
  // A write that failed has left blocks behind the file's end, which were asked for on its behalf.
  void note_blocks_behind_end() { blocks_behind_end_.store(true, std::memory_order_relaxed); }
  // Gives them back where it can (storage.h); nothing of the file's is under way.
  void release_blocks_behind_end();
  // A path's own word about the file, or pointer to what it keeps of it: only that path knows which, and 0 is nothing.
  // So a request needs no lookup and no lock. The path lets go of it in Path::forget_file().
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
  std::atomic<int> second_{-1};       // The descriptor for the other way, once it is open,
  std::atomic<int> second_error_{0};  // or the errno that it could not be opened with.
  std::atomic<bool> direct_refused_{false};
  std::atomic<bool> blocks_behind_end_{false};
  std::atomic<bool> read_once_{false};
  std::atomic<bool> flushed_later_{false};
  const bool takes_turns_;
  WriteTurns write_turns_;
  std::atomic<std::uint64_t> unflushed_{0};  // Bytes written since storage was last told to begin.
  mutable std::array<std::atomic<std::uintptr_t>, kPathCount> slots_{};
};

inline Status descriptor_lost() { return failure(Code::descriptor_lost, "use the file's descriptor"); }

}  // namespace penstock::core
