// SPDX-License-Identifier: Apache-2.0

#include "path/p2pdma/p2pdma_path.h"

#include <algorithm>
#include <cerrno>

#include "path/paths.h"
#include "path/pipeline/pipeline_reasons.h"
#include "path/pipeline/storage_channel.h"
#include "path/pipeline/storage_terms.h"

namespace penstock::core {
namespace {

// The kernel moves bytes between a descriptor and the mapped memory of a device.
class MappedMover final : public SelfTestMover {
 public:
  MappedMover(FileIo& io, DeviceSet& devices) : SelfTestMover({}), io_(io), devices_(devices) {}

  Proof prepare(std::byte* memory) override {
    const PointerFacts facts = devices_.describe(memory);
    shift_ = facts.mapped - reinterpret_cast<std::uintptr_t>(memory);
    return {facts.mapped == 0 ? reason_of(Obstacle::pointer_not_exportable) : Reason::none};
  }
  Result<std::size_t> move(Op op, int fd, std::byte* memory, std::size_t size, std::uint64_t offset) override {
    std::byte* const mapped = memory + shift_;
    return op == Op::read ? io_.read(fd, mapped, size, offset) : io_.write(fd, mapped, size, offset);
  }
  Proof proof_of(const Status& status) override {
    return {pipeline_reason::self_test_refused, errno_or(status, EFAULT)};
  }
  Proof proof_of_copy() override { return {pipeline_reason::self_test_copied}; }

 private:
  FileIo& io_;
  DeviceSet& devices_;
  std::uint64_t shift_ = 0;
};

}  // namespace

P2pdmaPath::P2pdmaPath(Storage& storage, DeviceSet& devices, std::unique_ptr<Outlook> outlook, const P2pdmaRules& rules)
    : storage_(storage), devices_(devices), outlook_(std::move(outlook)), rules_(rules) {}

Verdict P2pdmaPath::judge(File& file, const PointerFacts& memory, Op op) {
  const auto refuse = [](Reason reason, int detail = 0) { return refused(PathId::p2pdma, reason, detail); };
  if (const Reason reason = refusal_of_all(file, memory); reason != Reason::none) return refuse(reason);
  const DeviceFacts& device = memory.device->facts();
  // Reading the machine takes tens of milliseconds, which a request on unmapped memory need not pay. But a question
  // about the device's memory as such, without a size (penstock_explain), gets the cause.
  if (memory.mapped != 0 || memory.size == 0) {
    if (const Reason reason = device_reason(device); reason != Reason::none) return refuse(reason);
  }
  if (memory.mapped == 0) return refuse(memory_reason(memory));
  if (!rules_.direct_io) return refuse(Reason::direct_io_off);
  if (file.direct_offset_align() == 1) return refuse(reason_of(Obstacle::no_direct_io));
  if (const Reason reason = file_reason(file, op); reason != Reason::none) return refuse(reason);
  const Proof proof = pair_proof(*memory.device, file, op);
  return proof.reason == Reason::none ? usable(PathId::p2pdma) : refuse(proof.reason, proof.error);
}

Reason P2pdmaPath::memory_reason(const PointerFacts& memory) {
  const bool is_told = rules_.explains_memory && memory.size != 0;
  switch (is_told ? devices_.allocation_of(reinterpret_cast<const void*>(memory.base)) : Allocation::unknown) {
    case Allocation::plain: return reason_of(Obstacle::memory_plain);
    case Allocation::managed: return reason_of(Obstacle::memory_managed);
    case Allocation::pool: return reason_of(Obstacle::memory_pool);
    case Allocation::closed: return reason_of(Obstacle::memory_closed);
    case Allocation::not_rdma_capable: return reason_of(Obstacle::memory_not_rdma_capable);
    case Allocation::exportable: return reason_of(Obstacle::memory_unregistered);
    case Allocation::unknown: break;
  }
  return reason_of(Obstacle::pointer_not_exportable);
}

Reason P2pdmaPath::device_reason(const DeviceFacts& device) {
  std::atomic<std::uint16_t>& known = device_reasons_[static_cast<unsigned>(device.ordinal) % kDevicesMax];
  std::uint16_t word = known.load(std::memory_order_relaxed);
  if (word == 0) {
    word = static_cast<std::uint16_t>(static_cast<unsigned>(outlook_->of_device(device)) + 1);
    known.store(word, std::memory_order_relaxed);
  }
  return static_cast<Reason>(word - 1);
}

// The file's slot caches reasons, 16 bits for each Op: the reason plus one, or 0.
Reason P2pdmaPath::file_reason(File& file, Op op) {
  std::atomic<std::uintptr_t>& slot = file.slot(PathId::p2pdma);
  const unsigned shift = 16 * static_cast<unsigned>(op);
  if (const std::uintptr_t known = slot.load(std::memory_order_relaxed) >> shift & 0xffff; known != 0) {
    return static_cast<Reason>(known - 1);
  }
  const Reason reason = outlook_->of_file(file, op);
  // Not cached: a file outgrows its inode. All other reasons are final.
  if (reason != reason_of(Obstacle::inline_data)) {
    slot.fetch_or((static_cast<std::uintptr_t>(reason) + 1) << shift, std::memory_order_relaxed);
  }
  return reason;
}

Proof P2pdmaPath::pair_proof(Device& device, File& file, Op op) {
  return pairs_.find_or_test(&device, key_of(file.facts()), op, [&]() -> SelfTest {
    if (const Reason reason = outlook_->of_route(device.facts(), file); reason != Reason::none) {
      return {{reason}, {reason}};
    }
    MappedMover mover(storage_, devices_);
    return run_self_test(storage_, mover, device, file, rules_.scratch);
  });
}

Reason P2pdmaPath::ineligible(const RoutedRequest& request, const Chunk& chunk) {
  if (chunk.io_mode != IoMode::o_direct) return reason_of(Obstacle::misaligned);
  if (request.op == Op::write) return Reason::none;
  return request.file->is_data(chunk.file_offset, chunk.size) ? Reason::none : reason_of(Obstacle::holes);
}

int P2pdmaPath::refusal_errno(const Status& status) {
  if (status.is(Code::bad_pointer)) return EFAULT;
  if (status.domain != Domain::os) return 0;
  switch (status.code) {
    case EREMOTEIO:
    case EINVAL:
    case EIO:
    case EOPNOTSUPP:
    case ENODEV: return status.code;
    default: return 0;
  }
}

void P2pdmaPath::refuse_late(const Device* device, File& file, Op op, int error) {
  pairs_.refuse(device, key_of(file.facts()), op, {pipeline_reason::refused_late, error});
}

Shape P2pdmaPath::shape(const RoutedRequest& request) {
  const FileFacts& facts = request.file->facts();
  // The self-test has proved block-aligned memory; the kernel itself would accept less.
  return {.limits = {.file_align = file_align_for(*request.file, IoMode::o_direct, request.chunk_max),
                     .memory_align = std::max(facts.direct_memory_align, facts.direct_offset_align),
                     .chunk_max = request.chunk_max,
                     .staged = false},
          .channel_facts = {.shift = static_cast<std::int64_t>(request.facts.mapped - request.facts.base)}};
}

// The memory of the bounced part, pinned only when something first falls back.
std::uint64_t P2pdmaPath::channel_bytes(const ChannelOptions& options) const {
  return rules_.strict ? 0 : options.depth * options.chunk_max;
}

Result<std::unique_ptr<Channel>> P2pdmaPath::open_channel(const ChannelOptions& options) {
  ChannelOptions in_place = options;
  in_place.device = nullptr;
  in_place.o_direct_only = true;
  Result<std::unique_ptr<Channel>> preferred = StorageChannel::open(storage_, in_place);
  if (!preferred.ok()) return preferred.status();
  PreferredTerms& terms = *this;
  return std::unique_ptr<Channel>(
      std::make_unique<FallbackChannel>(terms, storage_, std::move(*preferred), options, rules_.strict));
}

std::unique_ptr<Path> make_p2pdma_path(const PathEnvironment& environment) {
  const PathSettings& settings = environment.settings;
  const P2pdmaRules rules{.strict = settings.require == PathId::p2pdma,
                          .direct_io = settings.direct_io,
                          .explains_memory = settings.offers_memory,
                          .scratch = settings.scratch};
  return std::make_unique<P2pdmaPath>(environment.storage, environment.devices, machine_outlook(settings.root), rules);
}

// The path serves nothing unless some device memory is offered to storage.
Reason p2pdma_outlook(const PathSettings& settings) {
  return settings.offers_memory ? Reason::none : reason_of(Obstacle::pointer_not_exportable);
}

}  // namespace penstock::core
