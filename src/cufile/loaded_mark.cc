// SPDX-License-Identifier: Apache-2.0

// Under `penstock run`, a process shows that it has this library as soon as that is loaded: by a file PID.loaded, with
// the library's path, in the folder that `run` made for reports. A program may end before any look, or call nothing.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/environment.h"
#include "settings/settings.h"

namespace penstock::core {
namespace {

void leave_mark() {
  const char* const report = process_environment(kReportVariable);
  const char* const end = report == nullptr ? nullptr : ::strrchr(report, '/');
  if (end == nullptr) return;
  const std::string_view folder(report, static_cast<std::size_t>(end - report));
  if (!folder.substr(folder.rfind('/') + 1).starts_with(kRunFolder)) return;
  char name[256];
  const int length =
      std::snprintf(name, sizeof(name), "%.*s/%d%s", static_cast<int>(folder.size()), report, ::getpid(), kLoadedMark);
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof(name)) return;
  const int mark = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (mark < 0) return;
  Dl_info facts{};
  if (::dladdr(reinterpret_cast<const void*>(&leave_mark), &facts) != 0 && facts.dli_fname != nullptr) {
    [[maybe_unused]] const ssize_t written = ::write(mark, facts.dli_fname, ::strlen(facts.dli_fname));
  }
  ::close(mark);
}

[[gnu::constructor]] void show_that_it_is_loaded() {
  const int error = errno;
  leave_mark();
  errno = error;
}

}  // namespace
}  // namespace penstock::core
