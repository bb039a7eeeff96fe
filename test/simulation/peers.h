// SPDX-License-Identifier: Apache-2.0

// A PCIe device of the simulated machine that offers memory to storage (p2pmem), as a drive's controller memory buffer
// does: the kernel moves bytes between it and files opened with O_DIRECT, for the path p2pdma. The library finds it in
// /sys and maps its memory, which the CPU reaches as well. The kernel's answers are those that were measured: drives or
// ways that refuse such pages, kernels that move a page at most, and ways that lose bytes and tell of success. A seed
// may have requests refused later, and the device's driver unbound at any moment: whoever touches its memory then ends,
// and a call of the kernel fails with EFAULT; what was begun before still lands.
//
// /proc cannot be seen on such a machine: nothing is known of it beforehand, and the self-test alone judges.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "simulation/files.h"

namespace penstock::simulation {

class Peers {
 public:
  // This run's machine has it.
  void plug_in();
  // Also false in a forked child.
  bool is_there() const;
  bool is_lost() const { return is_there() && is_lost_; }
  bool owns(const void* memory) const { return find(memory) != pieces_.end(); }
  // Where bytes of its memory are for a judge; other memory is where it is.
  std::byte* seen(std::byte* memory) const;
  // A file that self-tests may overwrite, by a name.
  std::string scratch() const { return "/proc/self/fd/" + std::to_string(scratch_fd_); }
  // Bytes that went between file and device, and not through memory of the host.
  std::uint64_t moved() const { return moved_; }
  // Why a session is not through with it though it is closed; null: it is. Memory that was to be freed by a closed
  // session stays.
  const char* left_over(bool is_closed_early) const {
    return pieces_.empty() || is_closed_early ? nullptr : "memory of a device stays mapped";
  }

  // ---- For the calls
  bool open(const char* name, int& fd);
  bool close(int fd);
  void* map(void* place, int fd, std::size_t size);  // Null: it is none of its descriptors.
  void unmap(const void* memory);
  // What the kernel answers to a transfer: an errno, or 0.
  int refuse(bool is_direct, std::span<const iovec> memory);
  // Where a drive has the memory, which may be the wrong place.
  std::byte* reach(bool is_write, std::byte* memory, std::size_t size);

 private:
  enum class Way : std::uint8_t { open, refused, refused_by_bus, page_at_most, loses_reads, loses_writes };
  struct Piece {
    std::size_t size;
    std::byte* alias;
  };
  using Pieces = std::map<const std::byte*, Piece>;

  Pieces::const_iterator find(const void* memory) const;
  bool draw_loss();
  void be_lost();

  pid_t owner_ = 0;
  Way way_ = Way::open;
  std::size_t bytes_ = 0;  // Of its memory.
  Pieces pieces_;          // That are mapped.
  std::set<int> descriptors_;
  std::shared_ptr<File> scratch_;
  int scratch_fd_ = -1;
  unsigned fails_one_in_ = 0;
  std::uint64_t calm_ = 0, closes_in_ = 0, coming_loss_ = 0;  // Transfers, until then; 0 of the later two: never.
  bool is_lost_ = false;
  std::uint64_t moved_ = 0;
};

Peers& peers();

}  // namespace penstock::simulation
