// SPDX-License-Identifier: Apache-2.0

// A request of the simulated program: its memory with guards around it, and the judgement of what became of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "penstock/penstock.hpp"
#include "simulation/files.h"

namespace penstock::simulation {

// A registered descriptor of a file. Whoever lets it go last closes it.
struct Handle {
  std::shared_ptr<File> file;
  penstock_file* raw = nullptr;
  bool is_lost = false;       // The library's descriptors of it were taken.
  unsigned flushes_told = 0;  // Failed flushes of the file, before this one flushed it last.
  ~Handle();
};

std::string text_of(const penstock_status& status);
// The status may be that of a request whose ring is broken.
bool is_of_a_broken_ring(const penstock_status& status);
// A GPU or a device that is lost, or a refusal of the GPU's driver, explains it.
bool is_of_the_gpu(const penstock_status& status);
// The GPU's driver has refused what requests on streams need.
bool is_stream_unsupported(const penstock_status& status);

// What is counted of all requests, for the comparison with the session's own counters.
struct Sums {
  std::uint64_t read_bytes = 0, written_bytes = 0;
  // The most that pieces of memory, or parts of a request on a stream, moved behind one that failed: a report tells of
  // bytes without a gap.
  std::uint64_t read_behind_gaps = 0, written_behind_gaps = 0;
};

// Of a thread: memory for one request at a time.
class Place {
 public:
  static constexpr std::size_t kGuard = 64;

  Place(penstock_session* session, std::size_t room, bool on_device);
  ~Place();
  Place(Place&& other) noexcept;
  Place& operator=(Place&&) = delete;

  // Device memory may be where no CPU may touch it: judges look at Gpu::seen() of it.
  std::byte* base() const { return base_; }
  std::size_t room() const { return room_; }
  bool on_device() const { return on_device_; }

 private:
  penstock_session* session_;
  std::size_t room_;
  bool on_device_;
  std::byte* base_ = nullptr;
  penstock_buffer* buffer_ = nullptr;  // As which it is registered.
};

class Asked {
 public:
  // Draws a range and begins. False if a write that is under way is in its way.
  bool begin(Random& random, const Place& place, std::shared_ptr<Handle> handle, std::uint64_t size_max, bool is_write);
  // The same with a range that was drawn.
  bool begin_at(Random& random, const Place& place, std::shared_ptr<Handle> handle, std::uint64_t first,
                std::uint64_t size, bool is_write);
  // May be given pieces of memory in place of one.
  void cut_into_pieces(Random& random);
  // The session refused to take it.
  void take_back();
  // Fails the run where the answer is wrong.
  void end(const penstock_status& status, const penstock_report& report, Sums& sums);

  Request request;           // Of penstock.h; its cookie, deadline and stream are the caller's.
  bool is_canceled = false;  // It must end so, and else must not.
  bool may_be_late = false, may_be_closed = false;

 private:
  bool start(Random& random, const Place& place, bool is_write);
  bool draw_range(Random& random, const Place& place, std::uint64_t size_max);
  void fill_memory();
  void require_nothing_under_way() const;
  void judge_status(const penstock_status& status, const penstock_report& report) const;
  void require_failure_before_end(std::uint64_t moved_to) const;
  void require_memory_untouched(std::size_t got, bool is_whole) const;
  bool has_errors_since() const;

  std::shared_ptr<Handle> handle_;
  bool is_write_ = false;
  std::uint64_t first_ = 0, size_ = 0;
  std::byte* memory_ = nullptr;  // Its first byte.
  std::byte* room_ = nullptr;    // Of it and what is fenced beside it.
  std::size_t room_bytes_ = 0;
  std::vector<iovec> pieces_;
  std::uint32_t change_ = 0;
  File::Look look_;
  unsigned errors_before_ = 0;
  std::size_t failures_before_ = 0;
  bool is_on_a_lost_gpu_ = false;  // It was lost before it began.
};

// A session has counted what its requests have told, else the run fails.
void compare_counters(penstock_session* session, const Sums& sums);

}  // namespace penstock::simulation
