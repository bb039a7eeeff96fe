// SPDX-License-Identifier: Apache-2.0

#include "device/host/host_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <vector>

#include "base/align.h"
#include "base/invariant.h"
#include "base/page_size.h"

namespace penstock::core {
namespace {

struct PendingCopy {
  void* to;
  const void* from;
  std::size_t size;
};

class HostCopyQueue final : public CopyQueue {
 public:
  HostCopyQueue(PinnedPages& pages, unsigned markers) : pages_(pages), recorded_(markers, 0) {}
  ~HostCopyQueue() override {
    while (!pending_.empty()) land_oldest();
  }

  Status copy_many(std::span<const Copy> copies, Direction direction) override {
    for (const Copy& copy : copies) {
      if (direction == Direction::to_device) pending_.push_back({copy.device_address, copy.host, copy.size});
      else pending_.push_back({copy.host, copy.device_address, copy.size});
    }
    return success();
  }
  Status follow(void* stream) override { return HostStreamHome::of_process().drain(stream); }
  Status record(unsigned marker) override {
    PENSTOCK_INVARIANT(marker < recorded_.size());
    recorded_[marker] = landed_ + pending_.size();
    return success();
  }
  Result<bool> reached(unsigned marker) override {
    const Status status = wait(marker, false);
    if (!status.ok()) return status;
    return true;
  }
  Status wait(unsigned marker, bool) override {
    PENSTOCK_INVARIANT(marker < recorded_.size());
    while (landed_ < recorded_[marker]) land_oldest();
    return success();
  }

 private:
  void land_oldest() {
    const PendingCopy copy = pending_.front();
    pending_.pop_front();
    if (!pages_.fetch(copy.to, copy.from, copy.size) && !pages_.put(copy.to, copy.from, copy.size)) {
      const bool is_word =
          store_word<std::uint64_t>(copy) || store_word<std::uint32_t>(copy) || store_word<std::uint8_t>(copy);
      if (!is_word) {
        std::memcpy(copy.to, copy.from, copy.size);
      }
    }
    ++landed_;
  }
  // A word is stored as one, as a GPU does: kernels may look at it meanwhile.
  template <typename Word>
  static bool store_word(const PendingCopy& copy) {
    Word word;
    if (copy.size != sizeof word || reinterpret_cast<std::uintptr_t>(copy.to) % sizeof word != 0) return false;
    std::memcpy(&word, copy.from, sizeof word);
    std::atomic_ref(*reinterpret_cast<Word*>(copy.to)).store(word, std::memory_order_release);
    return true;
  }

  PinnedPages& pages_;
  std::deque<PendingCopy> pending_;
  std::uint64_t landed_ = 0;             // Copies that have landed since the queue was opened.
  std::vector<std::uint64_t> recorded_;  // By marker: the copies that must have landed.
};

}  // namespace

HostDevice::HostDevice(int ordinal, const char* kind) : Device(this, this) {
  facts_.ordinal = ordinal;
  facts_.kind = kind;
  facts_.stand_in = true;
  facts_.memory_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * page_size();
  std::snprintf(facts_.name, sizeof facts_.name, "host memory standing in for GPU %d", ordinal);
  std::memcpy(facts_.uuid, "host stand-in ", 14);
  facts_.uuid[15] = static_cast<std::uint8_t>(ordinal);
}

Result<std::unique_ptr<CopyQueue>> HostDevice::open_copy_queue(unsigned markers) {
  return std::unique_ptr<CopyQueue>(std::make_unique<HostCopyQueue>(home_.pages(), markers));
}

bool HostDevice::unregister_pages(const std::byte* memory) {
  if (!can_unregister_pages()) return false;
  home_.pages().remove(memory);
  return true;
}

// Shared memory, so that /proc counts it apart from what the library itself uses.
Result<void*> HostDevice::allocate(std::size_t size) {
  if (size == 0) return failure(Code::invalid_argument, "allocate device memory");
  const std::size_t bytes = align_up(size, page_size());
  if (bytes < size) return failure(Code::out_of_memory, "allocate device memory");
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return os_failure(errno, "allocate device memory");
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  pieces_.add(memory, bytes);
  return memory;
}

bool HostDevice::find(const void* pointer, PointerFacts& facts) {
  const std::optional<Piece> piece = pieces_.find(pointer);
  if (!piece) return false;
  facts = {MemoryKind::device, this, piece->base, piece->size};
  return true;
}

HostDeviceSet::HostDeviceSet(const DeviceTerms& terms)
    : devices_{HostDevice(static_cast<int>(terms.first_ordinal), terms.kind),
               HostDevice(static_cast<int>(terms.first_ordinal) + 1, terms.kind)} {}

Result<Device*> HostDeviceSet::device(unsigned place) {
  if (place >= kCount) return failure(Code::no_device, "find the device");
  return static_cast<Device*>(&devices_[place]);
}

}  // namespace penstock::core
