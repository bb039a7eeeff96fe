// SPDX-License-Identifier: Apache-2.0

#include "simulation/leases.h"

#include <fcntl.h>

#include <cerrno>
#include <map>
#include <set>

namespace penstock::simulation {
namespace {

// Of each file that has one, the open file that has it. They outlive the destructors of exit().
auto& leases = *new std::map<const File*, std::uint64_t>;
auto& forgiven = *new std::set<const File*>;  // A file's place may be another's by then, which is forgiven as well.

}  // namespace

int set_lease(int fd, int type) {
  scheduler().point(Call::file);
  const Disk::Open* const open = disk().find(fd);
  const File* const file = open->file.get();
  if (type == F_UNLCK) {
    leases.erase(file);
    scheduler().wake(&leases);
    return 0;
  }
  if (type != F_WRLCK || disk().is_open_beside(*open) || leases.contains(file) || disk().refuses(8))
    return forgive_blocks(*file), EAGAIN;
  leases[file] = open->description;
  return 0;
}

int lease_of(int fd) { return has_lease(*disk().find(fd)) ? F_WRLCK : F_UNLCK; }

bool has_lease(const Disk::Open& open) {
  const auto found = leases.find(open.file.get());
  return found != leases.end() && found->second == open.description;
}

bool pass_leases(const File& file, bool may_wait) {
  while (may_wait && leases.contains(&file)) scheduler().wait(Call::file, &leases);
  return !leases.contains(&file);
}

void forgive_blocks(const File& file) { forgiven.insert(&file); }

void require_no_blocks_behind_end(const File& file) {
  if (file.has_blocks_behind_end() && !disk().is_open(file) && !forgiven.contains(&file))
    scheduler().fail("blocks behind the end of a file are left that the library has allocated");
}

}  // namespace penstock::simulation
