// SPDX-License-Identifier: Apache-2.0

// The stand-in for the module nvidia-fs in unit tests, after nvfs_abi.h, the module's source, and the behaviour of
// version 2.28.4 in an emulated machine: files are real ones with O_DIRECT, GPU memory is memory of this process. It is
// strict: errors that kill a mapping kill it here, and calls that would trip a kernel assertion abort. An asynchronous
// request fails the test, unless that looks for what it does itself: in a single-threaded process nothing holds its
// file, which is freed when the process dies, and a mapping closed during the request stays pinned for good. Its
// limits: it moves bytes by the CPU, so it proves nothing about DMA, BAR space, IOMMUs and the order in which a GPU
// sees bytes.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "path/nvfs/nvfs_kernel.h"

namespace penstock::core {

class FakeNvfs final : public NvfsKernel {
 public:
  // A fault for the next call with this number, once.
  struct Fault {
    unsigned long call = 0;
    std::int64_t error = 0;              // As told at offset 32: EIO, 512, ...
    std::uint64_t at_most = UINT64_MAX;  // Bytes that a READ or WRITE moves.
    std::int64_t told_besides = 0;       // Bytes that it tells, and has not moved.
    int result = 0;                      // What the call itself returns, with no answer: a negative errno.
  };
  struct Request {
    unsigned long call;
    std::int64_t file_offset;
    std::uint64_t size;
    std::uint64_t gpu_offset;
  };

  // How its interface differs from that of the versions that are known.
  enum class Lie {
    none,
    larger_argument,  // It reads 8 bytes more.
    larger_answer,    // It writes 8 bytes more.
    moved_error,      // Its errors are at another place of the argument.
    writes_argument,  // It uses bytes that were free.
    writes_map,       // Its MAP answers in the argument.
    writes_fence,     // It tells refusals in the fence page, too.
    takes_offset,     // It does not refuse: a file offset within a block, ...
    takes_size,
    takes_alignment,
    takes_inode,
    takes_buffered,
    other_errno,         // It refuses a wrong inode by another error.
    dies_of_refusals,    // Its mapping is dead after a refusal.
    moves_refused,       // It moves bytes, and refuses the request then.
    reads_wrong,         // One byte of each read is wrong.
    hides_holes,         // It tells no blocks that its hook did not see.
    reads_at_beginning,  // It moves all bytes to the beginning of the mapping.
    writes_wrong,        // One byte of each write is wrong.
  };

  // ---- What a test says, before it asks
  Lie lie = Lie::none;
  std::string kernel = "6.1.0-56-cloud-amd64";
  std::string version = "0.1.0";
  std::string modules = "nvme: (null)\n";
  bool counts = true;       // rw_stats_enabled
  bool counts_grow = true;  // Whether its counters see what it moves.
  unsigned node_count = 2;
  int node_error = 0;
  int shadow_error = 0;  // Of each shadow buffer.
  int map_error = 0;     // Of MAP, every time: ENOMEM, ...
  std::deque<Fault> faults;
  // What it leaves on the fence page besides, with the answer to each READ and WRITE.
  std::function<void(nvfs::Fence&)> scribble = [](nvfs::Fence&) {};
  // Called by each READ and WRITE while it is under way, on its thread: for as long as it takes, it is.
  std::function<void()> drive = [] {};
  // Whether the storage driver calls the module for a block, by its offset in the file.
  std::function<bool(std::uint64_t file_offset)> is_hooked = [](std::uint64_t) { return true; };
  // Whether a block of the file system, of block_size bytes, is a hole, besides those that the file itself tells of.
  std::function<bool(std::uint64_t file_offset)> is_hole = [](std::uint64_t) { return false; };
  std::uint64_t block_size = nvfs::kBlock;
  bool zeros_are_holes = false;  // Blocks of zeros were never written, or were punched.
  // For a machine whose GPU memory no CPU reaches: how the module does. It moves bytes that the file system's own calls
  // see but for those of the shadow buffer, which a write that bypasses it puts into the file.
  std::function<std::byte*(std::uint64_t address, std::uint64_t bytes)> reach =
      [](std::uint64_t address, std::uint64_t) { return reinterpret_cast<std::byte*>(address); };
  std::function<ssize_t(int fd, const std::byte* from, std::uint64_t bytes, std::int64_t offset, bool is_direct)>
      write_file = [](int fd, const std::byte* from, std::uint64_t bytes, std::int64_t offset, bool) {
        return ::pwrite(fd, from, bytes, offset);
      };
  // Calls this when an asynchronous request ends, which has moved its bytes by then. Without it none is taken.
  std::function<void(std::function<void()> answer)> answer_later;
  // The fault of a call where `faults` has none.
  std::function<Fault(unsigned long call)> draw_fault = [](unsigned long) { return Fault{}; };

  // ---- What it sees afterwards
  std::vector<Request> requests;
  std::atomic<unsigned> open_nodes{0};
  std::atomic<unsigned> mappings{0};  // Shadow buffers now.
  std::atomic<unsigned> pinned{0};    // Of them, with GPU memory.
  std::atomic<unsigned> maps_made{0};
  std::atomic<unsigned> under_way{0};  // Requests now.
  unsigned asynchronous = 0;           // Requests now that nobody waits for within their calls.
  std::uint64_t shadow_bytes = 0;      // Now.

  // NVIDIA's library has made a request.
  void count_request(bool is_write) {
    const std::lock_guard lock(mutex_);
    ++(is_write ? writes_ok_ : reads_ok_);
  }

  int open_node(unsigned number) override;
  void close_node(int fd) override;
  std::byte* map(int fd, std::uint64_t bytes, int& error) override;
  void unmap(std::byte* shadow, std::uint64_t bytes) override;
  int control(int fd, unsigned long call, nvfs::Argument& argument) override;
  std::string text(const char* file) override;

 private:
  enum class State { unmapped, ready, in_progress, dead };
  struct Group {
    std::uint64_t bytes = 0;
    State state = State::unmapped;
    std::uint64_t gpu_address = 0;
    std::uint64_t gpu_bytes = 0;
    nvfs::Fence* fence = nullptr;
  };

  int fail(nvfs::Argument& argument, std::int64_t error) const;
  int answer(unsigned long call, nvfs::Argument& argument);
  int refuse(nvfs::Argument& argument, const nvfs::IoArgument& io, std::int64_t error);
  int take(nvfs::Argument& argument, nvfs::IoArgument io);
  void check_inside(std::uint64_t shadow) const;
  int control_map(nvfs::Argument& argument);
  std::int64_t check_map(const nvfs::MapArgument& map) const;
  int control_io(unsigned long call, nvfs::Argument& argument);
  int end_later(Group& group, nvfs::Argument& argument, nvfs::IoArgument io, std::int64_t result);
  std::int64_t check_file(const nvfs::IoArgument& io, bool is_write) const;
  std::int64_t check_range(const Group& group, const nvfs::IoArgument& io, int file_flags) const;
  std::int64_t carry_out(unsigned long call, const nvfs::IoArgument& io, const Group& group, std::uint64_t at_most);
  std::int64_t read_blocks(const Group& group, const nvfs::IoArgument& io, std::uint64_t at_most) const;
  bool read_block(const Group& group, const nvfs::IoArgument& io, const std::byte* from, std::uint64_t done) const;
  bool has_data(int fd, std::uint64_t offset) const;
  static bool is_regular(int fd);
  bool is_zero(const std::byte* block) const;
  std::int64_t write_blocks(const Group& group, const nvfs::IoArgument& io, std::uint64_t at_most,
                            bool& is_direct) const;
  Fault next_fault(unsigned long call);

  mutable std::mutex mutex_;
  std::map<std::uint64_t, Group> groups_;  // By shadow address.
  unsigned long long reads_ok_ = 0, writes_ok_ = 0;
};

}  // namespace penstock::core
