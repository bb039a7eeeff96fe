// SPDX-License-Identifier: Apache-2.0

// Paged blocks: chunks of the file, each to or from pieces scattered over device memory.
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "bench/versus/failure.h"
#include "bench/versus/tasks.h"

namespace penstock::versus {
namespace {

// The places of the file's pieces in device memory: as many places as pieces, shuffled.
class Pages {
 public:
  Pages(Fixture& fixture, const Task& task) : fixture_(fixture), piece_(task.piece), places_(task.size / task.piece) {
    std::iota(places_.begin(), places_.end(), std::uint64_t{0});
    std::shuffle(places_.begin(), places_.end(), std::mt19937_64(task.seed));
    for (const std::uint64_t place : places_) vectors_.push_back({fixture_.memory() + place * piece_, piece_});
  }
  std::uint64_t count() const { return places_.size(); }
  std::uint64_t bytes() const { return count() * piece_; }
  off_t place(std::uint64_t piece) const { return static_cast<off_t>(places_[piece] * piece_); }
  const iovec* vectors(std::uint64_t piece) const { return &vectors_[piece]; }
  void compare(int fd) const {
    for (std::uint64_t i = 0; i < count(); ++i) {
      fixture_.compare(fd, i * piece_, static_cast<const char*>(vectors_[i].iov_base), piece_);
    }
  }

 private:
  Fixture& fixture_;
  const std::uint64_t piece_;
  std::vector<std::uint64_t> places_;
  std::vector<iovec> vectors_;
};

// A threaded queue, as a program with paged blocks uses it.
class PagedQueue {
 public:
  PagedQueue(Fixture& fixture, const Task& task) : calls_(fixture.calls()), done_(task.depth) {
    penstock::QueueOptions options;
    options.mode = PENSTOCK_QUEUE_THREADED;
    options.depth = task.depth;
    check(calls_.queue_open(calls_.opened_session(), &options, &queue_));
  }
  ~PagedQueue() { calls_.queue_close(queue_); }
  PagedQueue(const PagedQueue&) = delete;
  PagedQueue& operator=(const PagedQueue&) = delete;

  void submit(const penstock::Request& request) { check(calls_.queue_submit(queue_, &request, 1, nullptr)); }
  // Waits for at least one completion; returns how many there were.
  unsigned reap(std::uint64_t bytes_each) {
    std::uint32_t count = 0;
    check(calls_.queue_reap(queue_, done_.data(), static_cast<std::uint32_t>(done_.size()), 1,
                            penstock::Queue::kForever, &count));
    for (std::uint32_t i = 0; i < count; ++i) {
      check(done_[i].status);
      expect(calls_, static_cast<ssize_t>(done_[i].report.bytes), bytes_each);
    }
    return count;
  }

 private:
  static void check(const penstock_status& status) {
    if (status.code != 0) throw Failure(std::string("queue: could not ") + status.step);
  }

  const Calls& calls_;
  penstock_queue* queue_ = nullptr;
  std::vector<penstock::Completion> done_;
};

int flags_of(const Task& task) { return task.write ? O_RDWR | O_CREAT : O_RDONLY; }

void move_chunks(Fixture& fixture, const Task& task, const Pages& pages, const Handle& handle, PagedQueue& queue) {
  penstock_file* file = nullptr;
  if (fixture.calls().file(handle.get(), &file).code != 0) throw Failure("could not find the file of a handle");
  const std::uint64_t pieces = task.block / task.piece, chunks = task.size / task.block;
  unsigned in_flight = 0;
  for (std::uint64_t next = 0; next < chunks || in_flight > 0; in_flight -= queue.reap(task.block)) {
    for (; next < chunks && in_flight < task.depth; ++next, ++in_flight) {
      penstock::Request request;
      request.op = task.write ? PENSTOCK_WRITE : PENSTOCK_READ;
      request.file = file;
      request.file_offset = static_cast<std::int64_t>(next * task.block);
      request.pieces = pages.vectors(next * pieces);
      request.piece_count = static_cast<std::uint32_t>(pieces);
      queue.submit(request);
    }
  }
}

void move_pieces(Fixture& fixture, const Task& task, const Pages& pages, const Handle& handle) {
  const Calls& calls = fixture.calls();
  for (std::uint64_t i = 0; i < pages.count(); ++i) {
    const auto offset = static_cast<off_t>(i * task.piece);
    const ssize_t moved = task.write ? calls.write(handle.get(), fixture.memory(), task.piece, offset, pages.place(i))
                                     : calls.read(handle.get(), fixture.memory(), task.piece, offset, pages.place(i));
    expect(calls, moved, task.piece);
  }
}

template <typename Move>
Sample move_pages(Fixture& fixture, const Task& task, const Gate& gate, Move move) {
  const Pages pages(fixture, task);
  if (task.verify && !task.write) fixture.spoil(task.size);
  const Opened opened(fixture, task.file, flags_of(task));
  const Handle& handle = opened.handle();
  if (task.write && ::fsync(handle.fd()) != 0) fail_errno(task.file, "flush it");
  const Registration registration(fixture.calls(), fixture.memory(), task.size);
  Stopwatch watch(gate);
  move(pages, handle);
  watch.stop();
  const Sample sample = watch.sample(pages.bytes(), pages.count());
  if (task.verify) pages.compare(handle.fd());
  return sample;
}

}  // namespace

Sample move_paged_chunks(Fixture& fixture, const Task& task, const Gate& gate) {
  if (!fixture.calls().is_penstock()) throw Failure(fixture.calls().name + ": only Penstock's library has queues");
  PagedQueue queue(fixture, task);
  return move_pages(fixture, task, gate, [&](const Pages& pages, const Handle& handle) {
    move_chunks(fixture, task, pages, handle, queue);
  });
}

Sample move_paged_pieces(Fixture& fixture, const Task& task, const Gate& gate) {
  return move_pages(fixture, task, gate,
                    [&](const Pages& pages, const Handle& handle) { move_pieces(fixture, task, pages, handle); });
}

}  // namespace penstock::versus
