// SPDX-License-Identifier: Apache-2.0

// Preloaded into a program of the tests (LD_PRELOAD): makes the step named by PENSTOCK_TEST_MOMENT fail when it is
// reached.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace {

bool is_the_moment(const char* name) {
  const char* moment = std::getenv("PENSTOCK_TEST_MOMENT");
  return moment != nullptr && std::strcmp(moment, name) == 0;
}

}  // namespace

extern "C" int fsync(int fd) {
  struct stat facts {};
  if (is_the_moment("folder's fsync fails") && fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode)) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}

extern "C" int unlinkat(int folder, const char* name, int flags) noexcept {
  while (is_the_moment("interrupted at rename, and removing hangs")) pause();
  return static_cast<int>(syscall(SYS_unlinkat, folder, name, flags));
}

extern "C" int renameat(int old_folder, const char* old_name, int new_folder, const char* new_name) noexcept {
  if (is_the_moment("killed at rename")) raise(SIGKILL);
  if (is_the_moment("interrupted at rename") || is_the_moment("interrupted at rename, and removing hangs")) {
    kill(getpid(), SIGINT);
    for (;;) pause();  // As if the file system hung.
  }
  return static_cast<int>(syscall(SYS_renameat2, old_folder, old_name, new_folder, new_name, 0));
}
