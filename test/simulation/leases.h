// SPDX-License-Identifier: Apache-2.0

// Leases on files of a simulated disk, as fcntl() gives them: for writing where no other open file of it exists. While
// one is held, whoever opens the file or cuts it waits until it is given back, or is told that it would. The library
// takes one to give back the blocks behind a file's end, and may cut the file under it alone.
#pragma once

#include "simulation/files.h"

namespace penstock::simulation {

// As F_SETLEASE and F_GETLEASE of a descriptor of that disk; an errno.
int set_lease(int fd, int type);
int lease_of(int fd);
// The descriptor's open file has one for writing.
bool has_lease(const Disk::Open& open);
// Somebody opens the file or changes its size. False: that would have to wait.
bool pass_leases(const File& file, bool may_wait);
// The library cannot give back what it has allocated for it: its descriptors are another file's.
void forgive_blocks(const File& file);
// No blocks are left behind the end of a file that nobody has open any more, unless a lease was refused.
void require_no_blocks_behind_end(const File& file);

}  // namespace penstock::simulation
