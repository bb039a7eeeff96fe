// SPDX-License-Identifier: Apache-2.0

#include "kv/session_volume.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/new_file.h"
#include "base/regular_file.h"
#include "base/whole_transfer.h"
#include "kv/journal_file.h"

namespace penstock::kv {
namespace {

using core::Result;
using core::Status;

constexpr mode_t kPrivate = 0600;         // Private, because a KV cache reveals prompts.
constexpr std::size_t kByCallerMost = 4;  // Number of requests; a chunk has two, for header and payload.
constexpr std::uint64_t kGivenBytes = std::uint64_t{2} << 20;
constexpr const char* kWriteStep = "write the store's journal";

Result<core::RegularFile> open_private(const std::string& path, int flags, const char* step) {
  return core::open_regular(path, flags | O_NOFOLLOW, kPrivate, step);
}

// Creates the folder durably: a store whose folder is lost in a power failure loses all committed chunks.
Status make_folder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0) {
    return errno == EEXIST ? core::success() : core::os_failure(errno, "make the store's folder");
  }
  const core::UniqueFd parent(::open((folder + "/..").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // EINVAL: the file system cannot flush folders. src/base/new_file.cc accepts that, too.
  if (parent.valid() && (fsync(parent.get()) == 0 || errno == EINVAL)) return core::success();
  return core::os_failure(errno, "flush the folder of the store's");
}

}  // namespace

Result<std::unique_ptr<SessionVolume>> SessionVolume::open(const Library& library, penstock_session* session,
                                                           const std::string& folder, Role role,
                                                           std::uint64_t slab_bytes, bool is_direct) {
  std::unique_ptr<SessionVolume> volume(new SessionVolume(library, session, folder, role));
  const Status status =
      role == Role::memory ? volume->open_memory(slab_bytes) : volume->open_files(role, slab_bytes, is_direct);
  if (!status.ok()) return status;
  return volume;
}

// The slab is a file, so that one request gathers and scatters a chunk's pieces, whatever memory they are in. It takes
// memory as chunks come: reserving all of it at once would get processes killed on machines with less.
Status SessionVolume::open_memory(std::uint64_t slab_bytes) {
  const auto machine = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(getpagesize());
  if (slab_bytes > machine) return core::os_failure(ENOMEM, "have a slab in host memory");
  memory_ = core::UniqueFd(memfd_create("penstock-kv", MFD_CLOEXEC));
  if (!memory_.valid() || ftruncate(memory_.get(), static_cast<off_t>(slab_bytes)) != 0)
    return core::os_failure(errno, "have a slab in host memory");
  void* const mapped = mmap(nullptr, slab_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
  if (mapped == MAP_FAILED) return core::os_failure(errno, "map a slab in host memory");
  in_memory_ = {static_cast<std::byte*>(mapped), slab_bytes};
  is_given_ = std::vector<std::atomic<bool>>((slab_bytes + kGivenBytes - 1) / kGivenBytes);
  (void)madvise(mapped, slab_bytes, MADV_DONTDUMP);  // Core dumps must not contain prompts either.
  return status_of(library_.file_register(session_, memory_.get(), &slab_));
}

// A copy into a page that the kernel has no memory for would end the process by SIGBUS. So it is asked for the pages
// before, for many chunks at once. Where it has none, the chunk is moved by a request, which can fail.
std::span<std::byte> SessionVolume::for_copies(std::uint64_t offset, std::uint64_t bytes) {
  if (in_memory_.empty()) return {};
  for (std::uint64_t part = offset / kGivenBytes; part * kGivenBytes < offset + bytes; ++part) {
    if (is_given_[part]) continue;
    const auto from = static_cast<off_t>(part * kGivenBytes);
    const auto size = std::min(static_cast<off_t>(kGivenBytes), static_cast<off_t>(in_memory_.size()) - from);
    while (fallocate(memory_.get(), 0, from, size) != 0) {
      if (errno != EINTR) return {};
    }
    is_given_[part] = true;
  }
  return in_memory_.subspan(offset, bytes);
}

Status SessionVolume::open_files(Role role, std::uint64_t slab_bytes, bool is_direct) {
  const bool is_writer = role == Role::writer;
  if (is_writer) {
    const Status status = make_folder(folder_);
    if (!status.ok()) return status;
    auto lease = open_private(path("lease"), O_RDWR | O_CREAT, "open the store's lease");
    if (!lease.ok()) return lease.status();
    lease_ = std::move(lease->fd);
    if (flock(lease_.get(), LOCK_EX | LOCK_NB) != 0) return core::os_failure(errno, "become the store's writer");
  }
  const int flags = is_writer ? O_RDWR | O_CREAT : O_RDONLY;
  constexpr const char* kOpenSlab = "open the store's slab";
  auto slab = open_private(path("slab"), flags | (is_direct ? O_DIRECT : 0), kOpenSlab);
  // The file system has no direct I/O.
  if (slab.status().is_errno(EINVAL)) slab = open_private(path("slab"), flags, kOpenSlab);
  if (!slab.ok()) return slab.status();
  const int fd = slab->fd.get();
  if (is_writer) {
    if (!core::is_within_file_size_limit(slab_bytes)) return core::os_failure(EFBIG, "give the store's slab its size");
    const int error = posix_fallocate(fd, 0, static_cast<off_t>(slab_bytes));
    if (error != 0) return core::os_failure(error, "give the store's slab its size");
    // The slab was larger: chunks past the new end become misses.
    if (ftruncate(fd, static_cast<off_t>(slab_bytes)) != 0) return core::os_failure(errno, "cut the store's slab");
  }
  const Status status = status_of(library_.file_register(session_, fd, &slab_));
  return status.ok() && is_writer ? status_of(library_.file_advise(slab_, PENSTOCK_ADVICE_OWN_STORE)) : status;
}

SessionVolume::~SessionVolume() {
  library_.file_close(slab_);
  if (!in_memory_.empty()) munmap(in_memory_.data(), in_memory_.size());
}

MovedBytes SessionVolume::moved() const {
  const core::MutexLock lock(mutex_);
  return moved_;
}

void SessionVolume::transfer_each(std::span<penstock_request> requests, const Ended& ended) {
  for (penstock_request& one : requests) one.file = slab_;
  std::vector<EndedRequest> told;
  const auto count_and_tell = [&](std::span<const penstock_completion> completions) {
    told.clear();
    {
      const core::MutexLock lock(mutex_);
      for (const penstock_completion& each : completions) {
        moved_.count(library_, each.report);
        told.push_back({each.cookie, {status_of(each.status), each.report.bytes}});
      }
    }
    ended(told);
  };
  // Copying a chunk or two takes less time than waking another thread.
  const std::size_t caller_max = role_ == Role::memory ? kByCallerMost : 0;
  const Status status = queues_.transfer_all(requests, count_and_tell, caller_max);
  if (status.ok()) return;
  for (std::size_t i = 0; i < requests.size(); ++i) told.push_back({i, {status, 0}});
  ended(told);
}

Status SessionVolume::sync() {
  if (role_ == Role::memory) return core::success();
  return status_of(library_.file_sync(slab_));
}

Status SessionVolume::crc32c(std::span<const iovec> pieces, std::span<std::uint32_t> sums) {
  const auto count = static_cast<std::uint32_t>(pieces.size());
  return status_of(library_.crc32c_vector(session_, pieces.data(), count, sums.data()));
}

Result<Volume::Journal> SessionVolume::read_journal(std::uint64_t offset) {
  if (role_ == Role::memory) return Journal{};
  return read_journal_file(path("journal"), offset);
}

Status SessionVolume::write_journal(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (role_ == Role::memory) return core::success();
  Status status = core::write_all(journal_.get(), bytes, offset, kWriteStep);
  if (status.ok() && fdatasync(journal_.get()) != 0) status = core::os_failure(errno, "flush the store's journal");
  return status;
}

Status SessionVolume::replace_journal(std::span<const std::byte> bytes, bool& is_replaced) {
  is_replaced = role_ == Role::memory;
  if (is_replaced) return core::success();
  core::NewFile::Options options;
  options.mode = kPrivate;
  Result<std::unique_ptr<core::NewFile>> file = core::NewFile::create(path("journal"), options);
  if (!file.ok()) return file.status();
  Status status = core::write_all((*file)->fd(), bytes, 0, kWriteStep);
  if (!status.ok()) return status;
  // Before the new journal is there: without a descriptor of it nothing could be committed any more.
  core::UniqueFd kept(fcntl((*file)->fd(), F_DUPFD_CLOEXEC, 0));
  if (!kept.valid()) return core::os_failure(errno, "keep the store's journal open");
  status = (*file)->publish(true);
  is_replaced = (*file)->is_published();
  if (is_replaced) journal_ = std::move(kept);
  return status;
}

}  // namespace penstock::kv
