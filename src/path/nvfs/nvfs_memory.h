// SPDX-License-Identifier: Apache-2.0

// GPU memory that is mapped through nvidia-fs, and lent to one request at a time.
//
// Only registered buffers are mapped in place, since the program says when it is done with them. A mapping survives a
// cudaFree unnoticed (the module pins for good, without a callback), and would then move bytes into memory that the
// program has freed. Everything else goes through a channel's own device memory (OwnMemory), which is mapped once, and
// a copy on the GPU, at about a hundred times the drive's speed; no CPU touches a byte either way. This also serves
// memory that the module cannot pin: managed memory, pools, virtual memory without the flag.
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

// The whole GPU pages that contain the memory; nothing where the rest of a page may belong to another allocation.
std::optional<GpuRange> gpu_range_of(const DeviceFacts& device, std::uint64_t base, std::uint64_t size);

// Registered buffers, each with a few mappings of the same range, created when first needed. Borrowing and returning a
// mapping takes no lock.
class NvfsBuffers {
 public:
  static constexpr unsigned kBuffersMax = 256;
  static constexpr unsigned kGroupsPerBuffer = 4;                 // Parallel requests per buffer, one per group.
  static constexpr std::uint64_t kShadowBytes = 2u << 20;         // Of each.
  static constexpr std::uint64_t kShadowBytesMax = 256u << 20;    // Limit over all buffers: it is unswappable memory.
  static constexpr std::chrono::seconds kDeregisterPatience{10};  // How long remove() waits for requests in flight.

  // A borrowed mapping; the destructor returns it.
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

  explicit NvfsBuffers(std::chrono::nanoseconds patience = kDeregisterPatience) : patience_(patience) {}
  ~NvfsBuffers();
  // Cheap: nothing is mapped yet. Buffers beyond kBuffersMax use OwnMemory.
  void add(const Device& device, std::uint64_t base, std::uint64_t size);
  // After this the program may free the memory: nothing of it is mapped. If a request is still in flight after
  // kDeregisterPatience, its end unmaps the memory.
  void remove(std::uint64_t base);
  // Borrows a mapping of the buffer that contains the memory. Empty if there is no such buffer, all its mappings are in
  // use, or none can be made.
  Loan borrow(const std::shared_ptr<NvfsModule>& module, const Device& device, std::uint64_t address,
              std::uint64_t size);

 private:
  // A place goes from empty (no mapping) or idle to busy and back. remove() makes it closed, or orphan if it was busy.
  enum class State : std::uint8_t { empty, idle, busy, closed, orphan };
  struct Place {
    std::atomic<State> state{State::closed};
    std::unique_ptr<NvfsGroup> group;  // Owned by the thread that set the state to busy.
  };
  struct Entry {
    std::atomic<std::uint64_t> base{0};
    std::atomic<std::uint64_t> end{0};  // 0: none.
    std::atomic<const Device*> device{nullptr};
    std::atomic<bool> is_refused{false};  // A MAP failed: not tried again.
    std::array<Place, kGroupsPerBuffer> places;
  };

  bool holds(const Entry& entry, const Device& device, std::uint64_t address, std::uint64_t size) const;
  bool take(Place& place, State from);
  bool make(const std::shared_ptr<NvfsModule>& module, Entry& entry, Place& place);
  void close(Place& place);
  void drop(Place& place);

  const std::chrono::nanoseconds patience_;
  std::array<Entry, kBuffersMax> entries_;
  std::atomic<unsigned> count_{0};  // High-water mark of used entries.
  std::atomic<std::uint64_t> shadow_bytes_{0};
  Mutex mutex_;  // Serializes add() and remove().
};

// A channel's own device memory, mapped once, through which bytes pass. Used by one thread at a time.
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
