// SPDX-License-Identifier: Apache-2.0

#include "stress/changing_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace penstock::stress {
namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::size_t kHistoryMax = 100;  // Changes; then the file starts over.

struct Range {
  std::uint64_t first;
  std::uint64_t end;
};

Range draw_range(Random& random, std::uint64_t unit) {
  const std::uint64_t size_max = draw(random, 0, 3) == 0 ? kFileMax : draw(random, 0, 1) == 0 ? 1u << 20 : 32u << 10;
  const std::uint64_t first = draw(random, 0, kFileMax / unit - 1);
  const std::uint64_t units = draw(random, 1, std::min(kFileMax / unit - first, std::max(size_max / unit, 1ul)));
  return {first * unit, (first + units) * unit};
}

// Memory that direct I/O takes, one for each thread that writes.
std::span<std::byte> aligned_scratch() {
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  thread_local const std::unique_ptr<std::byte, Free> memory(
      static_cast<std::byte*>(std::aligned_alloc(kBlock, kFileMax)));
  return {memory.get(), kFileMax};
}

}  // namespace

Memory::Memory(penstock_session* session, bool on_device, std::size_t size) : session_(session), on_device_(on_device) {
  void* memory = nullptr;
  if (!on_device) memory = std::aligned_alloc(kBlock, (size + kBlock - 1) / kBlock * kBlock);
  else if (penstock_device_alloc(session, 0, size, &memory).code != 0) memory = nullptr;
  base_ = static_cast<std::byte*>(memory);
}

Memory::~Memory() {
  if (on_device_) (void)penstock_device_free(session_, 0, base_);
  else std::free(base_);
}

void Memory::put(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (on_device_) (void)penstock_device_upload(session_, base_ + offset, bytes.data(), bytes.size());
  else std::memcpy(base_ + offset, bytes.data(), bytes.size());
}

void Memory::get(std::uint64_t offset, std::span<std::byte> bytes) {
  if (on_device_) (void)penstock_device_download(session_, bytes.data(), base_ + offset, bytes.size());
  else if (!bytes.empty()) std::memcpy(bytes.data(), base_ + offset, bytes.size());
}

std::shared_ptr<ChangingFile> ChangingFile::create(penstock_session* session, const std::string& path,
                                                   std::uint8_t number) {
  std::shared_ptr<ChangingFile> file(new ChangingFile(number));
  file->fds_[0].reset(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file->fds_[0].valid()) return nullptr;
  file->fds_[1] = file->open_again(path, true);
  // A memory file system of an older kernel has no O_DIRECT.
  if (!file->fds_[1].valid()) file->fds_[1] = file->open_again(path, false);
  for (const int i : {0, 1}) {
    if (!file->fds_[i].valid()) return nullptr;
    if (penstock_file_register(session, file->fds_[i].get(), &file->handles_[i]).code != 0) return nullptr;
  }
  return file;
}

ChangingFile::~ChangingFile() {
  for (penstock_file* const handle : handles_) {
    penstock_file_close(handle);
  }
}

UniqueFd ChangingFile::open_again(const std::string& name, bool direct) const {
  const int flags = O_RDWR | O_CLOEXEC | (direct ? O_DIRECT : 0);
  UniqueFd fd(::open(name.c_str(), flags));
  struct stat opened {
  }, ours{};
  const bool same = fd.valid() && ::fstat(fd.get(), &opened) == 0 && ::fstat(fds_[0].get(), &ours) == 0 &&
                    opened.st_dev == ours.st_dev && opened.st_ino == ours.st_ino;
  if (same) return fd;
  return UniqueFd(::open(("/proc/self/fd/" + std::to_string(fds_[0].get())).c_str(), flags));
}

// ---- Changes -------------------------------------------------------------------------------------------------------

void ChangingFile::change(Random& random, Memory& memory) {
  if (history_.length() > kHistoryMax) return start_over(random);
  switch (draw(random, 0, 15)) {
    case 0:
    case 1:
    case 2: return punch(random);
    case 3: return resize(draw(random, 0, kFileMax));
    case 4: return resize(history_.size() - std::min(history_.size(), draw(random, 0, 3 * kBlock)));
    case 5: return start_over(random);
    case 6:
    case 7:
    case 8:
    case 9: return rewrite(random, Hand::direct, memory);
    case 10:
    case 11:
    case 12: return rewrite(random, Hand::library, memory);
    default: return rewrite(random, Hand::buffered, memory);
  }
}

void ChangingFile::start_over(Random& random) {
  resize(0);
  const std::uint64_t size = draw(random, 1, kFileMax);
  const std::uint32_t change = history_.begin_write(0, size);
  const std::span<std::byte> bytes = aligned_scratch().first(size);
  stamp_range(bytes, history_.file(), change, 0);
  history_.end(write_all(descriptor(false), 0, bytes));
}

void ChangingFile::rewrite(Random& random, Hand hand, Memory& memory) {
  const auto [first, end] = draw_range(random, hand == Hand::direct ? kBlock : draw(random, 0, 1) == 0 ? 1 : kBlock);
  const std::span<std::byte> bytes = aligned_scratch().first(end - first);
  const std::uint32_t change = history_.begin_write(first, end);
  stamp_range(bytes, history_.file(), change, first);
  history_.end(hand == Hand::library ? write_by_library(random, first, bytes, memory)
                                     : write_all(descriptor(hand == Hand::direct), first, bytes));
}

bool ChangingFile::write_all(int fd, std::uint64_t first, std::span<const std::byte> bytes) const {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t put = ::pwrite(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(first + done));
    if (put <= 0) return false;
    done += static_cast<std::size_t>(put);
  }
  return true;
}

bool ChangingFile::write_by_library(Random& random, std::uint64_t first, std::span<const std::byte> bytes,
                                    Memory& memory) const {
  memory.put(0, bytes);
  Report report;
  penstock_file* const file = handle(draw(random, 0, 1) == 0);
  const penstock_status status =
      penstock_write(file, memory.base(), bytes.size(), static_cast<std::int64_t>(first), 0, &report);
  // Another path is required for some of it, or for all.
  if (status.code == PENSTOCK_PATH_REFUSED) return write_all(descriptor(false), first, bytes);
  return status.code == 0 && report.bytes == bytes.size();
}

void ChangingFile::punch(Random& random) {
  const auto [first, end] = draw_range(random, draw(random, 0, 1) == 0 ? 1 : kBlock);
  (void)history_.begin_hole(first, end);
  history_.end(::fallocate(fds_[0].get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
                           static_cast<off_t>(end - first)) == 0);
}

void ChangingFile::resize(std::uint64_t size) {
  (void)history_.begin_resize(size);
  history_.end(::ftruncate(fds_[0].get(), static_cast<off_t>(size)) == 0);
}

}  // namespace penstock::stress
