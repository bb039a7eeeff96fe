// SPDX-License-Identifier: Apache-2.0

#include "path/dmabuf/dmabuf_path.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/align.h"
#include "path/dmabuf/dmabuf_channel.h"
#include "path/dmabuf/dmabuf_reasons.h"
#include "path/paths.h"
#include "path/pipeline/completions.h"
#include "path/pipeline/pipeline_reasons.h"
#include "path/pipeline/storage_terms.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kTestBytes = 64u << 10;
constexpr std::chrono::seconds kFileTriedAgainAfter{1};
constexpr std::uint64_t kOperationMin = 128u << 10;  // Taken where the limit is unknown; an IOMMU sets it.

// The errno of asking the kernel, or of setting io_uring up.
Reason reason_of_kernel(int error) {
  switch (error) {
    case 0: return Reason::none;
    case EINVAL: return dmabuf_reason::kernel;
    case EOPNOTSUPP: return dmabuf_reason::not_built;
    case ECANCELED: return Reason::io_uring_off;
    default: return Reason::io_uring_forbidden;
  }
}

// Fewer chunks are in flight than were asked for, where these would need too much memory.
ChannelOptions fitting(ChannelOptions options) {
  const std::uint64_t most = DmabufPath::kMemoryMax / options.chunk_max;
  options.depth = static_cast<unsigned>(std::clamp<std::uint64_t>(most, 1, options.depth));
  return options;
}

Proof proof_of_opening(const Status& status) {
  if (status.is(Code::out_of_memory)) return {pipeline_reason::self_test_no_room};
  return {dmabuf_reason::not_exported, errno_or(status, 0)};
}

// Has no memory on the device: all of its chunks are bounced, and told as that.
class ChannelWithoutMemory final : public Channel {
 public:
  ChannelWithoutMemory(Reason reason, unsigned depth) : reason_(reason), depth_(depth) { refused_.reserve(depth); }
  bool has_room() const override { return refused_.size() < depth_; }
  bool is_idle() const override { return refused_.empty(); }
  void submit(const RoutedRequest& request, const Chunk& chunk, std::uint64_t cookie) override {
    refused_.push_back(move_and_wait(request, chunk));
    refused_.back().cookie = cookie;
  }
  unsigned poll(std::span<Completion> completions, bool) override {
    const std::size_t count = std::min(completions.size(), refused_.size());
    const auto end = refused_.begin() + static_cast<std::ptrdiff_t>(count);
    std::copy(refused_.begin(), end, completions.begin());
    refused_.erase(refused_.begin(), end);
    return static_cast<unsigned>(count);
  }
  Completion move_and_wait(const RoutedRequest&, const Chunk& chunk) override {
    Completion refused = completion_of(chunk, failure(Code::path_refused, "have memory on the device"), 0, 0);
    refused.bounced = reason_;
    return refused;
  }
  void forget_file(std::uint64_t) override {}
  bool has_storage_under_way() const override { return !is_idle(); }
  bool is_broken() const override { return false; }

 private:
  const Reason reason_;
  const unsigned depth_;
  std::vector<Completion> refused_;  // Wait for poll().
};

}  // namespace

DmabufPath::DmabufPath(Storage& storage, std::unique_ptr<Outlook> outlook, const DmabufRules& rules, const Seams& seams)
    : Path(this), storage_(storage), outlook_(std::move(outlook)), rules_(rules), seams_(seams), drives_(storage) {}

// ---- Verdicts ------------------------------------------------------------------------------------------------------

Verdict DmabufPath::judge(File& file, const PointerFacts& memory, Op op) {
  const auto refuse = [](Reason reason, int detail = 0) { return refused(PathId::dmabuf, reason, detail); };
  if (const Reason reason = refusal_of_all(file, memory); reason != Reason::none) return refuse(reason);
  if (!rules_.is_on) return while_off(memory);
  if (const Proof proof = kernel_proof(); proof.reason != Reason::none) return refuse(proof.reason, proof.error);
  if (!rules_.direct_io) return refuse(Reason::direct_io_off);
  if (file.direct_offset_align() == 1) return refuse(reason_of(Obstacle::no_direct_io));
  if (const Proof proof = file_proof(file, op); proof.reason != Reason::none) return refuse(proof.reason, proof.error);
  const Proof proof = pair_proof(*memory.device, file, op);
  return proof.reason == Reason::none ? usable(PathId::dmabuf) : refuse(proof.reason, proof.error);
}

// Requests ask no kernel for a path that is off. A question about the device's memory as such, without a size
// (penstock_explain), does: where the kernel cannot, there is nothing to switch on.
Verdict DmabufPath::while_off(const PointerFacts& memory) {
  const Proof proof = memory.size == 0 ? kernel_proof() : Proof{};
  return proof.reason == Reason::none ? refused(PathId::dmabuf, dmabuf_reason::off)
                                      : refused(PathId::dmabuf, proof.reason, proof.error);
}

Proof DmabufPath::kernel_proof() {
  if (takes_dmabufs_.load(std::memory_order_relaxed)) return {};
  const int error = storage_.dmabuf_error();
  if (error == 0) takes_dmabufs_.store(true, std::memory_order_relaxed);
  return {reason_of_kernel(error), error};
}

Proof DmabufPath::file_proof(File& file, Op op) {
  const bool is_file = file.facts().type != FileType::block_device;
  if (is_file && !rules_.files) return {dmabuf_reason::file};
  if (is_file && op == Op::write && !is_written(file)) return {dmabuf_reason::reads_only};
  if (const Known* known = known_of(file); known != nullptr && known->file.load(std::memory_order_acquire) != nullptr) {
    return {};
  }
  const MutexLock lock(mutex_);
  std::atomic<std::uintptr_t>& slot = file.slot(PathId::dmabuf);
  if (slot.load(std::memory_order_relaxed) == 0) {
    slot.store(reinterpret_cast<std::uintptr_t>(new Known), std::memory_order_release);
  }
  return open(file, *known_of(file));
}

bool DmabufPath::is_written(const File& file) const {
  return rules_.writes && file.is_own_store() && file.facts().writable();
}

DmabufPath::Known* DmabufPath::known_of(File& file) {
  return reinterpret_cast<Known*>(file.slot(PathId::dmabuf).load(std::memory_order_acquire));
}

// A file that others write to is tried again after a while.
Proof DmabufPath::open(File& file, Known& known) {
  const std::chrono::nanoseconds now = seams_.clock.now();
  const bool is_due = known.tried_at.count() == 0 || (known.is_passing && now - known.tried_at >= kFileTriedAgainAfter);
  if (known.owned != nullptr || !is_due) return known.why_not;
  DmabufFile::Opened opened = file.facts().type == FileType::block_device
                                  ? open_raw_drive(file, drives_)
                                  : seams_.open_file(file, drives_, is_written(file));
  if (opened.file != nullptr) {
    DmabufDrive& drive = opened.file->drive();
    if (drive.operation_max == 0) drive.operation_max = operation_max(file, drive);
  }
  known.tried_at = now;
  known.why_not = opened.why_not;
  known.is_passing = opened.is_passing;
  known.owned = std::move(opened.file);
  known.file.store(known.owned.get(), std::memory_order_release);
  return known.why_not;
}

void DmabufPath::forget_file(File& file) {
  delete known_of(file);
  file.slot(PathId::dmabuf).store(0, std::memory_order_relaxed);
}

// A larger request would be split by a kernel thread.
std::uint64_t DmabufPath::operation_max(File& file, const DmabufDrive& drive) {
  const std::uint64_t drives = outlook_->request_max(file), sector = drive.facts.direct_offset_align;
  return std::max<std::uint64_t>(align_down(drives == 0 ? kOperationMin : std::min(drives, kOperationMax), sector),
                                 sector);
}

DmabufDrive& DmabufPath::drive_of(File& file) { return known_of(file)->file.load(std::memory_order_acquire)->drive(); }

// A drive is tested once, through whichever of its files.
Proof DmabufPath::pair_proof(Device& device, File& file, Op op) {
  return pairs_.find_or_test(&device, drive_of(file).key(), op, [&] { return test(device, file); });
}

SelfTest DmabufPath::test(Device& device, File& file) {
  if (const Reason reason = outlook_->of_drive(device.facts(), file); reason != Reason::none) {
    return {{reason}, {reason}};
  }
  const auto channel = DmabufChannel::open(*this, {.device = &device, .depth = 1, .chunk_max = kTestBytes});
  if (!channel.ok()) return {proof_of_opening(channel.status()), proof_of_opening(channel.status())};
  const DmabufDrive& drive = drive_of(file);
  const Proof read = (*channel)->prove_reads(drive);
  return {read, read.reason == Reason::none ? test_writes(**channel, drive) : read};
}

// Nothing is written to the drive but to blocks that the user names.
Proof DmabufPath::test_writes(DmabufChannel& channel, const DmabufDrive& drive) {
  const UniqueFd scratch = open_named_scratch(storage_, rules_.scratch, drive.facts);
  if (!scratch.valid()) return {pipeline_reason::no_scratch};
  const Result<std::uint64_t> size = storage_.size(scratch.get());
  return size.ok() ? channel.prove_writes(scratch.get(), *size) : Proof{pipeline_reason::no_scratch};
}

// While the pair is tested, nothing is known of it.
bool DmabufPath::may_try(const Device* device, const DmabufDrive& drive) const {
  if (!refuses_.load(std::memory_order_relaxed)) return true;
  const std::optional<Proof> proof = pairs_.find_proof(device, drive.key(), Op::read);
  return !proof || proof->reason == Reason::none;
}

void DmabufPath::distrust(const Device* device, const DmabufDrive& drive, const Proof& why) {
  for (const Op op : {Op::read, Op::write}) pairs_.refuse(device, drive.key(), op, why);
  refuses_.store(true, std::memory_order_relaxed);
}

// ---- Channels ------------------------------------------------------------------------------------------------------

// Plans for the channel's own memory: reads may be widened, and addresses need no alignment.
Shape DmabufPath::shape(const RoutedRequest& request) {
  const std::uint64_t chunk_max = std::min(request.chunk_max, kMemoryMax);
  const bool may_be_registered = request.op == Op::read && !request.memory.is_in_pieces();
  const auto address = reinterpret_cast<std::uintptr_t>(request.memory.address());
  DmabufBuffer* const buffer =
      may_be_registered ? buffers_.find(*request.facts.device, address, request.size) : nullptr;
  return {.limits = {.file_align = file_align_for(*request.file, IoMode::o_direct, chunk_max),
                     .memory_align = 1,
                     .chunk_max = chunk_max,
                     .staged = true},
          .channel_facts = {.file_state = known_of(*request.file)->file.load(std::memory_order_acquire),
                            .memory_state = buffer,
                            .buffer = buffer == nullptr ? nullptr : reinterpret_cast<std::byte*>(buffer->base())}};
}

void DmabufPath::add_buffer(const PointerFacts& memory, std::uint64_t base, std::uint64_t size) {
  if (rules_.is_on && memory.kind == MemoryKind::device && memory.device != nullptr)
    buffers_.add(*memory.device, base, size);
}

// The memory of the bounced part, pinned only when something first falls back.
std::uint64_t DmabufPath::channel_bytes(const ChannelOptions& options) const {
  return rules_.strict ? 0 : fitting(options).depth * options.chunk_max;
}

Result<std::unique_ptr<Channel>> DmabufPath::open_channel(const ChannelOptions& asked) {
  const ChannelOptions options = fitting(asked);
  Result<std::unique_ptr<DmabufChannel>> direct = DmabufChannel::open(*this, options);
  if (!direct.ok() && rules_.strict) return direct.status();
  PreferredTerms& terms = *this;
  std::unique_ptr<Channel> preferred;
  if (direct.ok()) preferred = std::move(*direct);
  // The device's memory may be full by now.
  else preferred = std::make_unique<ChannelWithoutMemory>(proof_of_opening(direct.status()).reason, options.depth);
  return std::unique_ptr<Channel>(
      std::make_unique<FallbackChannel>(terms, storage_, std::move(preferred), options, rules_.strict));
}

// The channel knows whether the file can be held, and where the chunk lies.
Reason DmabufPath::ineligible(const RoutedRequest&, const Chunk& chunk) {
  return chunk.io_mode == IoMode::o_direct ? Reason::none : reason_of(Obstacle::misaligned);
}

// A canary that failed has no errno.
int DmabufPath::refusal_errno(const Status& status) {
  if (status.is(Code::path_refused)) return EREMOTEIO;
  if (status.domain != Domain::os) return 0;
  switch (status.code) {
    case EAGAIN:
    case EINTR:
    case EBUSY:
    case ENOMEM:
    case EINVAL:
    case EIO:
    case EFAULT:
    case EBADF:
    case ENODEV:
    case ENOENT:
    case ESTALE:
    case EOPNOTSUPP: return status.code;
    default: return 0;
  }
}

// Canaries judge what may be a new mapping; only what the kernel refuses for good is remembered.
void DmabufPath::refuse_late(const Device* device, File& file, Op op, int error) {
  if (error != EINVAL && error != EOPNOTSUPP) return;
  pairs_.refuse(device, drive_of(file).key(), op, {dmabuf_reason::refused, error});
  refuses_.store(true, std::memory_order_relaxed);
}

// ---- The row -------------------------------------------------------------------------------------------------------

std::unique_ptr<Path> make_dmabuf_path(const PathEnvironment& environment) {
  const PathSettings& settings = environment.settings;
  const DmabufRules rules{.strict = settings.require == PathId::dmabuf,
                          .direct_io = settings.direct_io,
                          .is_on = settings.dmabuf,
                          .files = settings.dmabuf_files,
                          .writes = settings.dmabuf_write,
                          .scratch = settings.scratch};
  return std::make_unique<DmabufPath>(environment.storage, machine_outlook(settings.root), rules, DmabufPath::Seams{});
}

Reason dmabuf_outlook(const PathSettings& settings) {
  if (!settings.dmabuf && !settings.explains) return dmabuf_reason::off;
  const Reason reason = reason_of_kernel(PosixStorage(true).dmabuf_error());
  return reason == Reason::none && !settings.dmabuf ? dmabuf_reason::off : reason;
}

}  // namespace penstock::core
