// SPDX-License-Identifier: Apache-2.0

// A GPU whose memory is a file for each allocation, of which it exports parts as if they were dma-bufs (fake_dmabuf.h),
// at the boundaries that NVIDIA's driver asks for. What is allocated may get the address of what was freed. Its
// copies land only when they are waited for, so a missing wait fails a test. No stand-in: paths take it for a GPU. Any
// handle is a stream. Thread-safe, but for what a test sets.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <mutex>

#include "base/align.h"
#include "base/page_size.h"
#include "base/unique_fd.h"
#include "device/device.h"
#include "device/host/host_streams.h"
#include "fakes/fake_dmabuf.h"

namespace penstock::core {

class FakeGpu : public DeviceSet, public Device, public DeviceMemory {
 public:
  explicit FakeGpu(DevicePages* pages = nullptr) : Device(this, pages) {
    facts_.kind = "fake";
    facts_.memory_bytes = 1 << 30;
    std::snprintf(facts_.name, sizeof facts_.name, "fake GPU");
    std::snprintf(facts_.pci_address, sizeof facts_.pci_address, "0000:17:00.0");
  }
  ~FakeGpu() override {
    for (const Allocation& one : allocations_) ::munmap(one.memory, one.size);
  }

  int export_error = 0;        // The errno of every export.
  bool is_full = false;        // Nothing more can be allocated.
  bool loses_context = false;  // Every copy fails.
  bool lands_late = false;     // No copy is done before somebody waits for it.
  std::atomic<unsigned> exports{0};

  unsigned allocation_count() {
    const std::lock_guard lock(mutex_);
    return static_cast<unsigned>(allocations_.size());
  }

  // ---- Device
  const DeviceFacts& facts() const override { return facts_; }
  Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned markers) override {
    return std::unique_ptr<CopyQueue>(std::make_unique<Queue>(*this, markers));
  }
  Status register_host(void*, std::size_t) override { return success(); }
  bool unregister_host(void*) override { return true; }
  void make_copies_synchronous(const void*) override {}

  // ---- DeviceMemory
  Result<void*> allocate(std::size_t size) override {
    if (is_full) return failure(Code::out_of_memory, "allocate device memory");
    UniqueFd fd(::memfd_create("fake-gpu", MFD_CLOEXEC));
    if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return os_failure(errno, "make memory");
    void* const memory = map_aligned(size, fd.get());
    if (memory == MAP_FAILED) return os_failure(errno, "make memory");
    const std::lock_guard lock(mutex_);
    allocations_.push_back({memory, size, std::move(fd), ++numbers_});
    return memory;
  }
  // Other memory at the same address, as after a free and an allocation of the program's.
  void replace(void* memory) {
    const std::lock_guard lock(mutex_);
    for (Allocation& one : allocations_) {
      if (one.memory != memory) continue;
      one.fd = UniqueFd(::memfd_create("fake-gpu", MFD_CLOEXEC));
      (void)!::ftruncate(one.fd.get(), static_cast<off_t>(one.size));
      ::mmap(memory, one.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, one.fd.get(), 0);
      one.number = ++numbers_;
    }
  }
  void release(void* memory) override {
    const std::lock_guard lock(mutex_);
    allocations_.remove_if([&](const Allocation& one) {
      if (one.memory != memory) return false;
      ::munmap(one.memory, one.size);
      return true;
    });
  }
  Result<UniqueFd> export_dmabuf(const void* memory, std::size_t size) override {
    constexpr const char* kStep = "export the device's memory";
    if (export_error != 0) return os_failure(export_error, kStep);
    const std::lock_guard lock(mutex_);
    for (const Allocation& one : allocations_) {
      const std::uint64_t offset = one.offset_of(memory);
      if (offset >= one.size) continue;
      if (size > one.size - offset || (offset | size) % kExportAlign != 0) break;
      ++exports;
      return export_of_memory(one.fd.get(), offset, size);
    }
    return os_failure(EINVAL, kStep);
  }
  std::uint64_t allocation_number(const void* memory) const override {
    const std::lock_guard lock(mutex_);
    for (const Allocation& one : allocations_) {
      if (one.offset_of(memory) < one.size) return one.number;
    }
    return 0;
  }

  // ---- DeviceSet
  unsigned count() const override { return 1; }
  Result<Device*> device(unsigned) override { return static_cast<Device*>(this); }
  PointerFacts describe(const void* pointer) override {
    const std::lock_guard lock(mutex_);
    for (const Allocation& one : allocations_) {
      const auto* const begin = static_cast<const std::byte*>(one.memory);
      if (pointer < begin || pointer >= begin + one.size) continue;
      return {MemoryKind::device, this, reinterpret_cast<std::uintptr_t>(begin), one.size};
    }
    return {};
  }
  Result<StreamHome*> stream_home(void*) override { return static_cast<StreamHome*>(&streams_); }

 private:
  // At a multiple of a GPU's page of 64 KiB, as cudaMalloc gives large memory. The room is never free meanwhile, when
  // another thread could have it.
  static void* map_aligned(std::size_t size, int fd) {
    constexpr std::size_t kPage = 64u << 10;
    void* const room = ::mmap(nullptr, size + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return room;
    const auto begin = reinterpret_cast<std::uintptr_t>(room);
    const std::size_t before = align_up(begin, kPage) - begin;
    auto* const aligned = static_cast<std::byte*>(room) + before;
    if (before > 0) ::munmap(room, before);
    ::munmap(aligned + align_up(size, page_size()), kPage - before);
    return ::mmap(aligned, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  }
  struct Allocation {
    void* memory = nullptr;
    std::size_t size = 0;
    UniqueFd fd;
    std::uint64_t number = 0;

    std::uint64_t offset_of(const void* address) const {
      return static_cast<std::uint64_t>(static_cast<const char*>(address) - static_cast<const char*>(memory));
    }
  };

  class Queue final : public CopyQueue {
   public:
    Queue(const FakeGpu& gpu, unsigned markers) : gpu_(gpu), recorded_(markers, 0) {}
    ~Queue() override { land(landed_ + pending_.size()); }

    Status copy_many(std::span<const Copy> copies, Direction direction) override {
      for (const Copy& copy : copies) {
        if (direction == Direction::to_device) pending_.push_back({copy.device_address, copy.host, copy.size});
        else pending_.push_back({copy.host, copy.device_address, copy.size});
      }
      return status();
    }
    Status copy_on_device(void* to, const void* from, std::size_t size) override {
      pending_.push_back({to, from, size});
      return status();
    }
    Status record(unsigned marker) override {
      recorded_.at(marker) = landed_ + pending_.size();
      return status();
    }
    Result<bool> reached(unsigned marker) override {
      if (gpu_.lands_late && recorded_.at(marker) > landed_) return false;
      land(recorded_.at(marker));
      if (const Status lost = status(); !lost.ok()) return lost;
      return true;
    }
    Status wait(unsigned marker, bool) override {
      land(recorded_.at(marker));
      return status();
    }

   private:
    struct Pending {
      void* to;
      const void* from;
      std::size_t size;
    };

    Status status() const { return gpu_.loses_context ? failure(Code::device_lost, "copy as scripted") : success(); }
    void land(std::uint64_t count) {
      while (landed_ < count) {
        const Pending copy = pending_.front();
        pending_.pop_front();
        if (!gpu_.loses_context) std::memcpy(copy.to, copy.from, copy.size);
        ++landed_;
      }
    }

    const FakeGpu& gpu_;
    std::deque<Pending> pending_;
    std::uint64_t landed_ = 0;
    std::vector<std::uint64_t> recorded_;
  };

  class Streams final : public HostStreamHome {
   public:
    bool reaches(const PointerFacts& memory, const void*) const override { return memory.needs_device(); }
  };

  static constexpr std::uint64_t kExportAlign = 4096;

  DeviceFacts facts_;
  mutable std::mutex mutex_;
  std::uint64_t numbers_ = 0;
  std::list<Allocation> allocations_;
  Streams streams_;
};

}  // namespace penstock::core
