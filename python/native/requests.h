// SPDX-License-Identifier: Apache-2.0

// The requests of a session in flight, one for each penstock.Future.
//
// Two kinds. Most go through one queue of the library, whose threads execute them; they can be canceled before they
// begin and may have a deadline. Requests in the order of a CUDA stream use penstock_stream_submit(). One Python thread
// calls reap() in a loop; the library's threads never call Python.
//
// A read with a deadline goes to memory of ours, and is copied if it arrives in time. If the deadline passes first it
// fails at once: its destination is not written afterwards, and our memory stays until the kernel releases it. The
// source of a late write stays referenced as long.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "python/native/file.h"

namespace penstock::python {

class Requests {
 public:
  explicit Requests(std::shared_ptr<SessionHandle> session);
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  // Never waits for room. timeout_s: below 0 for none. Returns the request's number. With the GIL held.
  std::uint64_t submit(const File& file, bool is_write, nanobind::handle memories, std::int64_t offset,
                       std::int64_t size, std::int64_t buffer_offset, nanobind::handle stream, double timeout_s);
  // True if the request will never begin. It is still reaped. False in a forked child, in which none of these calls
  // takes a lock that another thread held.
  bool cancel(std::uint64_t number);
  // Waits, if it may, until requests have ended or until wake(). Returns a list of (number, Report, exception or None).
  nanobind::list reap(bool may_wait);
  void wake() const;
  // Waits for requests that have begun; ended ones are still reaped. Does nothing in a forked child.
  void close();
  std::size_t under_way() const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t { waiting, queued, ended };
  struct Request {
    std::shared_ptr<FileHandle> file;
    std::vector<Memory> memories;  // Freed with the GIL.
    std::vector<iovec> pieces;
    std::unique_ptr<std::byte[]> staging;
    std::uint64_t size = 0;
    std::int64_t offset = 0;
    penstock_op op = PENSTOCK_READ;
    StreamOrder order;
    State state = State::waiting;
    bool has_deadline = false;
    Clock::time_point deadline;
    std::unique_ptr<penstock_stream_result> stream_result;  // Only for requests on a stream.
  };
  struct Ended {
    std::uint64_t number = 0;
    penstock_status status{};
    Report report;
  };
  using Numbered = std::unordered_map<std::uint64_t, std::unique_ptr<Request>>;

  static std::unique_ptr<Request> request_of(const File& file, bool is_write, nanobind::handle memories,
                                             std::int64_t offset, std::int64_t size, std::int64_t buffer_offset,
                                             nanobind::handle stream);
  static void set_deadline(Request& request, double timeout_s);
  void start_on_stream(Request& request);
  void pump();
  void end(std::uint64_t number, const penstock_status& status, const Report& report);
  void collect();
  void collect_queue();
  void deliver_all();
  void collect_streams();
  void collect_late();
  penstock_status deliver(Request& request, std::uint64_t bytes);
  void wait(int ms_max) const;
  int pause_ms() const;

  const std::shared_ptr<SessionHandle> session_;
  const pid_t process_ = ::getpid();
  penstock_queue* queue_ = nullptr;
  std::atomic<int> queue_event_{-1};
  int wake_event_ = -1;

  mutable std::mutex mutex_;  // Never held while waiting for the GIL.
  bool closing_ = false;
  std::uint64_t last_number_ = 0;
  std::uint32_t queued_ = 0;
  std::size_t on_streams_ = 0;
  Numbered requests_;
  std::deque<std::uint64_t> waiting_;
  std::vector<std::pair<Ended, std::unique_ptr<Request>>> arrived_;  // Requests that arrived in our memory in time.
  std::vector<Ended> ended_;
  std::vector<std::unique_ptr<Request>> finished_;  // Freed later, with the GIL held.
};

void bind_requests(nanobind::module_& module);

}  // namespace penstock::python
