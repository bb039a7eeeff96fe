// SPDX-License-Identifier: Apache-2.0

#include "base/name_calls.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

namespace penstock::core {

NameCalls& NameCalls::of_kernel() {
  static class Kernel final : public NameCalls {
  } calls;
  return calls;
}

int NameCalls::open(int folder, const char* name, int flags, mode_t mode) {
  return ::openat(folder, name, flags, mode);
}

int NameCalls::link_open(int fd, int folder, const char* name) {
  char self[32];
  std::snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
  return ::linkat(AT_FDCWD, self, folder, name, AT_SYMLINK_FOLLOW);
}

int NameCalls::link(int folder, const char* from, const char* name) { return ::linkat(folder, from, folder, name, 0); }

// Without flags this uses the older call, which every kernel and every seccomp filter allows.
int NameCalls::rename(int folder, const char* from, const char* name, unsigned flags) {
  return flags == 0 ? ::renameat(folder, from, folder, name) : ::renameat2(folder, from, folder, name, flags);
}

int NameCalls::unlink(int folder, const char* name) { return ::unlinkat(folder, name, 0); }

int NameCalls::flush(int fd) { return ::fsync(fd); }

}  // namespace penstock::core
