// SPDX-License-Identifier: Apache-2.0

#include "path/vendor/vendor_path.h"

#include <algorithm>
#include <cerrno>

#include "path/paths.h"
#include "path/pipeline/pipeline_reasons.h"
#include "path/vendor/nvidia_fs_mover.h"
#include "path/vendor/vendor_channel.h"
#include "path/vendor/vendor_reasons.h"

namespace penstock::core {

VendorPath::~VendorPath() {
  for (const Result<void*>& handle : handles_) {
    if (handle.ok()) library_->deregister_file(*handle);
  }
}

// ---- Verdicts ------------------------------------------------------------------------------------------------------

Verdict VendorPath::judge(File& file, const PointerFacts& memory, Op op) {
  const auto refuse = [](Reason reason, int detail = 0) { return refused(PathId::vendor, reason, detail); };
  if (const Reason reason = refusal_of_all(file, memory); reason != Reason::none) return refuse(reason);
  if (rules_.use == VendorUse::off) return refuse(vendor_reason::off);
  if (!rules_.direct_io) return refuse(Reason::direct_io_off);
  const bool is_pinned = memory.device->facts().is_pinned_for_modules;
  if (!is_pinned && !may_be_copied()) return refuse(vendor_reason::gpu);
  if (const Proof proof = library_proof(); proof.reason != Reason::none) return refuse(proof.reason, proof.error);
  if (file.direct_offset_align() == 1) return refuse(reason_of(Obstacle::no_direct_io));
  const Proof proof = pairs_.find_or_test(memory.device, key_of(file.facts()), op, [&] {
    NvidiaFsMover mover(*library_, *memory.device, rules_.patience, rules_.root);
    return run_self_test(storage_, mover, *memory.device, file, rules_.scratch);
  });
  // A call was given up, in this test or in another.
  if (library_->is_given_up()) return refuse(vendor_reason::refused, ETIMEDOUT);
  if (proof.reason == Reason::none && !file.facts().suits_nvidia_fs()) return refuse(pipeline_reason::small_blocks);
  const bool is_fit = proof.reason == Reason::none || (proof.reason == vendor_reason::not_direct && may_be_copied());
  if (!is_fit) return refuse(proof.reason, proof.error);
  if (const Proof own = file_proof(file, *memory.device); own.reason != Reason::none) {
    return refuse(own.reason, own.error);
  }
  return usable(PathId::vendor, proof.reason);
}

// Tests one file: a proof for a storage need not hold for each of its files, because the library refuses files without
// a name.
Proof VendorPath::file_proof(File& file, Device& device) {
  Result<void*> handle = nullptr;
  if (const Result<void*>* known = known_handle_of(file)) {
    handle = *known;
  } else {
    const Status entered = device.run_inside([&] { handle = handle_of(file); });
    if (!entered.ok()) handle = entered;
  }
  if (handle.ok()) return {};
  return {vendor_reason::refused, errno_or(handle.status(), EIO)};
}

Proof VendorPath::library_proof() {
  if (!is_library_known_.load(std::memory_order_acquire)) {
    const MutexLock lock(library_mutex_);
    if (!is_library_known_.load(std::memory_order_relaxed)) {
      library_proof_ = open_library();
      is_library_known_.store(true, std::memory_order_release);
    }
  }
  return library_proof_;
}

// Opens the library last, and only if it could serve, because it is foreign code.
Proof VendorPath::open_library() {
  const Reason outlook = vendor_outlook(rules_);
  const bool is_forced = outlook == vendor_reason::nvidia_fs_missing && rules_.use == VendorUse::force;
  if (outlook != Reason::none && !is_forced) return {outlook};
  Proof why_not;
  library_ = VendorLibrary::open(vendor_file(rules_), rules_.patience, why_not);
  return library_ != nullptr ? Proof{} : why_not;
}

// Returns 0 for a full disk, on which the path bounce would fail, too.
int VendorPath::refusal_errno(const Status& status) {
  if (status.ok() || status.is(Code::device_lost)) return 0;
  if (status.domain != Domain::os) return EPROTO;  // The library returned an impossible result.
  switch (status.code) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return 0;
    default: return status.code;
  }
}

void VendorPath::refuse_late(const Device* device, File& file, Op op, int error) {
  pairs_.refuse(device, key_of(file.facts()), op, {pipeline_reason::refused_late, error});
}

// ---- Channels ------------------------------------------------------------------------------------------------------

// The memory of the bounced part, pinned only when something first falls back.
std::uint64_t VendorPath::channel_bytes(const ChannelOptions& options) const {
  return rules_.strict ? 0 : options.chunk_max;
}

Result<std::unique_ptr<Channel>> VendorPath::open_channel(const ChannelOptions& options) {
  PENSTOCK_INVARIANT(options.device != nullptr);
  if (library_proof().reason != Reason::none) return failure(Code::path_refused, "open NVIDIA's library");
  PreferredTerms& terms = *this;
  return std::unique_ptr<Channel>(std::make_unique<FallbackChannel>(
      terms, storage_, std::make_unique<VendorChannel>(*this, *options.device), one_at_a_time(options), rules_.strict));
}

IoMode VendorPath::io_mode_of(const Device* device, File& file, Op op) const {
  const std::optional<Proof> proof = pairs_.find_proof(device, key_of(file.facts()), op);
  return proof && proof->reason == Reason::none ? IoMode::o_direct : IoMode::buffered;
}

// ---- Handles -------------------------------------------------------------------------------------------------------

const Result<void*>* VendorPath::known_handle_of(const File& file) {
  return reinterpret_cast<const Result<void*>*>(file.slot(PathId::vendor).load(std::memory_order_acquire));
}

Result<void*> VendorPath::handle_of(File& file) {
  if (const Result<void*>* known = known_handle_of(file)) return *known;
  const MutexLock lock(handles_mutex_);
  if (const Result<void*>* known = known_handle_of(file)) return *known;
  const Result<int> fd = file.descriptor(IoMode::o_direct);
  if (!fd.ok()) return fd.status();
  handles_.push_back(library_->register_file(*fd));
  file.slot(PathId::vendor).store(reinterpret_cast<std::uintptr_t>(&handles_.back()), std::memory_order_release);
  return handles_.back();
}

void VendorPath::forget_file(File& file) {
  const MutexLock lock(handles_mutex_);
  const auto* const known = reinterpret_cast<const Result<void*>*>(file.slot(PathId::vendor).exchange(0));
  if (known == nullptr) return;
  if (known->ok()) library_->deregister_file(**known);
  handles_.remove_if([&](const Result<void*>& handle) { return &handle == known; });
}

// ---- The row -------------------------------------------------------------------------------------------------------

namespace {

VendorRules rules_of(const PathSettings& settings) {
  return {.use = settings.vendor,
          .strict = settings.require == PathId::vendor,
          .direct_io = settings.direct_io,
          .library = settings.vendor_library,
          .scratch = settings.scratch,
          .root = settings.root};
}

}  // namespace

std::unique_ptr<Path> make_vendor_path(const PathEnvironment& environment) {
  return std::make_unique<VendorPath>(environment.storage, rules_of(environment.settings));
}

// Forcing the path does not make it direct.
Reason vendor_outlook(const PathSettings& settings) { return vendor_outlook(rules_of(settings)); }

}  // namespace penstock::core
