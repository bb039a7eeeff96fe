// SPDX-License-Identifier: Apache-2.0

#include "device/host/pinned_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/align.h"
#include "base/invariant.h"
#include "base/page_size.h"
#include "storage/uring_ring.h"

namespace penstock::core {
namespace {

constexpr std::size_t kPipe = 1u << 20;
constexpr const char* kStep = "hold the file's pages";

bool skip(int fd, std::size_t size) {
  char sink[64 * 1024];
  while (size > 0) {
    const ssize_t got = ::read(fd, sink, std::min(size, sizeof sink));
    if (got <= 0) return false;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool read_all(int fd, void* to, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t got = ::read(fd, static_cast<char*>(to) + done, size - done);
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

Status PinnedPages::open_pipe(Pipe& pipe) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return os_failure(errno, kStep);
  pipe = {UniqueFd(ends[0]), UniqueFd(ends[1])};
  if (::fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(kPipe)) < 0) return os_failure(errno, kStep);
  return success();
}

Status PinnedPages::fill(Pipe& pipe, const std::byte* memory, std::size_t size) {
  if (const Status status = open_pipe(pipe); !status.ok()) return status;
  for (std::size_t done = 0; done < size;) {
    const iovec rest{const_cast<std::byte*>(memory) + done, size - done};
    const ssize_t taken = ::vmsplice(pipe.in.get(), &rest, 1, SPLICE_F_NONBLOCK);
    if (taken <= 0) return os_failure(taken == 0 ? EFAULT : errno, kStep);
    done += static_cast<std::size_t>(taken);
  }
  return success();
}

// Holds registered memory as a driver pins it: the ring moves bytes to and from these pages, whatever is mapped later.
Status PinnedPages::hold_for_writing(Held& held, const std::byte* memory) {
  Result<std::unique_ptr<Ring>> ring = UringRing::open(1);
  if (!ring.ok()) return ring.status();
  held.ring = std::move(*ring);
  held.between.reset(::memfd_create("penstock-pinned-pages", MFD_CLOEXEC));
  if (!held.between.valid() || ::ftruncate(held.between.get(), static_cast<off_t>(kPipe)) != 0) {
    return os_failure(errno, kStep);
  }
  return held.ring->register_memory(const_cast<std::byte*>(memory), held.size);
}

Status PinnedPages::add(const std::byte* memory, std::size_t size, bool writable) {
  const auto held = std::make_shared<Held>();
  held->size = align_up(size, page_size());
  if (writable) {
    if (const Status status = hold_for_writing(*held, memory); !status.ok()) return status;
  }
  for (std::size_t done = 0; !writable && done < held->size; done += kPipe) {
    held->pipes.emplace_back();
    const Status status = fill(held->pipes.back(), memory + done, std::min(kPipe, held->size - done));
    if (!status.ok()) return status;
  }
  const MutexLock lock(mutex_);
  held_[reinterpret_cast<std::uintptr_t>(memory)] = held;
  return success();
}

void PinnedPages::remove(const std::byte* memory) {
  const MutexLock lock(mutex_);
  held_.erase(reinterpret_cast<std::uintptr_t>(memory));
}

// A pipe is read from its start and only once: so this reads from a second pipe with the same pages.
bool PinnedPages::copy_from(const Pipe& pipe, char* to, std::size_t offset, std::size_t size) {
  Pipe again;
  if (!open_pipe(again).ok()) return false;
  const ssize_t taken = ::tee(pipe.out.get(), again.in.get(), kPipe, SPLICE_F_NONBLOCK);
  return taken >= static_cast<ssize_t>(offset + size) && skip(again.out.get(), offset) &&
         read_all(again.out.get(), to, size);
}

PinnedPages::Found PinnedPages::find(const void* memory, std::size_t size) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const MutexLock lock(mutex_);
  auto after = held_.upper_bound(address);
  if (after == held_.begin()) return {};
  --after;
  const std::size_t offset = address - after->first;
  if (offset >= after->second->size || size > after->second->size - offset) return {};
  return {after->second, offset};
}

// Makes one transfer between the file in between and a range of pages; a read fills the pages.
bool PinnedPages::move(Held& held, Op op, std::byte* page, std::size_t size) {
  held.ring->push({.op = op,
                   .fd = held.between.get(),
                   .memory = page,
                   .size = static_cast<std::uint32_t>(size),
                   .offset = 0,
                   .tag = 0});
  RingCompletion completion;
  const Result<unsigned> count = held.ring->reap({&completion, 1}, true);
  return count.ok() && *count == 1 && completion.result == static_cast<std::int32_t>(size);
}

bool PinnedPages::fetch(void* to, const void* from, std::size_t size) {
  const auto [held, offset] = find(from, size);
  if (held == nullptr) return false;
  const MutexLock lock(held->mutex);
  for (std::size_t done = 0; done < size;) {
    const std::size_t at = (offset + done) % kPipe;
    const std::size_t part = std::min(size - done, kPipe - at);
    char* const there = static_cast<char*>(to) + done;
    if (held->ring != nullptr) {
      auto* const page = static_cast<std::byte*>(const_cast<void*>(from)) + done;
      PENSTOCK_INVARIANT(move(*held, Op::write, page, part));
      PENSTOCK_INVARIANT(::pread(held->between.get(), there, part, 0) == static_cast<ssize_t>(part));
    } else {
      PENSTOCK_INVARIANT(copy_from(held->pipes[(offset + done) / kPipe], there, at, part));
    }
    done += part;
  }
  return true;
}

bool PinnedPages::put(void* to, const void* from, std::size_t size) {
  const auto [held, offset] = find(to, size);
  if (held == nullptr || held->ring == nullptr) return false;
  const MutexLock lock(held->mutex);
  for (std::size_t done = 0; done < size;) {
    const std::size_t part = std::min(size - done, kPipe);
    const char* const here = static_cast<const char*>(from) + done;
    PENSTOCK_INVARIANT(::pwrite(held->between.get(), here, part, 0) == static_cast<ssize_t>(part));
    PENSTOCK_INVARIANT(move(*held, Op::read, static_cast<std::byte*>(to) + done, part));
    done += part;
  }
  return true;
}

}  // namespace penstock::core
