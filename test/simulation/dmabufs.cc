// SPDX-License-Identifier: Apache-2.0

#include "simulation/dmabufs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "simulation/gpu.h"

namespace penstock::simulation {
namespace {

using core::Exporter;

constexpr std::uint64_t kPage = 4096, kDriveMin = 64 << 10, kScratchBytes = 1 << 20;
constexpr Nanoseconds kPatience = 5'000'000'000;  // Half of what the library has with a request that is to prove.
// A map that fails, an exporter or drive that is gone, and a drive that fails by itself.
constexpr int kErrors[] = {EAGAIN, EAGAIN, EINTR, EBUSY, ENOMEM, ENODEV, ENOENT, EFAULT, EIO, EINVAL, 0};

// The argument of io_uring_register, and what it points to.
struct Update {
  std::uint32_t slot, flags;
  std::uint64_t descriptors, tags;
  std::uint32_t count, zero;
};
struct Descriptor {
  std::uint32_t type, flags;
  std::uint64_t size, address;
  std::int32_t dmabuf, drive;
  std::uint64_t zero[6];
};
static_assert(sizeof(Update) == 32 && sizeof(Descriptor) == 80);
constexpr std::uint32_t kExtended = 2, kEmpty = 0, kDmabuf = 2;

// The library may give a ring up whose transfer takes so long, or whose slot is not cleared: it is as good as broken.
void note_broken_ring() { ++disk().faults[static_cast<std::size_t>(Fault::ring)]; }

std::uint64_t inode_of(int fd) {
  struct stat facts {};
  return ::fstat(fd, &facts) == 0 ? facts.st_ino : 0;
}

}  // namespace

Dmabufs& dmabufs() {
  static auto* const only = new Dmabufs;
  return *only;
}

void Dmabufs::plug_in() {
  Random& random = scheduler().random();
  kernel_ = std::make_unique<core::FakeDmabufs>();
  kernel_->is_known = !random.one_in(8);
  kernel_->question_error = random.one_in(2) ? EINVAL : EOPNOTSUPP;
  can_export_ = !random.one_in(8);
  constexpr unsigned kRates[] = {0, 0, 100, 12};
  fails_one_in_ = kRates[random.below(4)];
  calm_ = random.one_in(4) ? 0 : random.between(10, 300);
  if (!random.one_in(6)) return;
  kernel_->is_wrong_for_lent = random.one_in(2);
  const Exporter wrong = core::kWrongExporters[random.below(std::size(core::kWrongExporters))];
  // Beside a program's own request nobody could keep it from harm.
  const bool is_harmful = kernel_->is_wrong_for_lent && wrong == Exporter::page_too_far;
  kernel_->exporter = is_harmful ? Exporter::raw_address : wrong;
}

void Dmabufs::make_drives(std::uint64_t size_max) {
  Random& random = scheduler().random();
  const auto draw_calm = [&] { return random.one_in(4) ? 0 : random.between(30, 1000); };
  for (std::uint64_t i = random.between(1, 2); i > 0; --i) {
    const std::uint64_t size = random.between(kDriveMin, std::max(kDriveMin, size_max)) / kPage * kPage;
    drives_.push_back(disk().create(size));
    drives_.back()->be_raw_drive(drives_.back()->number());
    drives_.back()->be_calm(draw_calm());
  }
  scratch_ = disk().create(kScratchBytes);
  scratch_->be_scratch();
  scratch_->be_raw_drive(drives_.front()->number());
  scratch_->be_calm(draw_calm());
  scratch_fd_ = disk().open(scratch_, true);
}

int Dmabufs::export_memory(std::uint64_t address, std::uint64_t size) {
  const bool is_whole = (address | size) % kPage == 0 && size > 0 && gpu().is_reached(address, size);
  if (!is_there() || !can_export_ || !is_whole) return -1;
  core::UniqueFd fd = core::export_of_memory(gpu().descriptor(), gpu().offset_of(address), size);
  if (!fd.valid()) scheduler().fail("GPU memory cannot be exported");
  exports_.emplace_back(fd.get(), inode_of(fd.get()));
  return fd.release();
}

bool Dmabufs::is_refused() {
  if (calm_ > 0) return --calm_, false;
  const bool refused = fails_one_in_ != 0 && scheduler().random().one_in(fails_one_in_);
  disk().faults[static_cast<std::size_t>(Fault::refused)] += refused;
  return refused;
}

const char* Dmabufs::left_over() const {
  if (!is_there()) return nullptr;
  const auto is_open = [](const auto& one) { return inode_of(one.first) == one.second; };
  if (std::any_of(exports_.begin(), exports_.end(), is_open)) return "a dma-buf is left open";
  return slots_ != 0 && !disk().has_had(Fault::ring) ? "GPU memory stays registered with a ring" : nullptr;
}

// ---- A ring's slots -------------------------------------------------------------------------------------------------

RingSlots::~RingSlots() { dmabufs().count_slots(-static_cast<int>(slots_.size())); }

int RingSlots::update(const void* argument, std::uint64_t& told) {
  const Update& update = *static_cast<const Update*>(argument);
  const core::FakeDmabufs& kernel = dmabufs().kernel();
  if (update.flags != kExtended || update.count != 1) scheduler().fail("slots are asked for in another way than known");
  const Descriptor& wanted = *reinterpret_cast<const Descriptor*>(update.descriptors);
  if (!kernel.is_known) return -kernel.question_error;
  if (wanted.type == kEmpty) return clear(update.slot, told);
  if (wanted.type != kDmabuf || wanted.size != 0 || wanted.address != 0 || wanted.flags != 0) return -EINVAL;
  return set(update.slot, wanted.dmabuf, wanted.drive, *reinterpret_cast<const std::uint64_t*>(update.tags));
}

int RingSlots::set(unsigned slot, int dmabuf, int drive, std::uint64_t tag) {
  if (dmabuf < 0 || drive < 0) return -EBADF;
  const Disk::Open* const open = disk().find(drive);
  if (open == nullptr || !open->file->is_raw_drive()) return -EOPNOTSUPP;
  if (!open->is_direct) return -EINVAL;
  if (slots_.contains(slot)) scheduler().fail("a slot is taken that has memory");
  if (dmabufs().is_refused()) return scheduler().random().one_in(4) ? -EOPNOTSUPP : -ENOMEM;
  core::FakeExport exported;
  if (::pread(dmabuf, &exported, sizeof exported, 0) != sizeof exported) return -EINVAL;
  const core::Result<int> added = fakes_.add(dmabuf, drive, tag == 0);
  if (!added.ok()) return -added.status().code;
  const std::uint64_t address = gpu().address_at(exported.offset);
  const auto block = gpu().find(address);
  slots_[slot] = {*added, tag, address, gpu().knows(block) ? block->second.number : 0};
  dmabufs().count_slots(1);
  return 1;
}

int RingSlots::clear(unsigned slot, std::uint64_t& told) {
  const auto found = slots_.find(slot);
  if (found == slots_.end()) return 1;
  if (found->second.under_way > 0) scheduler().fail("memory is to be registered no more, and a drive still reaches it");
  if (disk().refuses(256)) return note_broken_ring(), -ENOMEM;
  if (!fakes_.remove(found->second.number).ok()) scheduler().fail("a slot is not cleared");
  told = found->second.tag;
  slots_.erase(found);
  dmabufs().count_slots(-1);
  return 1;
}

// The bytes go through memory of the simulation's, as the drive has them.
struct RingSlots::Transfer {
  core::RingOp op;
  std::shared_ptr<File> file;
  std::vector<char> bytes;
  iovec memory;  // Of the GPU: for judges alone.
  std::unique_ptr<Moving> moving;
  Fate fate;
  std::size_t moved = 0;
};

void RingSlots::start(const io_uring_sqe& entry, const std::function<void(int)>& complete) {
  Slot& slot = slots_.at(entry.buf_index);
  const Disk::Open* const open = disk().find(entry.fd);
  if (open == nullptr) return complete(-EBADF);
  core::FakeDmabufs& kernel = dmabufs().kernel();
  kernel.is_revoked = gpu().is_lost();
  if (dmabufs().is_refused()) kernel.errors = {-kErrors[scheduler().random().below(std::size(kErrors))]};
  const bool is_write = entry.opcode == IORING_OP_WRITE_FIXED;
  const core::RingOp op{.op = is_write ? core::Op::write : core::Op::read,
                        .fd = entry.fd,
                        .memory = reinterpret_cast<void*>(entry.addr),
                        .size = entry.len,
                        .offset = entry.off,
                        .slot = slot.number};
  if (const std::optional<int> refused = fakes_.refuse(op, open->file->sector())) return complete(*refused);
  const auto transfer = std::make_shared<Transfer>(Transfer{.op = op, .file = open->file, .bytes = {}, .memory = {}});
  transfer->bytes.resize(op.size);
  const iovec aligned{nullptr, op.size};
  transfer->fate = open->file->decide(is_write, true, {&aligned, 1}, op.offset);
  if (!std::exchange(slot.is_mapped, true)) be_slow(transfer->fate);
  perform(slot, transfer, complete);
}

// The exporter's map is made for the first request of a slot.
void RingSlots::be_slow(Fate& fate) {
  Random& random = scheduler().random();
  if (!random.one_in(32)) return;
  ++disk().faults[static_cast<std::size_t>(Fault::stalled)];
  fate.latency = random.between(1, 30'000) * 1'000'000;
}

// Half of the bytes move halfway. A program's memory, for whose map the library does not wait, is never reached: nobody
// could keep it from that.
void RingSlots::perform(Slot& slot, const std::shared_ptr<Transfer>& transfer,
                        const std::function<void(int)>& complete) {
  Fate& fate = transfer->fate;
  if (fate.latency > kPatience) note_broken_ring();
  if (slot.tag == 0 && fate.latency > kPatience) fate = {.error = ENODEV, .bytes = 0, .latency = fate.latency};
  const std::uint64_t at = reinterpret_cast<std::uintptr_t>(transfer->op.memory);
  if (fate.bytes > 0) transfer->memory = {reinterpret_cast<void*>(slot.address + at), transfer->op.size};
  transfer->moving = std::make_unique<Moving>(transfer->file, transfer->op.op == core::Op::write,
                                              std::span(&transfer->memory, 1), transfer->op.offset, true);
  ++slot.under_way;
  const Nanoseconds now = scheduler().now();
  const std::size_t half = fate.bytes / 2 / kPage * kPage;
  scheduler().at(now + fate.latency / 2, [=, this, &slot] { move(slot, *transfer, half); });
  scheduler().at(now + fate.latency, [=, this, &slot] {
    if (transfer->moved == half) move(slot, *transfer, transfer->fate.bytes);
    --slot.under_way;
    transfer->moving.reset();
    const int error = gpu().is_lost() ? ENODEV : transfer->fate.error;
    complete(error != 0 ? -error : static_cast<int>(transfer->moved));
  });
}

void RingSlots::move(const Slot& slot, Transfer& transfer, std::size_t to) {
  const std::size_t from = transfer.moved;
  if (from >= to || gpu().is_lost()) return;
  const std::uint64_t at = reinterpret_cast<std::uintptr_t>(transfer.op.memory) + from;
  const auto block = gpu().find(slot.address + at);
  const bool is_there = gpu().is_reached(slot.address + at, to - from) && block->second.number == slot.allocation;
  if (!is_there) scheduler().fail("a drive reaches GPU memory that is not allocated, or not any more");
  core::RingOp part = transfer.op;
  part.memory = reinterpret_cast<void*>(at);
  part.size = static_cast<std::uint32_t>(to - from);
  const bool is_write = part.op == core::Op::write;
  char* const bytes = transfer.bytes.data() + from;
  const iovec own{bytes, to - from};
  if (is_write) fakes_.fetch(part, bytes);
  const std::size_t moved = transfer.file->move(is_write, {&own, 1}, part.offset + from, 0, to - from);
  if (!is_write) fakes_.deliver(part, bytes, moved);
  transfer.moved += moved;
  dmabufs().count_moved(moved);
}

}  // namespace penstock::simulation
