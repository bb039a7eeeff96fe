// SPDX-License-Identifier: Apache-2.0

// Which CPUs a process may use, and how many of them are its share where several ranks run on one host. For the
// default number of workers, and for code that places threads. Nothing here widens what a user, a launcher or a
// container allowed. Text from /sys, /proc and launchers is taken as hostile: a line that makes no sense counts as
// missing.
#pragma once

#include <bitset>
#include <string>
#include <string_view>

#include "base/environment.h"

namespace penstock::core {

constexpr unsigned kCpusMax = 8192;
using CpuSet = std::bitset<kCpusMax>;

// "0-3,8", as /sys writes it; empty where it is no such list.
CpuSet parse_cpu_list(std::string_view text);
// The same list of a set: "" for an empty one.
std::string cpu_list_text(const CpuSet& cpus);
// Returns the first line of a small file, as /sys has them, without blanks at its end; "" if it cannot be read.
std::string read_first_line(const std::string& path);

// The CPUs of the calling thread; threads it starts inherit them. Empty where the kernel does not tell.
CpuSet allowed_cpus();
// False where the kernel refuses.
bool allow_cpus(const CpuSet& cpus);

// How many processes of one job share this host, as torchrun, Open MPI, MPICH, MVAPICH and Slurm say; 1 where none of
// them does.
unsigned ranks_on_host(Environment environment);
// Returns how many CPUs one of `ranks` may keep busy, 1 or more: at most those in `allowed`, its part of the CPUs that
// all ranks have (the cgroup's, else the machine's), and its part of the cgroup's quota. A rank that its launcher bound
// to its own CPUs keeps them all. `root` is "" for the machine itself.
unsigned fair_share_of_cpus(const std::string& root, const CpuSet& allowed, unsigned ranks);

// CPUs' worth of time that the process may use at most, all of its threads together: a quota may be a part of one.
double cpu_limit(const std::string& root, const CpuSet& allowed);

}  // namespace penstock::core
