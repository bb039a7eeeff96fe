// SPDX-License-Identifier: Apache-2.0

#include "path/nvfs/nvfs_memory.h"

#include <cerrno>
#include <cstdio>
#include <thread>

#include "base/align.h"

namespace penstock::core {
namespace {

using nvfs::kGpuPage;

constexpr auto kSleep = std::chrono::microseconds(50);

std::uint64_t pci_number(const char* address) {
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (std::sscanf(address, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) return 0;
  return std::uint64_t{domain} << 32 | bus << 8 | slot << 3 | function;
}

}  // namespace

// NVIDIA's driver allocates whole GPU pages, so the rest of a page belongs to the same process.
std::optional<GpuRange> gpu_range_of(const DeviceFacts& device, std::uint64_t base, std::uint64_t size) {
  if (base == 0 || size == 0 || size > UINT64_MAX - base - kGpuPage) return std::nullopt;
  const std::uint64_t begin = align_down(base, kGpuPage), end = align_up(base + size, kGpuPage);
  const bool is_whole = begin == base && end == base + size;
  if (!is_whole && !device.is_nvidia) return std::nullopt;
  return GpuRange{begin, end - begin, pci_number(device.pci_address)};
}

// ---- Registered ----------------------------------------------------------------------------------------------------

NvfsBuffers::~NvfsBuffers() {
  for (unsigned i = 0; i < count_.load(); ++i) {
    for (Place& place : entries_[i].places) close(place);
  }
}

void NvfsBuffers::add(const Device& device, std::uint64_t base, std::uint64_t size) {
  if (!gpu_range_of(device.facts(), base, size)) return;
  const MutexLock lock(mutex_);
  unsigned index = 0;
  const auto is_free = [](const Entry& entry) {
    bool free = entry.end.load() == 0;
    for (const Place& place : entry.places) free = free && place.state.load() == State::closed;
    return free;
  };
  while (index < count_.load() && !is_free(entries_[index])) ++index;
  if (index == kBuffersMax) return;
  Entry& entry = entries_[index];
  entry.base.store(base);
  entry.device.store(&device);
  entry.is_refused.store(false);
  entry.end.store(base + size);
  for (Place& place : entry.places) place.state.store(State::empty);
  if (index == count_.load()) count_.store(index + 1);
}

void NvfsBuffers::remove(std::uint64_t base) {
  const MutexLock lock(mutex_);
  for (unsigned i = 0; i < count_.load(); ++i) {
    Entry& entry = entries_[i];
    if (entry.base.load() != base || entry.end.load() == 0) continue;
    entry.end.store(0);
    for (Place& place : entry.places) close(place);
    return;
  }
}

// Closes the place to new requests and unmaps its memory, or leaves that to the thread that uses it.
void NvfsBuffers::close(Place& place) {
  const auto end = std::chrono::steady_clock::now() + patience_;
  for (;;) {
    if (take(place, State::empty)) break;
    if (take(place, State::idle)) {
      drop(place);
      break;
    }
    State state = place.state.load();
    if (state == State::closed || state == State::orphan) return;
    if (state == State::busy && std::chrono::steady_clock::now() >= end &&
        place.state.compare_exchange_strong(state, State::orphan)) {
      return;
    }
    std::this_thread::sleep_for(kSleep);
  }
  place.state.store(State::closed);
}

bool NvfsBuffers::take(Place& place, State from) {
  return place.state.compare_exchange_strong(from, State::busy, std::memory_order_acq_rel);
}

void NvfsBuffers::drop(Place& place) {
  if (place.group == nullptr) return;
  place.group.reset();
  shadow_bytes_.fetch_sub(kShadowBytes);
}

bool NvfsBuffers::holds(const Entry& entry, const Device& device, std::uint64_t address, std::uint64_t size) const {
  const std::uint64_t base = entry.base.load(), end = entry.end.load();
  return entry.device.load() == &device && address >= base && end > address && size <= end - address;
}

NvfsBuffers::Loan NvfsBuffers::borrow(const std::shared_ptr<NvfsModule>& module, const Device& device,
                                      std::uint64_t address, std::uint64_t size) {
  Loan loan;
  for (unsigned i = 0, count = count_.load(std::memory_order_acquire); i < count; ++i) {
    Entry& entry = entries_[i];
    if (!holds(entry, device, address, size)) continue;
    for (const State from : {State::idle, State::empty}) {
      if (from == State::empty && entry.is_refused.load()) break;
      for (unsigned j = 0; j < kGroupsPerBuffer; ++j) {
        Place& place = entry.places[j];
        if (place.state.load(std::memory_order_relaxed) != from || !take(place, from)) continue;
        loan.buffers_ = this;
        loan.entry_ = i;
        loan.place_ = j;
        // The entry may have been reused for another buffer before we took the place.
        const bool is_still = holds(entry, device, address, size);
        if (is_still && (place.group != nullptr || make(module, entry, place))) {
          loan.group_ = place.group.get();
          return loan;
        }
        loan.give_back();
        return loan;
      }
    }
  }
  return loan;
}

bool NvfsBuffers::make(const std::shared_ptr<NvfsModule>& module, Entry& entry, Place& place) {
  if (shadow_bytes_.fetch_add(kShadowBytes) + kShadowBytes > kShadowBytesMax) {
    shadow_bytes_.fetch_sub(kShadowBytes);
    return false;
  }
  const std::uint64_t base = entry.base.load();
  const auto range = gpu_range_of(entry.device.load()->facts(), base, entry.end.load() - base);
  Result<std::unique_ptr<NvfsGroup>> group = NvfsGroup::open(module, range.value_or(GpuRange{}), kShadowBytes);
  if (group.ok()) {
    place.group = std::move(*group);
    return true;
  }
  shadow_bytes_.fetch_sub(kShadowBytes);
  entry.is_refused.store(true);  // For instance BAR1 is exhausted; buffers that are mapped already still work.
  return false;
}

void NvfsBuffers::Loan::give_back() {
  if (buffers_ == nullptr) return;
  NvfsBuffers& buffers = *std::exchange(buffers_, nullptr);
  Place& place = buffers.entries_[entry_].places[place_];
  group_ = nullptr;
  if (place.group != nullptr && place.group->is_broken()) buffers.drop(place);
  State expected = State::busy;
  const State next = place.group != nullptr ? State::idle : State::empty;
  if (place.state.compare_exchange_strong(expected, next, std::memory_order_acq_rel)) return;
  buffers.drop(place);
  place.state.store(State::closed);
}

// ---- A channel's own memory ----------------------------------------------------------------------------------------

Result<std::unique_ptr<OwnMemory>> OwnMemory::open(std::shared_ptr<NvfsModule> module, Device& device,
                                                   std::uint64_t bytes) {
  constexpr const char* kStep = "map device memory of our own through nvidia-fs";
  bytes = align_up(bytes, kGpuPage);
  std::unique_ptr<OwnMemory> own(new OwnMemory(device));
  // One GPU page more, so that it contains enough whole ones.
  const Result<void*> memory = device.memory().allocate(bytes + kGpuPage);
  if (!memory.ok()) return failure(Code::out_of_memory, kStep);
  own->memory_ = *memory;
  const std::uint64_t begin = align_up(reinterpret_cast<std::uintptr_t>(*memory), kGpuPage);
  const auto range = gpu_range_of(device.facts(), begin, bytes);
  if (!range) return failure(Code::invalid_argument, kStep);
  Result<std::unique_ptr<NvfsGroup>> group = NvfsGroup::open(std::move(module), *range, bytes);
  if (!group.ok()) return group.status();
  own->group_ = std::move(*group);
  return own;
}

// The mapping must go before the memory.
OwnMemory::~OwnMemory() {
  group_.reset();
  if (memory_ != nullptr) device_.memory().release(memory_);
}

}  // namespace penstock::core
