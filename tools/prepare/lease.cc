// SPDX-License-Identifier: Apache-2.0

#include "tools/prepare/lease.h"

#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

// How long the kernel lets those wait who want to open a file that somebody has a lease of; 0 where that is unknown.
std::chrono::seconds patience_with_leases() {
  long seconds = 0;
  std::ifstream("/proc/sys/fs/lease-break-time") >> seconds;
  return std::chrono::seconds(std::clamp(seconds, 0L, 3600L));
}

}  // namespace

Lease::Lease(const std::string& path, int fd) : path_(path), fd_(fd), unwanted_at_(Clock::now()) {
  signal(SIGIO, SIG_IGN);  // How the kernel tells that somebody waits.
  if (fcntl(fd_, F_SETLEASE, F_WRLCK) == 0) return;
  if (errno != EAGAIN) fail_errno(path_, "take a lease of the file, which keeps others from writing to it");
  throw Failure(path_ + ": another program has it open and might write to it meanwhile; close it first");
}

Lease::~Lease() { fcntl(fd_, F_SETLEASE, F_UNLCK); }

void Lease::check() {
  if (is_unwanted()) return;
  throw Failure(path_ + ": another program wants to open it, so this was stopped; call it again");
}

bool Lease::keeps_others_out() { return is_unwanted() || Clock::now() - unwanted_at_ < patience_with_leases() / 2; }

bool Lease::is_unwanted() {
  const Clock::time_point now = Clock::now();
  if (fcntl(fd_, F_GETLEASE) != F_WRLCK) return false;
  unwanted_at_ = now;
  return true;
}

}  // namespace penstock::tools
