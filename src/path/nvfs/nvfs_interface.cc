// SPDX-License-Identifier: Apache-2.0

#include "path/nvfs/nvfs_interface.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "path/nvfs/nvfs_memory.h"
#include "path/nvfs/nvfs_reasons.h"
#include "path/pipeline/pipeline_reasons.h"

namespace penstock::core {
namespace {

constexpr std::pair<NvfsMisfit, Reason> kMisfits[] = {{NvfsMisfit::offset, nvfs_reason::takes_offset},
                                                      {NvfsMisfit::size, nvfs_reason::takes_size},
                                                      {NvfsMisfit::inode, nvfs_reason::takes_inode},
                                                      {NvfsMisfit::buffered, nvfs_reason::takes_buffered},
                                                      {NvfsMisfit::alignment, nvfs_reason::takes_alignment}};

// Names what an answer shows of the interface; `otherwise` if it shows nothing of the arguments.
Proof proof_of_answer(int error, Reason otherwise) {
  if (error == EMSGSIZE) return {nvfs_reason::argument_size};
  if (error == EPROTO) return {nvfs_reason::argument_layout};
  return {otherwise, error};
}

// GPU memory of which every byte is known.
class Canary {
 public:
  Canary(Device& device, std::byte* memory) : memory_(memory) {
    if (Result<std::unique_ptr<CopyQueue>> copies = device.open_copy_queue(1); copies.ok())
      copies_ = std::move(*copies);
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i * 37 + i / 251 + 1);
  }
  bool write() {
    return copies_ != nullptr &&
           wait_for_copies(*copies_, copies_->copy_to_device(memory_, bytes_.data(), bytes_.size())).ok();
  }
  bool is_unchanged() {
    std::vector<std::byte> seen(bytes_.size());
    return wait_for_copies(*copies_, copies_->copy_to_host(seen.data(), memory_, seen.size())).ok() && seen == bytes_;
  }

 private:
  std::byte* const memory_;
  std::unique_ptr<CopyQueue> copies_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(nvfs::kGpuPage);
};

UniqueFd open_buffered(int fd) {
  return UniqueFd(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC));
}

Proof provoke_all(NvfsGroup& group, int fd) {
  const UniqueFd buffered = open_buffered(fd);
  if (!buffered.valid()) return {nvfs_reason::refused, errno};
  Result<NvfsFile> file = NvfsFile::of(fd);
  if (!file.ok()) return {nvfs_reason::refused, file.status().code};
  for (const auto& [misfit, reason] : kMisfits) {
    file->fd = misfit == NvfsMisfit::buffered ? buffered.get() : fd;
    const int answer = group.provoke(misfit, *file);
    if (answer != error_of(misfit)) return proof_of_answer(answer, reason);
  }
  return {};
}

}  // namespace

Proof test_nvfs_interface(const std::shared_ptr<NvfsModule>& module, Device& device, int fd) {
  const Result<std::unique_ptr<OwnMemory>> own = OwnMemory::open(module, device, nvfs::kGpuPage);
  if (own.status().is(Code::out_of_memory)) return {pipeline_reason::self_test_no_room};
  if (!own.ok()) return proof_of_answer(own.status().code, nvfs_reason::map_refused);
  Canary canary(device, (*own)->data());
  if (!canary.write()) return {pipeline_reason::self_test_no_room};
  const Proof proof = provoke_all((*own)->group(), fd);
  if (proof.reason != Reason::none) return proof;
  return {canary.is_unchanged() ? Reason::none : nvfs_reason::moves_refused};
}

}  // namespace penstock::core
