// SPDX-License-Identifier: Apache-2.0

#include "storage/file.h"

#include <linux/magic.h>
#include <unistd.h>

#include <cerrno>

namespace penstock::core {
namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// Bytes written between two calls that start a flush. Each call searches all dirty pages of the file.
constexpr std::uint64_t kFlushBytes = 8u << 20;

// True for errors that may not recur at the next attempt.
bool passes(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == EAGAIN || error == EINTR;
}

// True if a buffered write locks the whole inode. Lustre locks ranges, and block devices have no such lock.
bool has_one_writer(std::uint64_t magic) {
  return magic == EXT4_SUPER_MAGIC || magic == XFS_SUPER_MAGIC || magic == BTRFS_SUPER_MAGIC ||
         magic == F2FS_SUPER_MAGIC || magic == TMPFS_MAGIC;
}

}  // namespace

File::File(Storage& storage, const FileFacts& facts, UniqueFd own)
    : descriptors_(storage), hints_(storage), facts_(facts), id_(next_id()), own_(std::move(own)),
      // Where direct I/O is really a buffered copy (tmpfs, ext4 with data=journal), O_DIRECT is ignored.
      own_io_mode_(facts.opened_o_direct() && facts.can_do_o_direct() ? IoMode::o_direct : IoMode::buffered),
      takes_turns_(facts.type == FileType::regular && has_one_writer(facts.file_system_magic)) {}

File::~File() {
  close_second();
  if (!is_ours(own_.get())) (void)own_.release();
}

void File::close_second() {
  const int second = second_.exchange(-1);
  if (second >= 0 && is_ours(second)) ::close(second);
}

// Closes the second descriptor first, because its separate open file would prevent the release; it is reopened when
// needed.
void File::release_blocks_behind_end() {
  if (!blocks_behind_end_.load(std::memory_order_relaxed) || !fstat_descriptors()) return;
  close_second();
  if (hints_.release_blocks_behind_end(own_.get())) blocks_behind_end_.store(false, std::memory_order_relaxed);
}

void File::start_flush_after(std::uint64_t bytes) {
  if (unflushed_.fetch_add(bytes, std::memory_order_relaxed) + bytes < kFlushBytes) return;
  unflushed_.store(0, std::memory_order_relaxed);
  hints_.start_flush(own_.get());
}

Result<std::unique_ptr<File>> File::open(Storage& storage, int fd) {
  const Result<FileFacts> facts = storage.facts(fd);
  if (!facts.ok()) return facts.status();
  Result<UniqueFd> own = storage.duplicate(fd);
  if (!own.ok()) return own.status();
  return std::unique_ptr<File>(new File(storage, *facts, std::move(*own)));
}

std::unique_ptr<File> File::open(Storage& storage, std::unique_ptr<UserspaceFile> userspace) {
  std::unique_ptr<File> file(new File(storage, {.type = FileType::userspace, .open_flags = O_RDWR}, UniqueFd()));
  file->userspace_ = std::move(userspace);
  return file;
}

Result<int> File::descriptor(IoMode io_mode) {
  if (io_mode == own_io_mode_) return own_.get();
  if (const int second = second_.load(std::memory_order_acquire); second >= 0) return second;
  if (const int error = second_error_.load(std::memory_order_acquire); error != 0) {
    return os_failure(error, "open the file a second time");
  }
  return open_second();
}

Result<int> File::open_second() {
  Result<UniqueFd> opened = descriptors_.reopen(own_.get(), facts_.open_flags, own_io_mode_ == IoMode::buffered);
  if (!opened.ok()) {
    if (!passes(opened.status().code)) second_error_.store(opened.status().code, std::memory_order_release);
    return opened.status();
  }
  int expected = -1;
  if (second_.compare_exchange_strong(expected, opened->get(), std::memory_order_acq_rel)) return opened->release();
  return expected;  // Another thread opened it first; ours is closed.
}

bool File::is_resident(std::uint64_t offset, std::uint64_t size) {
  const Result<int> fd = descriptor(IoMode::buffered);
  return fd.ok() && hints_.is_resident(*fd, offset, size);
}

// The user's own descriptor shares its position with own_, so the second one is used.
bool File::is_data(std::uint64_t offset, std::uint64_t size) {
  const Result<int> fd = second_descriptor();
  return !fd.ok() || hints_.is_data(*fd, offset, size);
}

std::uint32_t File::direct_offset_align() {
  if (!facts_.can_do_o_direct() || o_direct_refused_.load(std::memory_order_relaxed)) return 1;
  return descriptor(IoMode::o_direct).ok() ? facts_.direct_offset_align : 1;
}

}  // namespace penstock::core
