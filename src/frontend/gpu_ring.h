// SPDX-License-Identifier: Apache-2.0

// The ring by which kernels ask for bytes: slots in pinned host memory (penstock/gpu_layout.cuh), and the threads that
// answer them. penstock/gpu.cuh is the kernels' side. A kernel cannot wake a thread, so the threads look at the slots:
// without a pause while they are asked, and in timed sleeps, up to half a millisecond, where nothing comes.
//
// Whatever happens to the threads, kernels that wait get an error: when the ring stops, when a thread ends, or at their
// own deadline. Whatever a kernel wrote into a slot is checked.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "core/report.h"
#include "device/pinned_block.h"
#include "penstock/gpu_layout.cuh"

namespace penstock::core {

class GpuRing {
 public:
  struct SlotMemory {
    std::byte* pinned;
    unsigned slot;
  };
  struct Read {
    std::uint32_t bytes;
    bool is_in_device = false;
  };
  // Reads the file for a kernel. Called on the ring's threads.
  class Reader {
   public:
    // Before the first of the reads that a thread answers in one look at its slots.
    virtual void begin_look(unsigned /*thread*/) {}
    // Into the slot's pinned memory, or its device memory. Fewer bytes at the file's end.
    virtual Result<Read> read(unsigned thread, std::uint64_t offset, std::uint32_t bytes, const SlotMemory& to) = 0;
    // Starts to bring the range in, and does not wait for it.
    virtual void prefetch(unsigned /*thread*/, std::uint64_t /*offset*/, std::uint32_t /*bytes*/) {}

   protected:
    ~Reader() = default;
  };
  struct Terms {
    unsigned threads = 1;
    unsigned slots = 1024;
    std::uint32_t slot_bytes = 4096;
    const Placement* placement = nullptr;
  };

  // The device has registered pages (Device::pages()).
  static Result<std::unique_ptr<GpuRing>> open(Device& device, const Terms& terms, Reader& reader);
  // No kernel may use the ring any more.
  ~GpuRing();
  GpuRing(const GpuRing&) = delete;
  GpuRing& operator=(const GpuRing&) = delete;

  // Kernels that wait, and those that ask later, get Error::closed. Waits for reads that have begun.
  void stop();
  // No request is answered any more: it was stopped, or a thread has ended.
  bool is_over() const;
  // Kernels see from now on that the file may change; nobody waits for them.
  void raise_generation();
  std::uint32_t generation() const { return std::atomic_ref(control(0).generation).load(); }

  // Fills in the addresses by which kernels reach the ring.
  void describe(gpu::Layout& layout) const;

 private:
  struct Thread {
    GpuRing* ring = nullptr;
    unsigned number = 0;
    pthread_t handle = {};
  };
  // The numbers of the requests of one line that were answered, for the thread that looks at it. No other thread
  // writes to its cache line.
  struct alignas(64) Answered {
    std::uint32_t numbers[gpu::kSlotsOfLine] = {};
  };
  // A thread that ends while the ring is served ends it for all: nobody else looks at its slots.
  class Attendance;

  GpuRing(const Terms& terms, Reader& reader, PinnedBlock memory, std::byte* in_kernels);
  bool start();
  void serve(unsigned number);
  bool look(unsigned thread);
  void answer(unsigned thread, unsigned slot, std::uint64_t what, std::uint64_t offset);
  Result<Read> move(unsigned thread, unsigned slot, std::uint64_t what, std::uint64_t offset);
  void end(gpu::Error error);
  void sleep(std::chrono::nanoseconds time) EXCLUDES(mutex_);

  // The places of the ring's parts in its memory, behind what says whether it is served.
  struct Places {
    explicit Places(const Terms& terms);
    std::size_t slots, requests, staging, size;
  };

  gpu::Control& control(unsigned i) const { return reinterpret_cast<gpu::Control*>(memory_.data())[i]; }
  gpu::Slot& slot(unsigned i) const { return reinterpret_cast<gpu::Slot*>(memory_.data() + places_.slots)[i]; }
  gpu::Request& request(unsigned i) const {
    return reinterpret_cast<gpu::Request*>(memory_.data() + places_.requests)[i];
  }

  const Terms terms_;
  const Places places_;
  Reader& reader_;
  PinnedBlock memory_;
  std::byte* const in_kernels_;
  std::vector<Thread> threads_;
  std::vector<Answered> answered_;
  Mutex mutex_;
  ConditionVariable stopping_;
};

}  // namespace penstock::core
