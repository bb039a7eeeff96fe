// SPDX-License-Identifier: Apache-2.0

// The system calls that decide about a file's name. File systems lack some of them; a test lacks them on purpose.
#pragma once

#include <sys/types.h>

namespace penstock::core {

class NameCalls {
 public:
  virtual ~NameCalls() = default;
  static NameCalls& of_kernel();

  // Each as the system call of its name: -1, with errno, where it fails. All names are the folder's.
  virtual int open(int folder, const char* name, int flags, mode_t mode);
  virtual int link(int folder, const char* from, const char* name);
  virtual int link_open(int fd, int folder, const char* name);  // By the descriptor's entry in /proc.
  virtual int rename(int folder, const char* from, const char* name, unsigned flags);
  virtual int unlink(int folder, const char* name);
  virtual int flush(int fd);
};

}  // namespace penstock::core
