// SPDX-License-Identifier: Apache-2.0

// The user's descriptors of registered files: prevents registering one twice, and allows an action on a whole file only
// if no other registration shares its inode. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/mutex.h"
#include "storage/file.h"

namespace penstock::core {

class UserDescriptors {
 public:
  explicit UserDescriptors(Descriptors& descriptors) : descriptors_(descriptors) {}

  // Remembers the descriptor under the handle that insert() gives the file. Fails with already_registered.
  Result<std::uint64_t> add(int fd, const File& file, const std::function<Result<std::uint64_t>()>& insert);
  void remove(std::uint64_t handle);
  // Calls `work` if the file has only this registration; no other is added meanwhile. Returns the handle of another
  // one, or 0.
  std::uint64_t when_alone(const File& file, const std::function<void()>& work);

 private:
  struct Known {
    int fd = -1;
    std::uint64_t handle = 0;
    int own = -1;  // The session's own descriptor on the same open file.
    dev_t device = 0;
    std::uint64_t inode = 0;

    bool is_of(const FileFacts& facts) const { return device == facts.file_system_device && inode == facts.inode; }
  };

  Descriptors& descriptors_;
  Mutex mutex_;
  std::vector<Known> all_ GUARDED_BY(mutex_);
};

}  // namespace penstock::core
