// SPDX-License-Identifier: Apache-2.0

#include "path/nvfs/nvfs_path.h"

#include <algorithm>
#include <cerrno>

#include "path/nvfs/nvfs_channel.h"
#include "path/nvfs/nvfs_mover.h"
#include "path/nvfs/nvfs_reasons.h"
#include "path/paths.h"
#include "path/pipeline/pipeline_reasons.h"

namespace penstock::core {
namespace {

constexpr std::uintptr_t kOtherIdentity = 1;  // A file's slot value: the module identifies the file by other numbers.

}  // namespace

// ---- Verdicts ------------------------------------------------------------------------------------------------------

Verdict NvfsPath::judge(File& file, const PointerFacts& memory, Op op) {
  const auto refuse = [](Reason reason, int detail = 0) { return refused(PathId::nvfs, reason, detail); };
  if (const Reason reason = refusal_of_all(file, memory); reason != Reason::none) return refuse(reason);
  if (const Proof proof = module_proof(); proof.reason != Reason::none) return refuse(proof.reason, proof.error);
  if (const Proof proof = memory_proof(*memory.device); proof.reason != Reason::none) {
    return refuse(proof.reason, proof.error);
  }
  if (!rules_.direct_io) return refuse(Reason::direct_io_off);
  if (file.direct_offset_align() == 1) return refuse(reason_of(Obstacle::no_direct_io));
  if (!file.facts().suits_nvidia_fs()) return refuse(pipeline_reason::small_blocks);
  if (file.slot(PathId::nvfs).load(std::memory_order_relaxed) == kOtherIdentity) return refuse(nvfs_reason::identity);
  const Proof proof = pair_proof(*memory.device, file, op);
  if (proof.reason != Reason::none) return refuse(proof.reason, proof.error);
  return usable(PathId::nvfs, module_->is_stand_in() ? nvfs_reason::simulated : Reason::none);
}

// Read once per process; without the module this costs one failed open in /proc.
Proof NvfsPath::module_proof() {
  if (!is_module_known_.load(std::memory_order_acquire)) {
    const MutexLock lock(module_mutex_);
    if (!is_module_known_.load(std::memory_order_relaxed)) {
      module_ = NvfsModule::open(kernel_, rules_.use, module_proof_);
      is_module_known_.store(true, std::memory_order_release);
    }
  }
  return module_proof_;
}

Proof NvfsPath::memory_proof(const Device& device) const {
  if (module_->is_inherited()) return {nvfs_reason::refused, ECHILD};
  const DeviceFacts& facts = device.facts();
  if (facts.is_nvidia == module_->is_stand_in() || !facts.is_pinned_for_modules) return {nvfs_reason::memory};
  const int error = module_->map_refusal();
  return error != 0 ? Proof{nvfs_reason::map_refused, error} : Proof{};
}

Proof NvfsPath::pair_proof(Device& device, File& file, Op op) {
  return pairs_.find_or_test(&device, key_of(file.facts()), op, [&] {
    NvfsMover mover(module_, devices_, is_interface_known_);
    return run_self_test(storage_, mover, device, file, rules_.scratch);
  });
}

Reason NvfsPath::take_in_holes(const Device* device, File& file, std::uint64_t file_offset, const NvfsAnswer& answer,
                               const NvfsGroup& group) {
  for (unsigned i = 0; i < answer.hole_count; ++i) {
    const NvfsHole hole = group.hole(i);
    if (hole.offset >= answer.bytes) continue;
    const std::uint64_t bytes = std::min(hole.bytes, answer.bytes - hole.offset);
    if (!file.is_data(file_offset + hole.offset, bytes)) continue;
    for (const Op op : {Op::read, Op::write})
      pairs_.refuse(device, key_of(file.facts()), op, {nvfs_reason::not_direct});
    return nvfs_reason::not_direct;
  }
  return reason_of(Obstacle::holes);
}

// ---- Channels ------------------------------------------------------------------------------------------------------

// Plans for the channel's own memory: reads may be widened, and addresses need no alignment. The channel decides for
// each chunk whether it goes in place.
Shape NvfsPath::shape(const RoutedRequest& request) {
  const auto block = static_cast<std::uint32_t>(nvfs::kBlock);
  const std::uint32_t align = std::max(request.file->direct_offset_align(), block);
  const std::uint64_t chunk_max = std::min(request.chunk_max, kChunkMax);
  return {
      .limits = {
          .file_align = chunk_max % align == 0 ? align : 1, .memory_align = 1, .chunk_max = chunk_max, .staged = true}};
}

// Shadow buffers plus the bounce slots, which are pinned only when something first falls back.
std::uint64_t NvfsPath::channel_bytes(const ChannelOptions& options) const {
  return NvfsChannel::shadow_bytes(options) + (rules_.strict ? 0 : options.chunk_max);
}

Result<std::unique_ptr<Channel>> NvfsPath::open_channel(const ChannelOptions& options) {
  PENSTOCK_INVARIANT(options.device != nullptr);
  if (module_proof().reason != Reason::none) return failure(Code::path_refused, "open nvidia-fs");
  Result<std::unique_ptr<Channel>> preferred = NvfsChannel::open(*this, options, rules_.strict);
  if (!preferred.ok()) return preferred.status();
  PreferredTerms& terms = *this;
  return std::unique_ptr<Channel>(
      std::make_unique<FallbackChannel>(terms, storage_, std::move(*preferred), one_at_a_time(options), rules_.strict));
}

void NvfsPath::add_buffer(const PointerFacts& memory, std::uint64_t base, std::uint64_t size) {
  if (memory.kind != MemoryKind::device || memory.device == nullptr) return;
  const bool is_hopeless = is_module_known_.load(std::memory_order_acquire) && module_ == nullptr;
  if (!is_hopeless) buffers_.add(*memory.device, base, size);
}

Reason NvfsPath::ineligible(const RoutedRequest&, const Chunk& chunk) {
  return chunk.io_mode == IoMode::o_direct ? Reason::none : reason_of(Obstacle::misaligned);
}

// A full disk fails bounce, too.
int NvfsPath::refusal_errno(const Status& status) {
  if (status.is(Code::out_of_memory)) return ENOMEM;
  if (status.is(Code::no_progress)) return EIO;
  if (status.domain != Domain::os) return 0;
  switch (status.code) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return 0;
    default: return status.code;
  }
}

// An interrupted wait or a shortage of memory does not mean that the next request fails.
void NvfsPath::refuse_late(const Device* device, File& file, Op op, int error) {
  switch (error) {
    case EINTR:
    case ENOMEM: return;
    case ESTALE: file.slot(PathId::nvfs).store(kOtherIdentity); return;
    case EREMOTEIO: pairs_.refuse(device, key_of(file.facts()), op, {nvfs_reason::not_direct}); return;
    default: pairs_.refuse(device, key_of(file.facts()), op, {nvfs_reason::refused, error}); return;
  }
}

// ---- The row -------------------------------------------------------------------------------------------------------

namespace {

std::shared_ptr<NvfsKernel> kernel_of(const PathSettings& settings) {
  return settings.nvfs_kernel != nullptr ? settings.nvfs_kernel : real_nvfs_kernel(settings.root);
}

}  // namespace

std::unique_ptr<Path> make_nvfs_path(const PathEnvironment& environment) {
  const PathSettings& settings = environment.settings;
  const NvfsRules rules{.strict = settings.require == PathId::nvfs,
                        .direct_io = settings.direct_io,
                        .use = settings.nvfs,
                        .scratch = settings.scratch};
  return std::make_unique<NvfsPath>(environment.storage, environment.devices, kernel_of(settings), rules);
}

Reason nvfs_outlook(const PathSettings& settings) {
  return NvfsModule::look(*kernel_of(settings), settings.nvfs).reason;
}

}  // namespace penstock::core
