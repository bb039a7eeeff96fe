// SPDX-License-Identifier: Apache-2.0

// Dma-bufs as registered buffers of io_uring, on a simulated machine with a GPU (gpu.h) that exports its memory so, and
// the raw drives that take them. The kernel's answers are those of the unit tests' stand-in (fakes/fake_dmabuf.h), as
// they were measured; transfers are those of the simulated disk. A seed may have exports, registrations and requests
// refused, the exporter be slow or wrong, and the GPU be lost while its memory is registered. Memory that is reached
// must be allocated, and be the allocation that was exported.
#pragma once

#include <linux/io_uring.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fakes/fake_dmabuf.h"
#include "simulation/files.h"

namespace penstock::simulation {

class Dmabufs {
 public:
  // This run's machine has them. The GPU must be there.
  void plug_in();
  bool is_there() const { return kernel_ != nullptr; }
  // Its raw drives, of such a size at most, of the weather that is.
  void make_drives(std::uint64_t size_max);
  const std::shared_ptr<File>& drive(Random& random) const { return drives_[random.below(drives_.size())]; }
  // A part of the first drive that self-tests may overwrite, by a name.
  std::string scratch() const { return "/proc/self/fd/" + std::to_string(scratch_fd_); }
  // Bytes that went between drives and GPU, and not through memory of the host.
  std::uint64_t moved() const { return moved_; }
  // Why a session is not through with them though it is closed; null: it is.
  const char* left_over() const;

  // ---- For the driver: returns a descriptor, or -1 where this memory cannot be exported.
  int export_memory(std::uint64_t address, std::uint64_t size);
  // ---- For the rings
  core::FakeDmabufs& kernel() { return *kernel_; }
  bool is_refused();
  void count_moved(std::uint64_t bytes) { moved_ += bytes; }
  void count_slots(int more) { slots_ += more; }

 private:
  std::unique_ptr<core::FakeDmabufs> kernel_;
  std::vector<std::shared_ptr<File>> drives_;
  std::shared_ptr<File> scratch_;
  int scratch_fd_ = -1;
  unsigned fails_one_in_ = 0;
  std::uint64_t calm_ = 0;  // So many questions are not refused, first.
  bool can_export_ = true;
  std::vector<std::pair<int, std::uint64_t>> exports_;  // Descriptors, and their inodes.
  std::uint64_t moved_ = 0;
  int slots_ = 0;
};

Dmabufs& dmabufs();

// The part of one ring's table that has dma-bufs.
class RingSlots {
 public:
  RingSlots() = default;
  ~RingSlots();
  RingSlots(const RingSlots&) = delete;
  RingSlots& operator=(const RingSlots&) = delete;

  // As io_uring_register answers, with the call's own argument: a number of slots, or a negative errno. `told` is the
  // tag of a slot that was cleared, which the ring has to post; 0: none.
  int update(const void* argument, std::uint64_t& told);
  bool has(unsigned slot) const { return slots_.contains(slot); }
  // Begins what an entry asks for that names one; calls `complete` once, now or later, with the result.
  void start(const io_uring_sqe& entry, const std::function<void(int result)>& complete);

 private:
  struct Slot {
    int number;  // Of fakes_.
    std::uint64_t tag;
    std::uint64_t address, allocation;  // Of the GPU's memory.
    bool is_mapped = false;
    unsigned under_way = 0;
  };
  struct Transfer;
  int set(unsigned slot, int dmabuf, int drive, std::uint64_t tag);
  int clear(unsigned slot, std::uint64_t& told);
  static void be_slow(Fate& fate);
  void perform(Slot& slot, const std::shared_ptr<Transfer>& transfer, const std::function<void(int)>& complete);
  void move(const Slot& slot, Transfer& transfer, std::size_t to);

  core::FakeSlots fakes_{dmabufs().kernel()};
  std::map<unsigned, Slot> slots_;
};

}  // namespace penstock::simulation
