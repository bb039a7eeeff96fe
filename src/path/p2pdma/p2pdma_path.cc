#include "path/p2pdma/p2pdma_path.h"

#include <fcntl.h>

#include <algorithm>

#include "path/p2pdma/p2pdma_lane.h"
#include "path/storage_terms.h"

namespace penstock::core {

P2pdmaPath::P2pdmaPath(Storage& storage, DeviceSet& devices, std::unique_ptr<Outlook> outlook, const P2pdmaRules& rules)
    : storage_(storage), devices_(devices), outlook_(std::move(outlook)), rules_(rules) {}

Verdict P2pdmaPath::judge(File& file, const PointerFacts& memory, Op op) {
  const auto refuse = [](Reason reason, int detail = 0) { return refused(PathId::p2pdma, reason, detail); };
  if (!memory.needs_device()) return refuse(Reason::host_memory);
  if (memory.device == nullptr) return refuse(reason_of(Obstacle::peer_unseen));
  if (file.facts().denied) return refuse(Reason::denied);
  const DeviceFacts& device = memory.device->facts();
  if (device.stand_in) return refuse(Reason::stand_in);
  if (const Reason reason = device_reason(device); reason != Reason::none) return refuse(reason);
  if (memory.mapped == 0) return refuse(reason_of(Obstacle::pointer_not_exportable));
  if (!rules_.direct_io) return refuse(Reason::direct_io_off);
  if (file.direct_offset_align() == 1) return refuse(reason_of(Obstacle::no_direct_io));
  if (const Reason reason = file_reason(file, op); reason != Reason::none) return refuse(reason);
  const Proof proof = pair_proof(*memory.device, file, op);
  return proof.reason == Reason::none ? usable(PathId::p2pdma) : refuse(proof.reason, proof.error);
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

Reason P2pdmaPath::file_reason(File& file, Op op) {
  std::atomic<std::uint8_t>& memo = file.memo(op);
  std::uint8_t word = memo.load(std::memory_order_relaxed);
  if (word == 0) {
    word = static_cast<std::uint8_t>(static_cast<unsigned>(outlook_->of_file(file, op)) + 1);
    memo.store(word, std::memory_order_relaxed);
  }
  return static_cast<Reason>(word - 1);
}

Proof P2pdmaPath::pair_proof(Device& device, File& file, Op op) {
  return pairs_.find_or_test(&device, key_of(file.facts()), op, [&]() -> SelfTest {
    if (const Reason reason = outlook_->of_route(device.facts(), file); reason != Reason::none) {
      return {{reason}, {reason}};
    }
    const UniqueFd scratch = open_scratch_for(file.facts());
    return run_self_test(storage_, devices_, device, file, scratch.get());
  });
}

// Invalid where none was named, or where it lies on another storage.
UniqueFd P2pdmaPath::open_scratch_for(const FileFacts& file) {
  if (rules_.scratch.empty()) return {};
  UniqueFd fd(::open(rules_.scratch.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC | O_NOCTTY));
  if (!fd.valid()) return {};
  const Result<FileFacts> facts = storage_.facts(fd.get());
  return facts.ok() && key_of(*facts) == key_of(file) ? std::move(fd) : UniqueFd();
}

void P2pdmaPath::refuse_late(const Device* device, File& file, Op op, int error) {
  pairs_.refuse(device, key_of(file.facts()), op, {Reason::refused_late, error});
}

Limits P2pdmaPath::limits(File& file, Op op, Way way, std::uint64_t chunk_max) {
  return {.file_align = file_align_for(file, op, way, chunk_max),
          .memory_align = file.facts().direct_memory_align,
          .chunk_max = chunk_max,
          .staged = false};
}

// Of the bounced part. It is pinned when something is first bounced, if ever.
std::uint64_t P2pdmaPath::lane_bytes(const LaneOptions& options) const {
  return rules_.strict ? 0 : options.depth * options.chunk_max;
}

Result<std::unique_ptr<Lane>> P2pdmaPath::open_lane(const LaneOptions& options) {
  return P2pdmaLane::open(*this, storage_, options, rules_.strict);
}

}  // namespace penstock::core
