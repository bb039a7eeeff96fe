// SPDX-License-Identifier: Apache-2.0

// The system calls that change a file's name. File systems lack some of them; a test can make them fail.
#pragma once

#include <sys/types.h>

namespace penstock::core {

class NameCalls {
 public:
  static NameCalls& of_kernel();

  // Each behaves as the system call of its name: -1, with errno, if it fails. All names are relative to the folder.
  virtual int open(int folder, const char* name, int flags, mode_t mode);
  virtual int link(int folder, const char* from, const char* name);
  virtual int link_open(int fd, int folder, const char* name);  // Links through the descriptor's entry in /proc.
  virtual int rename(int folder, const char* from, const char* name, unsigned flags);
  virtual int unlink(int folder, const char* name);
  virtual int flush(int fd);

 protected:
  ~NameCalls() = default;  // Nobody owns one by this type, and the kernel's calls outlive every thread.
};

}  // namespace penstock::core
