// SPDX-License-Identifier: Apache-2.0

// Preloaded into the tests (LD_PRELOAD): reads of a file whose name ends in ".slow" do not begin while a file of the
// same name with ".held" behind it exists. So a test holds up the kernel's part of a request as long as it likes. That
// one has come so far, a file with ".reached" behind the name tells.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace {

void wait_while_held(int fd) {
  char link[64], name[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, name, sizeof name - 1);
  if (length < 5 || std::memcmp(name + length - 5, ".slow", 5) != 0) return;
  const std::string held = std::string(name, static_cast<std::size_t>(length)) + ".held";
  if (access(held.c_str(), F_OK) == 0) close(creat((held.substr(0, held.rfind('.')) + ".reached").c_str(), 0600));
  while (access(held.c_str(), F_OK) == 0) usleep(1000);
}

using Preadv2 = ssize_t (*)(int, const iovec*, int, off64_t, int);

ssize_t read_when_let(const char* name, int fd, const iovec* pieces, int count, off64_t offset, int flags) {
  wait_while_held(fd);
  return reinterpret_cast<Preadv2>(dlsym(RTLD_NEXT, name))(fd, pieces, count, offset, flags);
}

}  // namespace

extern "C" ssize_t preadv2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  return read_when_let("preadv2", fd, pieces, count, offset, flags);
}

extern "C" ssize_t preadv64v2(int fd, const iovec* pieces, int count, off64_t offset, int flags) {
  return read_when_let("preadv64v2", fd, pieces, count, offset, flags);
}
