// SPDX-License-Identifier: Apache-2.0

#include "simulation/machine.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "simulation/scheduler.h"

namespace penstock::simulation {
namespace {

constexpr std::string_view kFolders[] = {"/sys", "/proc", "/usr", "/boot", "/etc", "/run", "/var", "/.dockerenv"};
// Of the process itself, which the kernel below tells well.
constexpr std::string_view kOwn[] = {"/proc/self/fd", "/proc/self/pagemap", "/proc/self/exe"};

// The kernel has P2PDMA or not, or hides its symbols.
const char* symbols() {
  constexpr const char* kLists[] = {"0000000000000000 T vfs_read\n0000000000000000 T pci_p2pdma_add_resource\n",
                                    "0000000000000000 T vfs_read\n", ""};
  static const char* const list = kLists[scheduler().random().below(std::size(kLists))];
  return list;
}

}  // namespace

int open_text(const std::string& text) {
  static const auto really_write = REAL(pwrite);
  const int fd = ::memfd_create("simulated-text", MFD_CLOEXEC);
  if (fd < 0 || really_write(fd, text.data(), text.size(), 0) < 0) scheduler().fail("the machine has no text");
  return fd;
}

bool is_of_machine(std::string_view name) {
  const auto begins = [&](std::string_view one) { return name.starts_with(one); };
  // Who walks there has "/" open, and asks for a folder by its bare name.
  const auto is_in = [&](std::string_view folder) { return begins(folder) || name == folder.substr(1); };
  return std::any_of(std::begin(kFolders), std::end(kFolders), is_in) &&
         std::none_of(std::begin(kOwn), std::end(kOwn), begins);
}

bool open_of_machine(std::string_view name, int& fd) {
  if (!is_of_machine(name)) return false;
  if (name == "/proc/kallsyms") fd = open_text(symbols());
  else if (name == "/proc/meminfo") fd = open_text("MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n");
  else fd = -1, errno = ENOENT;
  return true;
}

}  // namespace penstock::simulation

using namespace penstock::simulation;

extern "C" int fstatat(int folder, const char* name, struct stat* facts, int flags) noexcept {
  static const auto really = REAL(fstatat);
  return is_of_machine(name) ? (errno = ENOENT, -1) : really(folder, name, facts, flags);
}
