// SPDX-License-Identifier: Apache-2.0

// A GPU of the simulated machine: memory that no CPU may touch, and streams, whose work takes simulated time, ends in
// order within a stream and in any order between two. The calls of its driver are in cuda.cc, which the library loads
// in place of libcuda.so.1. A stream reads and writes memory at the end of each piece of its work, so that whoever does
// not wait for that sees other bytes. A seed may have calls refused, and the GPU lost at any moment: from then on each
// call that concerns it fails, and nothing lands any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "device/cuda/cuda_api.h"
#include "device/cuda/scatter_kernel.h"
#include "simulation/scheduler.h"

namespace penstock::core {
class PinnedPages;
}

namespace penstock::simulation {

using Address = std::uint64_t;  // Of the GPU, where host memory has its own.

struct GpuStream;

struct GpuWork {
  enum class Kind : std::uint8_t { nothing, copy, scatter, copy_as_told, checksum, hash, call, wait, write };
  Kind kind = Kind::nothing;
  Address to = 0, from = 0;  // Of copies; of checksums `to` is that of the list. A word is at `to`.
  std::size_t size = 0;
  std::uint32_t value = 0;
  void (*function)(void*) = nullptr;
  void* argument = nullptr;
  std::vector<core::ScatterPiece> pieces = {};
  core::ScatterEnd end = {};
  std::vector<std::pair<GpuStream*, std::uint64_t>> after = {};  // Streams, and how far they must be.

  bool is_kernel() const { return kind >= Kind::scatter && kind <= Kind::hash; }
};

struct GpuStream {
  bool waits_for_default = true;
  bool is_default = false;
  bool is_busy = false;  // Its first piece of work is under way.
  bool is_gone = false;
  Nanoseconds pause = 0;  // Until a word is looked at again.
  std::deque<GpuWork> pending = {};
  std::uint64_t landed = 0;
  std::uint64_t end() const { return landed + pending.size(); }
};

class Gpu {
 public:
  // This run's machine has it. What goes wrong is drawn.
  void plug_in();
  // Also false in a forked child, which has no driver.
  bool is_there() const;
  bool is_lost() const { return loss_ != 0; }
  int loss() const { return loss_; }
  // A call was refused, with this error, before it did anything.
  bool has_refused() const { return !refused_.empty(); }
  bool has_refused(int error) const;
  bool has_words() const { return has_words_; }
  bool tells_of_memory_when_lost() const { return tells_when_lost_; }
  bool has_one_address_space() const { return has_kernels_; }
  unsigned threads() const;  // Of the driver.

  // Where bytes of its memory are for a judge; host memory is where it is.
  std::byte* seen(const void* memory) const;
  // The file that its memory is, for who exports it, and the places in it.
  int descriptor() const { return descriptor_; }
  std::uint64_t offset_of(Address address) const { return address - memory_; }
  Address address_at(std::uint64_t offset) const { return memory_ + offset; }
  bool owns(Address address) const { return address - memory_ < kBytes && memory_ != 0; }

  // ---- Memory
  struct Block {
    std::size_t size = 0;
    std::uint64_t number = 0;
    bool is_host = false;
    std::shared_ptr<core::PinnedPages> pages = nullptr;  // Of a file, where they are registered.
  };
  using Blocks = std::map<Address, Block>;
  Address allocate(std::size_t size);                               // 0: there is no room.
  bool free(Address address);                                       // False if nothing begins there.
  int add_host(void* memory, std::size_t size, bool is_of_a_file);  // Returns the driver's error.
  bool remove_host(void* memory);
  Blocks::const_iterator find(Address address) const;
  bool knows(Blocks::const_iterator block) const { return block != blocks_.end(); }
  bool is_reached(Address address, std::size_t size) const;
  bool has_pinned(const void* memory, std::size_t size) const;  // Some of this memory of the host.

  // ---- Streams
  GpuStream* open_stream(bool waits_for_default);
  GpuStream& default_stream() { return *default_; }
  void give(GpuStream& stream, GpuWork work);
  void wait_for(const GpuStream& stream, std::uint64_t target);
  // A function on it was not called, or has not returned.
  static bool has_call_left(const GpuStream& stream);
  void wait_for_all();
  void wait_for_held();
  // For a thread of the driver: runs calls of streams, for good.
  [[noreturn]] void run_calls();

  // ---- What goes wrong
  // The driver has ended with its process, which still calls it.
  void shut_down();
  // The driver's error by which the next call fails: it is lost, or this call is refused; else 0.
  int trouble(bool may_be_refused);

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 30;

  void start(GpuStream& stream);
  bool is_ready(const GpuStream& stream) const;
  bool is_held(const GpuStream& stream) const;
  bool is_crowded_out(const GpuWork& work) const;
  void start_blocked();
  void end_first(GpuStream& stream);
  Nanoseconds time_of(const GpuWork& work) const;
  void look_at_word(GpuStream& stream);
  void perform(const GpuWork& work);
  void copy(Address to, Address from, std::size_t size);
  void sum(const GpuWork& work);
  void store(Address word, std::uint32_t value);
  void require_reached(Address address, std::size_t size) const;
  void lose(int loss);

  int owner_ = 0;  // The process.
  int descriptor_ = -1;
  Address memory_ = 0;
  std::byte* alias_ = nullptr;
  Blocks blocks_;
  std::uint64_t allocations_ = 0;
  std::deque<GpuStream> streams_;  // Never shrinks: a handle that is stale must be noticed.
  GpuStream* default_ = nullptr;
  std::deque<GpuStream*> calls_;
  bool has_words_ = true, tells_when_lost_ = true, has_kernels_ = true;
  unsigned refuses_one_in_ = 0, refuses_after_ = 0;  // One call in so many, behind so many of those that may be.
  unsigned asked_ = 0;
  std::map<int, unsigned> refused_;
  int loss_ = 0, coming_loss_ = 0;
  bool is_still_ = false;  // Nothing starts or ends any more: it is lost, or about to be.
};

Gpu& gpu();

}  // namespace penstock::simulation
