// SPDX-License-Identifier: Apache-2.0

// The CPUs that a process may use, and its share of them if several ranks run on one host. For the default number of
// workers, and for code that places threads. Nothing here widens what a user, a launcher or a container allowed. Text
// from /sys, /proc and launchers is not trusted: a line that makes no sense counts as missing.
#pragma once

#include <bitset>
#include <string>
#include <string_view>

#include "base/environment.h"

namespace penstock::core {

constexpr unsigned kCpusMax = 8192;
using CpuSet = std::bitset<kCpusMax>;

// Parses a list as /sys writes it, "0-3,8"; empty if the text is no such list.
CpuSet parse_cpu_list(std::string_view text);
// Writes a set as such a list; "" for an empty set.
std::string cpu_list_text(const CpuSet& cpus);
// Returns the first line of a small file, such as those of /sys, without blanks at its end; "" if it cannot be read.
std::string read_first_line(const std::string& path);

// The CPUs of the calling thread; threads that it starts inherit them. Empty if the kernel does not say.
CpuSet allowed_cpus();
// False if the kernel refuses.
bool allow_cpus(const CpuSet& cpus);

// The number of processes of one job on this host, as torchrun, Open MPI, MPICH, MVAPICH and Slurm report it; 1 if none
// of them does.
unsigned ranks_on_host(Environment environment);
// Returns how many CPUs one of `ranks` may keep busy, 1 or more: at most those in `allowed`, its part of the CPUs that
// all ranks have (the cgroup's, else the machine's), and its part of the cgroup's quota. A rank that its launcher bound
// to its own CPUs keeps them all. `root` is "" for the machine itself.
unsigned fair_share_of_cpus(const std::string& root, const CpuSet& allowed, unsigned ranks);

// The most CPU time that all threads of the process may use, in CPUs: a quota need not be whole.
double cpu_limit(const std::string& root, const CpuSet& allowed);

}  // namespace penstock::core
