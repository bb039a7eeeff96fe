// SPDX-License-Identifier: Apache-2.0

#include "session/user_descriptors.h"

#include <algorithm>

namespace penstock::core {

Result<std::uint64_t> UserDescriptors::add(int fd, const File& file,
                                           const std::function<Result<std::uint64_t>()>& insert) {
  const FileFacts facts = file.facts();
  const int own = file.own_descriptor();
  const MutexLock lock(mutex_);
  // A descriptor number that was closed and reused is a different descriptor.
  const auto same = [&](const Known& known) {
    return known.fd == fd && known.is_of(facts) && descriptors_.is_same_open_file(known.own, own);
  };
  if (std::any_of(all_.begin(), all_.end(), same)) return failure(Code::already_registered, "register the file");
  // Done first, because there may be no memory for it.
  if (all_.size() == all_.capacity()) all_.reserve(std::max<std::size_t>(2 * all_.size(), 16));
  const Result<std::uint64_t> handle = insert();
  if (handle.ok()) all_.push_back({fd, *handle, own, facts.file_system_device, facts.inode});
  return handle;
}

void UserDescriptors::remove(std::uint64_t handle) {
  const MutexLock lock(mutex_);
  std::erase_if(all_, [&](const Known& known) { return known.handle == handle; });
}

std::uint64_t UserDescriptors::when_alone(const File& file, const std::function<void()>& work) {
  const MutexLock lock(mutex_);
  const auto is_other = [&](const Known& known) {
    return known.is_of(file.facts()) && known.own != file.own_descriptor();
  };
  const auto other = std::find_if(all_.begin(), all_.end(), is_other);
  if (other != all_.end()) return other->handle;
  work();
  return 0;
}

}  // namespace penstock::core
