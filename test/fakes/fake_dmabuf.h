// SPDX-License-Identifier: Apache-2.0

// A kernel that takes dma-bufs in rings, for FakeStorage's rings, with the answers that were measured on a kernel with
// the series (v7 of 2026-09-28, ported to Linux 7.3.4, in emulated machines). A "dma-buf" is a part of a memory file,
// as FakeGpu exports. Wrong exporters pass the registration, report success for every transfer, and lose the bytes, as
// they do there. Not simulated: duplicates of a drive's descriptor (only the very number is taken), maps that move
// (nothing shows of them), and several NVMe commands for one request.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/unique_fd.h"
#include "storage/ring.h"

namespace penstock::core {

enum class Exporter {  // kWrongExporters has all but the first.
  right,
  raw_address,       // Under a translating IOMMU: nothing arrives, and a write writes zeros.
  other_memory,      // Bytes go to and come from memory that is not ours.
  page_too_far,      // Bytes go to and come from the page behind.
  first_page_only,   // Right for the first page, and nothing arrives elsewhere.
  first_entry_only,  // Right for the first entry of its list that a transfer lies in, and the rest is lost.
};

inline constexpr Exporter kWrongExporters[] = {Exporter::raw_address, Exporter::other_memory, Exporter::page_too_far,
                                               Exporter::first_page_only, Exporter::first_entry_only};

// The part of a file in memory that a "dma-buf" has; the content of its descriptor.
struct FakeExport {
  int memory = -1;
  std::uint64_t offset = 0, size = 0;
};

inline UniqueFd export_of_memory(int memory, std::uint64_t offset, std::uint64_t size) {
  UniqueFd fd(::memfd_create("fake-dma-buf", MFD_CLOEXEC));
  const FakeExport exported{memory, offset, size};
  return ::pwrite(fd.get(), &exported, sizeof exported, 0) == sizeof exported ? std::move(fd) : UniqueFd();
}

struct FakeDmabufs {
  bool is_known = true;         // False: a kernel without the interface.
  int question_error = EINVAL;  // Of asking such a kernel.
  int register_error = 0;       // Of every registration,
  int remove_error = 0;         // and of every end of one.
  std::atomic<Exporter> exporter{Exporter::right};
  std::atomic<bool> is_wrong_for_lent{false};  // The exporter is wrong for memory of programs alone.
  std::deque<int> errors;                      // Of the next requests: negative errnos, or bytes for a short result.
  bool is_revoked = false;                     // The exporter took the memory back: ENODEV for ever.
  bool is_drive_gone = false;                  // Every request moves 0 bytes, without an error.
  bool stalls = false;                         // The exporter's map takes for ever: no request ends.
  std::function<void()> on_wait = [] {};       // A ring is waited for meanwhile, with a limit.
  std::vector<char> foreign = std::vector<char>(1 << 20, 'f');  // Memory that is not ours.
  std::atomic<int> memory_fd{-1}, drive_fd{-1};                 // The numbers of the last registration.
  std::atomic<unsigned> added{0}, removed{0}, released{0}, requests{0}, lent_requests{0}, durable_writes{0};
};

// The slots of one ring.
class FakeSlots final : public DmabufSlots {
 public:
  static constexpr std::uint32_t kMemoryAlign = 4;
  static constexpr std::uint64_t kDmabufMax = 1 << 30;  // Until v5.

  explicit FakeSlots(FakeDmabufs& dmabufs) : dmabufs_(dmabufs) {}

  Result<int> add(int dmabuf, int drive, bool is_lent) override {
    constexpr const char* kStep = "register a dma-buf as scripted";
    const std::lock_guard lock(mutex_);
    if (!dmabufs_.is_known) return os_failure(EINVAL, kStep);
    if (dmabufs_.register_error != 0) return os_failure(dmabufs_.register_error, kStep);
    FakeExport exported;
    if (::pread(dmabuf, &exported, sizeof exported, 0) != sizeof exported) return os_failure(EINVAL, kStep);
    if (exported.size > kDmabufMax) return os_failure(EINVAL, kStep);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].is_taken) continue;
      slots_[i] = {UniqueFd(::dup(exported.memory)), exported, drive, inode_of(drive), true, is_lent};
      if (!slots_[i].memory.valid()) return os_failure(EBADF, kStep);
      dmabufs_.memory_fd = dmabuf;
      dmabufs_.drive_fd = drive;
      ++dmabufs_.added;
      return static_cast<int>(i);
    }
    return os_failure(ENOSPC, kStep);
  }
  Status remove(int slot) override {
    const std::lock_guard lock(mutex_);
    if (dmabufs_.remove_error != 0) return os_failure(dmabufs_.remove_error, "unregister a dma-buf as scripted");
    ++dmabufs_.removed;
    slots_.at(static_cast<std::size_t>(slot)) = {};
    return success();
  }
  Status release(int slot) const override {
    const std::lock_guard lock(mutex_);
    if (!slots_.at(static_cast<std::size_t>(slot)).is_lent) std::abort();
    ++dmabufs_.released;
    slots_.at(static_cast<std::size_t>(slot)).memory.reset();
    return success();
  }

  bool stalls() const { return dmabufs_.stalls; }
  void wait() const {
    if (stalls()) dmabufs_.on_wait();
  }
  // The checks that come before the drive. 0, or a negative errno, or the bytes of a result that is scripted.
  std::optional<int> refuse(const RingOp& op, std::uint32_t sector) {
    ++dmabufs_.requests;
    const Slot& slot = slots_.at(static_cast<std::size_t>(op.slot));
    const auto at = reinterpret_cast<std::uintptr_t>(op.memory);
    dmabufs_.lent_requests += slot.is_lent;
    dmabufs_.durable_writes += op.is_durable;
    if (!slot.memory.valid() || at + op.size > slot.exported.size) return -EFAULT;
    if (op.fd != slot.drive || inode_of(op.fd) != slot.inode) return -EBADF;
    if (at % kMemoryAlign != 0 || (op.offset | op.size) % sector != 0) return -EINVAL;
    if (dmabufs_.is_revoked) return -ENODEV;
    if (dmabufs_.is_drive_gone) return 0;
    if (dmabufs_.errors.empty()) return std::nullopt;
    const int scripted = dmabufs_.errors.front();
    dmabufs_.errors.pop_front();
    return scripted;
  }
  // A read's bytes, on their way to the memory.
  void deliver(const RingOp& op, const char* bytes, std::size_t size) {
    const auto at = reinterpret_cast<std::uintptr_t>(op.memory);
    const Slot& slot = slots_.at(static_cast<std::size_t>(op.slot));
    switch (exporter_of(slot)) {
      case Exporter::right: put(slot, bytes, size, at); break;
      case Exporter::raw_address: break;
      case Exporter::other_memory:
        std::memcpy(dmabufs_.foreign.data(), bytes, std::min(size, dmabufs_.foreign.size()));
        break;
      case Exporter::page_too_far: put(slot, bytes, size, at + kPage); break;
      case Exporter::first_page_only:
        if (at < kPage) put(slot, bytes, std::min<std::size_t>(size, kPage - at), at);
        break;
      case Exporter::first_entry_only: put(slot, bytes, std::min<std::size_t>(size, kEntry - at % kEntry), at); break;
    }
  }
  // A write's bytes, as the drive gets them.
  void fetch(const RingOp& op, char* bytes) {
    const auto at = reinterpret_cast<std::uintptr_t>(op.memory);
    const Slot& slot = slots_.at(static_cast<std::size_t>(op.slot));
    std::memset(bytes, exporter_of(slot) == Exporter::other_memory ? 'f' : 0, op.size);
    switch (exporter_of(slot)) {
      case Exporter::right: get(slot, bytes, op.size, at); break;
      case Exporter::page_too_far: get(slot, bytes, op.size, at + kPage); break;
      case Exporter::first_page_only:
        if (at < kPage) get(slot, bytes, std::min<std::size_t>(op.size, kPage - at), at);
        break;
      case Exporter::first_entry_only:
        get(slot, bytes, std::min<std::size_t>(op.size, kEntry - at % kEntry), at);
        break;
      case Exporter::raw_address:
      case Exporter::other_memory: break;
    }
  }

 private:
  static constexpr std::uint64_t kPage = 4096, kEntry = 64u << 10;

  struct Slot {
    UniqueFd memory;
    FakeExport exported;
    int drive = -1;
    ino_t inode = 0;  // The kernel compares open files; a number alone may be another's by now.
    bool is_taken = false, is_lent = false;
  };

  Exporter exporter_of(const Slot& slot) const {
    return slot.is_lent || !dmabufs_.is_wrong_for_lent ? dmabufs_.exporter.load() : Exporter::right;
  }
  static ino_t inode_of(int fd) {
    struct stat facts {};
    return ::fstat(fd, &facts) == 0 ? facts.st_ino : 0;
  }

  // Bytes behind the memory's end are lost: a dma-buf does not grow.
  static void put(const Slot& slot, const char* bytes, std::size_t size, std::uint64_t at) {
    const std::uint64_t end = slot.exported.size, offset = slot.exported.offset + at;
    if (at < end)
      (void)!::pwrite(slot.memory.get(), bytes, std::min<std::size_t>(size, end - at), static_cast<off_t>(offset));
  }
  static void get(const Slot& slot, char* bytes, std::size_t size, std::uint64_t at) {
    (void)!::pread(slot.memory.get(), bytes, size, static_cast<off_t>(slot.exported.offset + at));
  }

  FakeDmabufs& dmabufs_;
  mutable std::array<Slot, kDmabufsMax> slots_;
  mutable std::mutex mutex_;  // Slots are released on other threads.
};

}  // namespace penstock::core
