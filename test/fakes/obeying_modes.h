// SPDX-License-Identifier: Apache-2.0

// While it lives, root must obey the modes of files and folders like other users, in this thread and the threads that
// it starts.
#pragma once

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::core {

class ObeyingModes {
 public:
  ObeyingModes() { set(false); }
  ~ObeyingModes() { set(true); }

  ObeyingModes(const ObeyingModes&) = delete;
  ObeyingModes& operator=(const ObeyingModes&) = delete;

 private:
  static void set(bool overrides) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2];
    if (::syscall(SYS_capget, &header, data) != 0) return;
    const unsigned bit = 1u << CAP_DAC_OVERRIDE;
    data[0].effective = overrides ? data[0].effective | (data[0].permitted & bit) : data[0].effective & ~bit;
    ::syscall(SYS_capset, &header, data);
  }
};

}  // namespace penstock::core
