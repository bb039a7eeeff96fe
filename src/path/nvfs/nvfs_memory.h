// SPDX-License-Identifier: Apache-2.0

// GPU memory that is mapped through nvidia-fs, and lent to one request at a time.
//
// Which memory is mapped where it lies? Only what the program has registered, and says when it is done with: a mapping
// outlives a cudaFree unnoticed (the module pins for good, and tells nobody), and would move bytes into memory that the
// program has no more. Everything else goes through memory of a channel's own (OwnMemory), which is mapped once, and a
// copy on the GPU, at some hundred times the drive's speed; no CPU touches a byte either way. It also takes memory that
// the module itself would not pin: managed memory, pools, virtual memory without the flag.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"
#include "device/device.h"
#include "path/nvfs/nvfs_group.h"

namespace penstock::core {

// The whole GPU pages that hold the memory. Nothing where they would reach beyond it, and who lies there is not the
// same driver's.
std::optional<GpuRange> gpu_range_of(const DeviceFacts& device, std::uint64_t base, std::uint64_t size);

// Registered buffers, each with a few mappings of the same range, made when they are first needed. Taking and giving
// back takes no lock.
class NvfsBuffers {
 public:
  static constexpr unsigned kBuffersMax = 256;
  static constexpr unsigned kGroupsPerBuffer = 4;                 // Requests at a time: a group has one.
  static constexpr std::uint64_t kShadowBytes = 2u << 20;         // Of each.
  static constexpr std::uint64_t kShadowBytesMax = 256u << 20;    // Of all: it is memory that cannot be swapped out.
  static constexpr std::chrono::seconds kDeregisterPatience{10};  // For requests under way.

  // A mapping on loan; gives itself back.
  class Loan {
   public:
    Loan() = default;
    Loan(Loan&& other) noexcept { swap(other); }
    Loan& operator=(Loan&& other) noexcept {
      swap(other);
      return *this;
    }
    ~Loan() { give_back(); }
    explicit operator bool() const { return buffers_ != nullptr; }
    NvfsGroup& group() const { return *group_; }
    std::uint64_t offset_of(std::uint64_t address) const { return address - group_->range().address; }
    void give_back();

   private:
    friend class NvfsBuffers;
    void swap(Loan& other) {
      std::swap(buffers_, other.buffers_);
      std::swap(entry_, other.entry_);
      std::swap(place_, other.place_);
      std::swap(group_, other.group_);
    }
    NvfsBuffers* buffers_ = nullptr;
    unsigned entry_ = 0, place_ = 0;
    NvfsGroup* group_ = nullptr;
  };

  ~NvfsBuffers();
  // Cheap: nothing is mapped yet. Buffers beyond kBuffersMax go the other way.
  void add(const Device& device, std::uint64_t base, std::uint64_t size);
  // After this the program may free the memory: nothing of it is mapped. Where a request is still under way after
  // kDeregisterPatience, it is unmapped with that request's end.
  void remove(std::uint64_t base);
  // Lends from a buffer that holds the memory. Empty if none does, all its mappings are lent, or none can be made.
  Loan borrow(const std::shared_ptr<NvfsModule>& module, const Device& device, std::uint64_t address,
              std::uint64_t size);

 private:
  // A place goes from empty (no mapping) or idle to busy and back; closed when its buffer goes, orphan where that came
  // while it was busy.
  enum class State : std::uint8_t { empty, idle, busy, closed, orphan };
  struct Place {
    std::atomic<State> state{State::closed};
    std::unique_ptr<NvfsGroup> group;  // Belongs to the thread that made it busy.
  };
  struct Entry {
    std::atomic<std::uint64_t> base{0};
    std::atomic<std::uint64_t> end{0};  // 0: none.
    std::atomic<const Device*> device{nullptr};
    std::atomic<bool> is_refused{false};  // It could not be mapped: not tried again.
    std::array<Place, kGroupsPerBuffer> places;
  };

  bool holds(const Entry& entry, const Device& device, std::uint64_t address, std::uint64_t size) const;
  bool take(Place& place, State from);
  bool make(const std::shared_ptr<NvfsModule>& module, Entry& entry, Place& place);
  void close(Place& place);
  void drop(Place& place);

  std::array<Entry, kBuffersMax> entries_;
  std::atomic<unsigned> count_{0};  // Entries ever used.
  std::atomic<std::uint64_t> shadow_bytes_{0};
  Mutex mutex_;  // For add() and remove().
};

// Device memory of our own, mapped once, for bytes on their way. Used by one thread at a time.
class OwnMemory {
 public:
  static Result<std::unique_ptr<OwnMemory>> open(std::shared_ptr<NvfsModule> module, Device& device,
                                                 std::uint64_t bytes);
  ~OwnMemory();
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  NvfsGroup& group() const { return *group_; }
  std::byte* data() const { return reinterpret_cast<std::byte*>(group_->range().address); }

 private:
  explicit OwnMemory(Device& device) : device_(device) {}

  Device& device_;
  void* memory_ = nullptr;
  std::unique_ptr<NvfsGroup> group_;
};

}  // namespace penstock::core
