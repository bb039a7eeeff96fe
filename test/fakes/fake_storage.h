// SPDX-License-Identifier: Apache-2.0

// One file in memory, with faults on demand. Direct descriptors check alignment like a strict kernel. Its rings
// complete in a seeded random order, so nothing may depend on the order of submission. The contract suite
// (test/contract) runs on it as on the kernel's file systems, so it has the same guarantees, and no more.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "fakes/fake_dmabuf.h"
#include "storage/blocking_ring.h"
#include "storage/storage.h"

namespace penstock::core {

class FakeStorage : public Storage {
 public:
  static constexpr int kUserFd = 100;
  static constexpr std::uint32_t kAlign = 512;

  // A fault for the next transfer: an error, or a limit of bytes. As with any Storage and Ring, EINTR is retried, and
  // so is EAGAIN in a ring.
  struct Fault {
    int error = 0;
    std::size_t at_most = SIZE_MAX;
  };
  struct Access {
    Op op;
    bool o_direct;
    std::uint64_t offset;
    std::size_t size;
    const void* memory = nullptr;
    bool scratch = false;
  };

  std::vector<char> content;
  int open_flags = O_RDWR;
  bool reopen_fails = false;
  bool resident = false;
  std::deque<Fault> faults;
  std::function<void(Access)> on_access = [](Access) {};
  std::function<bool(std::uint64_t offset, std::uint64_t size)> hole = [](std::uint64_t, std::uint64_t) {
    return false;
  };
  bool scratch_allowed = true;
  std::vector<char> scratch;
  // Simulates a kernel or fabric that refuses transfers by their memory: an errno, or bytes that never arrive.
  std::function<int(const Access&)> refuses = [](const Access&) { return 0; };
  std::function<bool(const Access&)> loses = [](const Access&) { return false; };
  std::uint64_t seed = 1;
  std::vector<Access> accesses;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> flushes;  // Offset and size.
  int flush_error = 0;
  std::atomic<unsigned> flushes_started{0};
  std::atomic<unsigned> rings_opened{0};
  int ring_error = 0;                   // Of each opening of a ring,
  int reap_error = 0;                   // and of each look at what a ring has done.
  bool rings_have_limits = true;        // Of the time of a wait.
  std::vector<const void*> registered;  // With its rings, and still.
  bool descriptors_lost = false;
  FileType type = FileType::regular;
  dev_t block_device = 0;            // The number of the drive, if it is one.
  bool takes_named_scratch = false;  // Descriptors that others opened are scratch, as of a partition named to us.
  FakeDmabufs* dmabufs = nullptr;    // The kernel's, if it takes dma-bufs in rings.
  unsigned dmabuf_questions = 0;     // Calls of dmabuf_error().

  // From now on transfers are shortened, interrupted and delayed, by the seed; those of scratch files are not.
  void be_busy(std::uint64_t by_seed) {
    seed = by_seed;
    random_.emplace(by_seed);
  }
  // Another descriptor of a user beside kUserFd.
  UniqueFd open_user_fd(int flags) { return std::move(*open({.flags = flags})); }
  void keep(const void* memory) {
    const std::lock_guard lock(mutex_);
    registered.push_back(memory);
  }
  void let_go(const void* memory) {
    const std::lock_guard lock(mutex_);
    std::erase(registered, memory);
  }
  // For access to the file while transfers are in flight.
  template <typename Look>
  auto with_content(Look look) {
    const std::lock_guard lock(mutex_);
    return look(content);
  }

  Result<FileFacts> facts(int fd) override {
    std::optional<int> flags = flags_of(fd);
    if (!flags && fd >= 0 && takes_named_scratch) {
      const std::lock_guard lock(mutex_);
      flags = (descriptors_[fd] = {.flags = O_RDWR | O_DIRECT, .is_scratch = true}).flags;
    }
    if (!flags) return os_failure(EBADF, "look at the file descriptor");
    FileFacts facts;
    facts.type = type;
    facts.block_device = block_device;
    facts.open_flags = *flags;
    facts.size = size(fd).value();
    facts.block_size = 4096;
    facts.direct_memory_align = kAlign;
    facts.direct_offset_align = kAlign;
    facts.alignment_source = AlignmentSource::statx;
    return facts;
  }
  Result<UniqueFd> duplicate(int fd) override { return open({.flags = flags_of(fd).value_or(0)}); }
  Result<UniqueFd> reopen(int, int flags, bool o_direct) override {
    if (reopen_fails) return os_failure(EACCES, "open the file a second time");
    return open({.flags = (flags & ~O_DIRECT) | (o_direct ? O_DIRECT : 0)});
  }
  bool is_descriptor_of(int, const FileFacts&, std::uint64_t*) override { return !descriptors_lost; }
  Result<std::uint64_t> size(int) override {
    const std::lock_guard lock(mutex_);
    return static_cast<std::uint64_t>(content.size());
  }
  Result<std::size_t> read(int fd, void* memory, std::size_t size, std::uint64_t offset) override {
    return transfer(fd, Op::read, memory, size, offset);
  }
  // By the seed: in the cache or not, also in the middle of a request.
  Result<std::size_t> read_if_cached(int fd, void* memory, std::size_t size, std::uint64_t offset) override {
    if ((offset / 512 + seed) % 3 == 0) return os_failure(EAGAIN, "read what is not cached");
    return transfer(fd, Op::read, memory, size, offset);
  }
  Result<std::size_t> write(int fd, const void* memory, std::size_t size, std::uint64_t offset) override {
    return transfer(fd, Op::write, const_cast<void*>(memory), size, offset);
  }
  Status flush(int, std::uint64_t offset, std::uint64_t size) override {
    const std::lock_guard lock(mutex_);
    flushes.emplace_back(offset, size);
    return flush_error == 0 ? success() : os_failure(flush_error, "flush as scripted");
  }
  void start_flush(int) override { ++flushes_started; }
  bool is_same_open_file(int, int) override { return true; }
  bool is_resident(int, std::uint64_t, std::uint64_t) override { return resident; }
  bool is_data(int, std::uint64_t offset, std::uint64_t size) override { return !hole(offset, size); }
  Result<Scratch> open_scratch(int, ScratchKind) override {
    if (!scratch_allowed) return os_failure(EACCES, "make a scratch file beside the file");
    return Scratch(std::move(*open({.flags = O_RDWR | O_DIRECT, .is_scratch = true})));
  }
  Result<std::unique_ptr<Ring>> open_ring(unsigned depth) override;
  int io_uring_error() override { return 0; }
  int dmabuf_error() override {
    ++dmabuf_questions;
    if (dmabufs == nullptr) return EINVAL;
    return dmabufs->is_known ? 0 : dmabufs->question_error;
  }

 private:
  friend class FakeRing;

  struct Descriptor {
    int flags = 0;  // As for open(2).
    bool is_scratch = false;
  };

  // Real descriptors, so that UniqueFd may close them; what they stand for is remembered here.
  Result<UniqueFd> open(const Descriptor& descriptor) {
    UniqueFd fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    const std::lock_guard lock(mutex_);
    descriptors_[fd.get()] = descriptor;
    return fd;
  }

  std::optional<int> flags_of(int fd) {
    if (fd == kUserFd) return open_flags;
    const std::lock_guard lock(mutex_);
    const auto found = descriptors_.find(fd);
    return found == descriptors_.end() ? std::nullopt : std::optional(found->second.flags);
  }

  bool happens(unsigned once_in) { return random_ && (*random_)() % once_in == 0; }

  // With the lock held: what this transfer meets.
  Fault next_fault(std::size_t size) {
    if (!faults.empty()) {
      const Fault fault = faults.front();
      faults.pop_front();
      return fault;
    }
    if (happens(8)) return {.error = EINTR};
    if (size > 1 && happens(4)) return {.at_most = 1 + (*random_)() % (size - 1)};
    return {};
  }

  Result<std::size_t> transfer(int fd, Op op, void* memory, std::size_t size, std::uint64_t offset) {
    for (;;) {
      const Result<std::size_t> moved = transfer_once(fd, op, memory, size, offset);
      if (moved.ok() || !moved.status().is_errno(EINTR)) return moved;
    }
  }

  Result<std::size_t> transfer_once(int fd, Op op, void* memory, std::size_t size, std::uint64_t offset) {
    const std::lock_guard lock(mutex_);
    const auto found = descriptors_.find(fd);
    if (found == descriptors_.end()) return os_failure(EBADF, "transfer as scripted");
    const Descriptor& descriptor = found->second;
    const bool direct = (descriptor.flags & O_DIRECT) != 0;
    std::vector<char>& bytes = descriptor.is_scratch ? scratch : content;
    accesses.push_back({op, direct, offset, size, memory, &bytes == &scratch});
    on_access(accesses.back());
    if (direct && ((offset | size | reinterpret_cast<std::uintptr_t>(memory)) % kAlign) != 0) {
      return os_failure(EINVAL, "transfer misaligned");
    }
    const Fault fault = descriptor.is_scratch && faults.empty() ? Fault{} : next_fault(size);
    if (fault.error != 0) return os_failure(fault.error, "transfer as scripted");
    size = std::min(size, fault.at_most);
    const Access access = accesses.back();
    if (const int error = refuses(access); error != 0) return os_failure(error, "transfer as scripted");
    if (loses(access)) {
      if (op == Op::write) bytes.resize(std::max<std::size_t>(bytes.size(), offset + size));
      return size;
    }
    if (op == Op::write) {
      const std::size_t room = grown(bytes, offset, size);
      if (room < size && room == 0) return os_failure(ENOSPC, "write behind the drive's end");
      size = room;
      std::memcpy(bytes.data() + offset, memory, size);
      return size;
    }
    if (offset >= bytes.size()) return std::size_t{0};
    size = std::min<std::size_t>(size, bytes.size() - offset);
    std::memcpy(memory, bytes.data() + offset, size);
    return size;
  }

  // Makes room for a write. Returns its bytes that have some: a drive keeps its size.
  std::size_t grown(std::vector<char>& bytes, std::uint64_t offset, std::size_t size) const {
    if (type == FileType::block_device && &bytes == &content) {
      return std::min<std::uint64_t>(size, bytes.size() - std::min<std::uint64_t>(offset, bytes.size()));
    }
    bytes.resize(std::max<std::size_t>(bytes.size(), offset + size));
    return size;
  }

  // One operation of a ring between the file and a dma-buf: as the kernel, it never retries.
  std::int32_t transfer_by_dmabuf(const RingOp& op, FakeSlots& slots) {
    const std::lock_guard lock(mutex_);
    const auto found = descriptors_.find(op.fd);
    if (found == descriptors_.end()) return -EBADF;
    std::vector<char>& bytes = found->second.is_scratch ? scratch : content;
    accesses.push_back({op.op, true, op.offset, op.size, nullptr, found->second.is_scratch});
    on_access(accesses.back());
    if ((found->second.flags & O_DIRECT) == 0) return -EOPNOTSUPP;
    const std::optional<int> scripted = slots.refuse(op, kAlign);
    if (scripted && *scripted <= 0) return *scripted;
    RingOp part = op;  // A short result has moved what it says.
    part.size = std::min(op.size, static_cast<std::uint32_t>(scripted.value_or(INT32_MAX)));
    if (op.op == Op::write) {
      part.size = static_cast<std::uint32_t>(grown(bytes, op.offset, part.size));
      if (part.size == 0) return -ENOSPC;
      slots.fetch(part, bytes.data() + op.offset);
      return static_cast<std::int32_t>(part.size);
    }
    if (op.offset >= bytes.size()) return 0;
    const std::size_t size = std::min<std::size_t>(part.size, bytes.size() - op.offset);
    slots.deliver(part, bytes.data() + op.offset, size);
    return static_cast<std::int32_t>(size);
  }

  // Of the ring: whether an operation is put off although its turn has come.
  bool puts_off() {
    const std::lock_guard lock(mutex_);
    return happens(8);
  }

  std::mutex mutex_;
  std::map<int, Descriptor> descriptors_;
  std::optional<std::mt19937_64> random_;  // Where it is busy.
};

// Completes one pushed operation a reap, in random order.
class FakeRing final : public Ring {
 public:
  // The slots are null if the kernel takes no dma-bufs.
  FakeRing(FakeStorage& storage, unsigned depth, std::unique_ptr<FakeSlots> slots)
      : Ring(slots.get()), storage_(storage), depth_(depth), random_(storage.seed), slots_(std::move(slots)) {}

  void push(const RingOp& op) override {
    if (waiting_.size() >= depth_) std::abort();
    waiting_.push_back(op);
  }
  Status submit() override { return success(); }
  Result<unsigned> reap(std::span<RingCompletion> completions, bool wait) override {
    if (storage_.reap_error != 0) return os_failure(storage_.reap_error, "reap as scripted");
    if (waiting_.empty() || completions.empty()) return 0u;
    if (!wait && random_() % 2 == 0) return 0u;  // Not ready yet.
    if (slots_ != nullptr && slots_->stalls()) {
      if (wait) std::abort();  // A wait without a limit would last for ever.
      return 0u;
    }
    for (;;) {
      std::swap(waiting_[random_() % waiting_.size()], waiting_.back());
      const RingOp op = waiting_.back();
      if (op.slot >= 0) {
        waiting_.pop_back();
        completions[0] = {op.tag, storage_.transfer_by_dmabuf(op, *slots_)};
        return 1u;
      }
      const std::int32_t result = storage_.puts_off() ? -EAGAIN : perform(storage_, op);
      if (result == -EAGAIN) continue;  // Another's turn, or its own again.
      waiting_.pop_back();
      completions[0] = {op.tag, result};
      return 1u;
    }
  }
  // Without a wait: its reap() never waits for a drive. Where that stalls, the test lets time pass.
  bool wait_until(std::chrono::steady_clock::time_point) override {
    if (slots_ != nullptr) slots_->wait();
    return storage_.rings_have_limits;
  }
  Status register_memory(void* memory, std::size_t) override {
    storage_.keep(memory);
    return success();
  }
  void unregister_memory(void* memory) override { storage_.let_go(memory); }
  int register_file(int) override { return -1; }
  void unregister_file(int) override {}

 private:
  FakeStorage& storage_;
  const unsigned depth_;
  std::mt19937_64 random_;
  const std::unique_ptr<FakeSlots> slots_;
  std::vector<RingOp> waiting_;
};

inline Result<std::unique_ptr<Ring>> FakeStorage::open_ring(unsigned depth) {
  if (ring_error != 0) return os_failure(ring_error, "open a ring as scripted");
  ++rings_opened;
  auto slots = dmabufs == nullptr ? nullptr : std::make_unique<FakeSlots>(*dmabufs);
  return std::unique_ptr<Ring>(std::make_unique<FakeRing>(*this, depth, std::move(slots)));
}

}  // namespace penstock::core
