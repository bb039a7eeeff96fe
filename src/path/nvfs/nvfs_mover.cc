// SPDX-License-Identifier: Apache-2.0

#include "path/nvfs/nvfs_mover.h"

#include <cerrno>

#include "base/align.h"
#include "path/nvfs/nvfs_interface.h"
#include "path/nvfs/nvfs_memory.h"
#include "path/nvfs/nvfs_reasons.h"
#include "path/pipeline/pipeline_reasons.h"

namespace penstock::core {
namespace {

constexpr const char* kStep = "move a self-test's bytes by nvidia-fs";

}  // namespace

Proof NvfsMover::prepare(std::byte* memory) {
  const PointerFacts facts = devices_.describe(memory);
  if (facts.device == nullptr) return {nvfs_reason::memory};
  const auto range = gpu_range_of(facts.device->facts(), facts.base, facts.size);
  if (!range) return {nvfs_reason::memory};
  device_ = facts.device;
  range_ = *range;
  return {};
}

// With the first move, since the test of the interface needs a file.
Proof NvfsMover::map(int fd) {
  if (!is_interface_known_) {
    if (const Proof proof = test_nvfs_interface(module_, *device_, fd); proof.reason != Reason::none) return proof;
    is_interface_known_ = true;
  }
  Result<std::unique_ptr<NvfsGroup>> group = NvfsGroup::open(module_, range_, nvfs::kGpuPage);
  if (!group.ok()) return {nvfs_reason::map_refused, group.status().code};
  group_ = std::move(*group);
  return {};
}

Proof NvfsMover::proof_of(const Status& status) {
  if (map_proof_.reason != Reason::none) return map_proof_;
  if (status.is_errno(ESTALE)) return {nvfs_reason::identity};
  if (status.is_errno(EREMOTEIO)) return {nvfs_reason::not_direct};
  return {nvfs_reason::refused, errno_or(status, EFAULT)};
}

Proof NvfsMover::proof_of_copy() { return {pipeline_reason::self_test_copied}; }

Proof NvfsMover::look_back() { return {was_counted_ ? Reason::none : nvfs_reason::not_counted}; }

std::optional<std::uint64_t> NvfsMover::count(Op op) const {
  const NvidiaFsStats stats = nvidia_fs_stats(module_->kernel().text(nvfs::kStatsFile));
  return op == Op::read ? stats.reads() : stats.writes();
}

Result<std::size_t> NvfsMover::move(Op op, int fd, std::byte* memory, std::size_t size, std::uint64_t offset) {
  if (group_ == nullptr) map_proof_ = map(fd);
  if (map_proof_.reason != Reason::none) return failure(Code::path_refused, kStep);
  const Result<NvfsFile> file = NvfsFile::of(fd);
  if (!file.ok()) return file.status();
  NvfsRequest request{.op = op,
                      .file = *file,
                      .file_offset = offset,
                      .gpu_offset = reinterpret_cast<std::uintptr_t>(memory) - group_->range().address};
  if (!is_aligned(offset | size | request.gpu_offset, nvfs::kBlock)) return os_failure(EINVAL, kStep);
  const std::optional<std::uint64_t> before = count(op);
  std::size_t moved = 0;
  while (moved < size) {
    request.size = group_->fit(request.gpu_offset, size - moved);
    const NvfsAnswer answer = group_->run(request);
    if (!answer.status.ok()) return answer.status;
    if (answer.hole_count > 0 || (op == Op::write && answer.bytes == 0)) return os_failure(EREMOTEIO, kStep);
    moved += answer.bytes;
    if (answer.bytes < request.size) break;
    request.file_offset += answer.bytes;
    request.gpu_offset += answer.bytes;
  }
  const std::optional<std::uint64_t> after = count(op);
  was_counted_ = !before || !after || *after > *before;
  return moved;
}

}  // namespace penstock::core
