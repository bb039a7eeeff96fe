// SPDX-License-Identifier: Apache-2.0

#include "path/pipeline/self_test.h"

#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/align.h"
#include "path/pipeline/pipeline_reasons.h"
#include "path/pipeline/random_bytes.h"
#include "path/reasons.h"
#include "topology/block_device.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kLargeSizes[] = {1u << 20, 256u << 10, 64u << 10};
constexpr unsigned kTriesMax = 3;  // Reads of a file that others may be writing to.

// Page-aligned host memory.
class HostPiece {
 public:
  explicit HostPiece(std::size_t size)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(kPage, align_up(size, kPage)))) {}
  ~HostPiece() { std::free(memory_); }
  HostPiece(const HostPiece&) = delete;
  HostPiece& operator=(const HostPiece&) = delete;
  std::byte* get() const { return memory_; }

 private:
  std::byte* const memory_;
};

void fill(const HostPiece& piece, std::size_t size) {
  std::mt19937_64 words(fresh_seed());
  fill_with_random(piece.get(), size, words);
}

class Tester {
 public:
  Tester(Storage& storage, SelfTestMover& mover, Device& device, std::size_t block)
      : storage_(storage), mover_(mover), device_(device), block_(block) {}
  ~Tester() {
    if (memory_ == nullptr || mover_.is_stuck()) return;
    mover_.forget_memory();
    device_.memory().release(memory_);
  }
  Tester(const Tester&) = delete;
  Tester& operator=(const Tester&) = delete;

  Proof prepare() {
    for (const std::size_t size : kLargeSizes) {
      const Result<void*> memory = device_.memory().allocate(size);
      if (!memory.ok()) continue;
      memory_ = static_cast<std::byte*>(*memory);
      size_ = size;
      break;
    }
    if (memory_ == nullptr) return {pipeline_reason::self_test_no_room};
    if (const Proof proof = mover_.prepare(memory_); proof.reason != Reason::none) return proof;
    Result<std::unique_ptr<CopyQueue>> copies = device_.open_copy_queue(1);
    if (!copies.ok()) return {pipeline_reason::self_test_no_room};
    copies_ = std::move(*copies);
    return {};
  }

  // From the device's memory to the scratch, read back by the host.
  Proof try_write(int fd) {
    return both_sizes([&](std::uint64_t offset, std::size_t size) -> Proof {
      const HostPiece host(size), seen(size);
      fill(host, size);
      if (Proof proof = upload(host.get(), size); proof.reason != Reason::none) return proof;
      const std::uint64_t cached = cached_pages(fd, offset, size);
      if (Proof proof = whole(mover_.move(Op::write, fd, memory_, size, offset), size); proof.reason != Reason::none) {
        return proof;
      }
      const bool copied = cached_pages(fd, offset, size) > cached;
      const Result<std::size_t> read = storage_.read(fd, seen.get(), size, offset);
      if (read.ok() && *read < size) return {pipeline_reason::self_test_wrong};  // The bytes "written" are not there.
      if (Proof proof = whole(read, size); proof.reason != Reason::none) return proof;
      return verdict(copied, std::memcmp(host.get(), seen.get(), size) == 0);
    });
  }

  // From the scratch, written by the host, to the device's memory.
  Proof try_read(int fd) {
    return both_sizes([&](std::uint64_t offset, std::size_t size) -> Proof {
      const HostPiece host(size);
      fill(host, size);
      if (Proof proof = whole(storage_.write(fd, host.get(), size, offset), size); proof.reason != Reason::none) {
        return proof;
      }
      return read_and_compare(fd, offset, size, host.get());
    });
  }

  // The file's own bytes, read both ways. If another process writes to it meanwhile, they may differ once or twice.
  Proof try_read_of_user(int fd, std::uint64_t file_size) {
    size_ = std::min<std::uint64_t>(size_, align_down(file_size, block_));
    if (size_ == 0) return {pipeline_reason::no_scratch};
    const HostPiece host(size_);
    Proof proof;
    for (unsigned i = 0; i < kTriesMax; ++i) {
      proof = whole(storage_.read(fd, host.get(), size_, 0), size_);
      if (proof.reason == Reason::none) proof = read_and_compare(fd, 0, size_, host.get());
      if (proof.reason != pipeline_reason::self_test_wrong) break;
    }
    return proof;
  }

 private:
  template <typename Try>
  Proof both_sizes(Try attempt) {
    const Proof small = attempt(0, block_);
    return small.reason != Reason::none ? small : attempt(align_up(block_, kPage), size_);
  }

  Proof read_and_compare(int fd, std::uint64_t offset, std::size_t size, const std::byte* expected) {
    const HostPiece other(size), seen(size);
    fill(other, size);
    if (Proof proof = upload(other.get(), size); proof.reason != Reason::none) return proof;
    const std::uint64_t cached = cached_pages(fd, offset, size);
    if (Proof proof = whole(mover_.move(Op::read, fd, memory_, size, offset), size); proof.reason != Reason::none)
      return proof;
    const bool copied = cached_pages(fd, offset, size) > cached;
    const Status status = wait_for_copies(*copies_, copies_->copy_to_host(seen.get(), memory_, size));
    if (!status.ok()) return {pipeline_reason::self_test_no_room};
    return verdict(copied, std::memcmp(seen.get(), expected, size) == 0);
  }

  Proof verdict(bool copied, bool equal) {
    if (!equal) return {pipeline_reason::self_test_wrong};
    return copied ? mover_.proof_of_copy() : mover_.look_back();
  }

  Proof whole(const Result<std::size_t>& moved, std::size_t size) {
    if (!moved.ok()) return mover_.proof_of(moved.status());
    return *moved == size ? Proof{} : mover_.proof_of(os_failure(EIO, "move all of the self-test's bytes"));
  }

  Proof upload(const std::byte* host, std::size_t size) {
    const Status status = wait_for_copies(*copies_, copies_->copy_to_device(memory_, host, size));
    return status.ok() ? Proof{} : Proof{pipeline_reason::self_test_no_room};
  }

  std::uint64_t cached_pages(int fd, std::uint64_t offset, std::size_t size) {
    std::uint64_t count = 0;
    for (std::uint64_t at = 0; at < size; at += kPage) count += storage_.is_resident(fd, offset + at, kPage) ? 1 : 0;
    return count;
  }

  Storage& storage_;
  SelfTestMover& mover_;
  Device& device_;
  const std::size_t block_;
  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
  std::unique_ptr<CopyQueue> copies_;
};

// Returns the disk that a block device is, or is a part of; "" if /sys does not tell it.
std::string disk_of(dev_t device) {
  const Result<Root> root = Root::open("/");
  const auto found = root.ok() ? read_block_device(*root, {}, {major(device), minor(device)}) : std::nullopt;
  return found ? found->disk : "";
}

// A file system has to be the same; for a block device it is enough that the disk is.
bool is_same_storage(const FileFacts& scratch, const FileFacts& file) {
  if (key_of(scratch).is_same_storage(key_of(file))) return true;
  const std::string disk = disk_of(file.block_device);
  return file.type == FileType::block_device && !disk.empty() && disk == disk_of(scratch.block_device);
}

// Invalid where there is none.
Scratch open_scratch(Descriptors& descriptors, const std::string& given_name, const FileFacts& file, int fd,
                     ScratchKind kind) {
  if (UniqueFd given = open_named_scratch(descriptors, given_name, file); given.valid())
    return Scratch(std::move(given));
  if (file.type != FileType::regular) return {};
  Result<Scratch> own = descriptors.open_scratch(fd, kind);
  return own.ok() ? std::move(*own) : Scratch();
}

SelfTest try_both(Tester& tester, const SelfTestMover& mover, int scratch) {
  SelfTest result;
  if (mover.needs().reads_first) {
    result.read = tester.try_read(scratch);
    result.write = result.read.reason != Reason::none ? result.read : tester.try_write(scratch);
  } else {
    result.write = tester.try_write(scratch);
    result.read = mover.is_stuck() ? result.write : tester.try_read(scratch);
  }
  return result;
}

}  // namespace

UniqueFd open_named_scratch(Descriptors& descriptors, const std::string& name, const FileFacts& file) {
  if (name.empty()) return {};
  UniqueFd fd(::open(name.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC | O_NOCTTY));
  if (!fd.valid()) return {};
  const Result<FileFacts> facts = descriptors.facts(fd.get());
  return facts.ok() && is_same_storage(*facts, file) ? std::move(fd) : UniqueFd();
}

StorageKey key_of(const FileFacts& file) {
  const bool is_block_device = file.type == FileType::block_device;
  return {is_block_device ? file.block_device : file.file_system_device, is_block_device};
}

SelfTest run_self_test(Storage& storage, SelfTestMover& mover, Device& device, File& file,
                       const std::string& scratch_name) {
  const FileFacts& facts = file.facts();
  const std::size_t block = std::max(facts.direct_offset_align, facts.direct_memory_align);
  Tester tester(storage, mover, device, std::max(block, mover.needs().block_min));
  if (const Proof proof = tester.prepare(); proof.reason != Reason::none) return {proof, proof};
  const Result<int> direct = file.descriptor(IoMode::o_direct);
  if (!direct.ok()) {
    const Proof proof{reason_of(Obstacle::no_direct_descriptor), direct.status().code};
    return {proof, proof};
  }
  const ScratchKind kind = mover.needs().opens_by_name ? ScratchKind::named : ScratchKind::nameless;
  Scratch scratch = open_scratch(storage, scratch_name, facts, *direct, kind);
  if (!scratch.valid()) {
    const Result<std::uint64_t> size = file.size();
    if (!facts.readable()) return {{pipeline_reason::no_scratch}, {pipeline_reason::no_scratch}};
    return {tester.try_read_of_user(*direct, size.ok() ? *size : 0), {pipeline_reason::no_scratch}};
  }
  const SelfTest result = try_both(tester, mover, scratch.get());
  mover.forget_file();
  if (mover.is_stuck()) scratch.leave_open();
  return result;
}

}  // namespace penstock::core
