// SPDX-License-Identifier: Apache-2.0

// Files on a nearly full file system whose drive a test reads by itself: what one file gives up, the next one gets.
// Bytes are words that tell their place and their file, so that a reader knows whose they are.
#pragma once

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "fakes/loop_file_system.h"

namespace penstock {

// Memory for direct I/O.
class DirectMemory {
 public:
  explicit DirectMemory(std::size_t words) : words_(words + kAlign / 8) {}
  std::uint64_t* words() {
    const auto at = reinterpret_cast<std::uintptr_t>(words_.data());
    return reinterpret_cast<std::uint64_t*>((at + kAlign - 1) / kAlign * kAlign);
  }

 private:
  static constexpr std::size_t kAlign = 4096;
  std::vector<std::uint64_t> words_;
};

class FilesOnDrive {
 public:
  static constexpr std::uint64_t kBytes = 256 << 10;  // Each file's.
  static constexpr std::uint64_t kSpare = 64 << 10;   // For the tables of who writes last.
  static constexpr std::uint64_t kOwn = 1;
  static constexpr std::uint64_t kForeign = 2;

  explicit FilesOnDrive(const std::string& type, bool in_partition = false)
      : place_(type,
               type == "xfs" ? "mkfs.xfs -q -f -K" : "mkfs.ext4 -q -F -m 0 -b 4096 -E lazy_itable_init=1,nodiscard",
               {.size = type == "xfs" ? "300M" : "24M", .in_partition = in_partition}) {}
  const std::string& failure() const { return place_.failure(); }
  std::string path(const std::string& name) const { return place_.path(name); }
  int drive() const { return place_.drive(); }
  core::UniqueFd open_whole_drive() const { return place_.open_whole_drive(); }

  static std::uint64_t word(std::uint64_t at, std::uint64_t whose) { return at << 8 | whose; }
  // Writes a file as far as there is room, past the page cache, and waits until it lies on the drive.
  void write(const std::string& name, std::uint64_t whose, std::uint64_t bytes = kBytes) {
    const core::UniqueFd fd(::open(path(name).c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0644));
    (void)write(fd.get(), whose, bytes);
  }
  // False if there was not room for all.
  bool write(int fd, std::uint64_t whose, std::uint64_t bytes = kBytes) {
    std::uint64_t at = 0;
    for (std::uint64_t step = kBytes; at < bytes && step >= 4096;) {
      if (write_at(fd, whose, at, std::min(step, bytes - at))) at += std::min(step, bytes - at);
      else step /= 2;
    }
    return ::fsync(fd) == 0 && at == bytes;
  }
  void remove(const std::string& name) { ::unlink(path(name).c_str()); }
  // Takes all room but for so many files and their places in the tables.
  void fill(unsigned files) {
    const core::UniqueFd fd(::open(path("rest").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    std::uint64_t end = 0;
    for (std::uint64_t step = 64 * kBytes; step >= 4096;) {
      if (room() > files * kBytes + kSpare + step && take(fd.get(), end, step)) end += step;
      else step /= 2;
    }
    sync();
  }
  std::uint64_t room() const {
    struct statfs facts {};
    ::statfs(path("").c_str(), &facts);
    return facts.f_bavail * static_cast<std::uint64_t>(facts.f_bsize);
  }
  // All of the file system is on the drive, and what was freed is free.
  void sync() const {
    const core::UniqueFd fd(::open(path("").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ::syncfs(fd.get());
  }

  // Reads from the drive's node. The words that are not of that file are counted.
  std::uint64_t wrong_words(std::uint64_t drive_offset, std::uint64_t file_offset, std::uint64_t bytes,
                            std::uint64_t whose = kOwn) {
    const ssize_t done = ::pread(drive(), read_.words(), bytes, static_cast<off_t>(drive_offset));
    if (done != static_cast<ssize_t>(bytes)) return bytes;
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < bytes / 8; ++i) wrong += read_.words()[i] != word(file_offset + 8 * i, whose);
    return wrong;
  }

 private:
  bool write_at(int fd, std::uint64_t whose, std::uint64_t at, std::uint64_t bytes) {
    for (std::uint64_t i = 0; i < bytes / 8; ++i) written_.words()[i] = word(at + 8 * i, whose);
    return ::pwrite(fd, written_.words(), bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
  }
  static bool take(int fd, std::uint64_t offset, std::uint64_t bytes) {
    return ::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0;
  }

  LoopFileSystem place_;
  DirectMemory written_{kBytes / 8};
  DirectMemory read_{kBytes / 8};
};

}  // namespace penstock
