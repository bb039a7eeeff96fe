#include "device/pinned_pages.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/align.h"
#include "base/invariant.h"

namespace penstock::core {
namespace {

constexpr std::size_t kPage = 4096;
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

Status PinnedPages::add(const std::byte* memory, std::size_t size) {
  const auto held = std::make_shared<Held>();
  held->size = align_up(size, kPage);
  for (std::size_t done = 0; done < held->size; done += kPipe) {
    held->pipes.emplace_back();
    const Status status = fill(held->pipes.back(), memory + done, std::min(kPipe, held->size - done));
    if (!status.ok()) return status;
  }
  const std::lock_guard lock(mutex_);
  held_[reinterpret_cast<std::uintptr_t>(memory)] = held;
  return success();
}

void PinnedPages::remove(const std::byte* memory) {
  const std::lock_guard lock(mutex_);
  held_.erase(reinterpret_cast<std::uintptr_t>(memory));
}

// A pipe is read from its start and once: so from a second one with the same pages.
bool PinnedPages::copy_from(const Pipe& pipe, char* to, std::size_t offset, std::size_t size) {
  Pipe again;
  if (!open_pipe(again).ok()) return false;
  const ssize_t taken = ::tee(pipe.out.get(), again.in.get(), kPipe, SPLICE_F_NONBLOCK);
  return taken >= static_cast<ssize_t>(offset + size) && skip(again.out.get(), offset) &&
         read_all(again.out.get(), to, size);
}

bool PinnedPages::copy(void* to, const void* from, std::size_t size) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  std::shared_ptr<Held> held;
  std::size_t offset = 0;
  {
    const std::lock_guard lock(mutex_);
    auto after = held_.upper_bound(address);
    if (after == held_.begin()) return false;
    --after;
    offset = address - after->first;
    if (offset >= after->second->size || size > after->second->size - offset) return false;
    held = after->second;
  }
  const std::lock_guard lock(held->mutex);
  for (std::size_t done = 0; done < size;) {
    const std::size_t at = (offset + done) % kPipe;
    const std::size_t part = std::min(size - done, kPipe - at);
    const Pipe& pipe = held->pipes[(offset + done) / kPipe];
    PENSTOCK_INVARIANT(copy_from(pipe, static_cast<char*>(to) + done, at, part));
    done += part;
  }
  return true;
}

}  // namespace penstock::core
