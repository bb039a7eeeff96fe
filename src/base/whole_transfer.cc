// SPDX-License-Identifier: Apache-2.0

#include "base/whole_transfer.h"

#include <unistd.h>

#include <cerrno>

namespace penstock::core {

Result<std::size_t> read_all(int fd, std::span<std::byte> to, std::uint64_t offset, const char* step) {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t got = ::pread(fd, to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_failure(errno, step);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

Status write_all(int fd, std::span<const std::byte> from, std::uint64_t offset, const char* step) {
  for (std::size_t done = 0; done < from.size();) {
    const ssize_t put = ::pwrite(fd, from.data() + done, from.size() - done, static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return os_failure(put < 0 ? errno : EIO, step);
    done += static_cast<std::size_t>(put);
  }
  return success();
}

}  // namespace penstock::core
