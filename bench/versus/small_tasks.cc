// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "bench/versus/failure.h"
#include "bench/versus/tasks.h"

namespace penstock::versus {
namespace {

constexpr unsigned kWarmUp = 64;  // Untimed requests before the clock starts.

std::uint64_t slot_pitch(const Task& task) { return 2 * task.block; }  // Slots do not adjoin.

// The destinations of small requests: slots of device memory, and the block of the file that each got last.
class Slots {
 public:
  Slots(Fixture& fixture, const Task& task, unsigned thread)
      : fixture_(fixture), block_(task.block), blocks_(task.size / task.block), pitch_(slot_pitch(task)),
        base_(thread * task.depth * pitch_), offsets_(task.depth), random_(task.seed * 1000 + thread) {}

  unsigned count() const { return static_cast<unsigned>(offsets_.size()); }
  // A random block of the file for the slot.
  off_t next(unsigned slot) {
    offsets_[slot] = random_() % blocks_ * block_;
    return static_cast<off_t>(offsets_[slot]);
  }
  off_t place(unsigned slot) const { return static_cast<off_t>(base_ + slot * pitch_); }
  char* address(unsigned slot) const { return fixture_.memory() + place(slot); }
  // Every slot must have been filled.
  void compare(int fd) const {
    for (unsigned i = 0; i < offsets_.size(); ++i) fixture_.compare(fd, offsets_[i], address(i), block_);
  }

 private:
  Fixture& fixture_;
  const std::uint64_t block_, blocks_, pitch_, base_;
  std::vector<std::uint64_t> offsets_;
  std::mt19937_64 random_;
};

// The file, with the slots' memory registered.
class Target {
 public:
  Target(Fixture& fixture, const Task& task)
      : opened_(fixture, task.file, O_RDONLY),
        registration_(fixture.calls(), fixture.memory(), task.threads * task.depth * slot_pitch(task)) {}
  const Handle& handle() const { return opened_.handle(); }

 private:
  const Opened opened_;
  Registration registration_;
};

double percentile(std::vector<double>& values, double part) {
  const auto at = static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

// The requests of one thread, created on it before the clock starts.
class Requests {
 public:
  Requests(Fixture& fixture, const Task& task, unsigned thread, int fd)
      : fixture_(fixture), task_(task), slots_(fixture, task, thread), fd_(fd) {}
  virtual ~Requests() = default;
  virtual std::uint64_t run(double until) = 0;  // Returns how many requests it made, at least one per slot.
  void compare() const { slots_.compare(fd_); }

 protected:
  Fixture& fixture_;
  const Task& task_;
  Slots slots_;
  const int fd_;
};

using OpenRequests = std::function<std::unique_ptr<Requests>(unsigned thread)>;

// The threads of one task: they get ready, start together, and clean up after the clock stops.
class Crew {
 public:
  Crew(Fixture& fixture, const Task& task, const OpenRequests& open)
      : fixture_(fixture), task_(task), open_(open), step_(task.threads + 1) {
    for (unsigned i = 0; i < task.threads; ++i) threads_.emplace_back([this, i] { work(i); });
  }
  Sample run(const Gate& gate) {
    step_.arrive_and_wait();
    Stopwatch watch(gate);
    step_.arrive_and_wait();
    step_.arrive_and_wait();
    watch.stop();
    const Sample sample = watch.sample(done_ * task_.block, done_);
    threads_.clear();
    if (error_) std::rethrow_exception(error_);
    return sample;
  }

 private:
  void work(unsigned index) {
    std::unique_ptr<Requests> requests;
    guarded([&] { fixture_.gpu().enter(), requests = open_(index); });
    step_.arrive_and_wait();
    step_.arrive_and_wait();
    if (requests != nullptr) guarded([&] { done_ += requests->run(now() + task_.seconds); });
    step_.arrive_and_wait();
    if (requests != nullptr && task_.verify) guarded([&] { requests->compare(); });
  }
  template <typename Step>
  void guarded(Step step) try {
    step();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }

  Fixture& fixture_;
  const Task& task_;
  const OpenRequests& open_;
  std::barrier<> step_;
  std::atomic<std::uint64_t> done_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
  std::vector<std::jthread> threads_;
};

class SynchronousReads final : public Requests {
 public:
  SynchronousReads(Fixture& fixture, const Task& task, unsigned thread, const Handle& handle)
      : Requests(fixture, task, thread, handle.fd()), handle_(handle.get()) {}
  std::uint64_t run(double until) override {
    std::uint64_t done = 0;
    for (unsigned slot = 0; done < slots_.count() || now() < until; slot = (slot + 1) % slots_.count(), ++done) {
      const off_t offset = slots_.next(slot);
      expect(fixture_.calls(),
             fixture_.calls().read(handle_, fixture_.memory(), task_.block, offset, slots_.place(slot)), task_.block);
    }
    return done;
  }

 private:
  CUfileHandle_t handle_;
};

class QueuedReads final : public Requests {
 public:
  QueuedReads(Fixture& fixture, const Task& task, unsigned thread, const Handle& handle)
      : Requests(fixture, task, thread, handle.fd()), done_(task.depth) {
    check(fixture.calls().file(handle.get(), &file_));
    penstock::QueueOptions options;
    options.mode = PENSTOCK_QUEUE_POLLED;
    options.depth = task.depth;
    options.request_bytes_max = task.block;
    check(fixture.calls().queue_open(fixture.calls().opened_session(), &options, &queue_));
  }
  ~QueuedReads() override { fixture_.calls().queue_close(queue_); }
  std::uint64_t run(double until) override {
    std::uint64_t done = 0;
    for (unsigned slot = 0; slot < slots_.count(); ++slot) submit(slot);
    for (unsigned in_flight = slots_.count(); in_flight > 0;) {
      std::uint32_t count = 0;
      check(fixture_.calls().queue_reap(queue_, done_.data(), slots_.count(), 1, penstock::Queue::kForever, &count));
      const bool more = now() < until;
      for (unsigned i = 0; i < count; ++i) {
        check(done_[i].status);
        expect(fixture_.calls(), static_cast<ssize_t>(done_[i].report.bytes), task_.block);
        if (more) submit(static_cast<unsigned>(done_[i].cookie));
        else --in_flight;
      }
      done += count;
    }
    return done;
  }

 private:
  void submit(unsigned slot) {
    penstock::Request request;
    request.file = file_;
    request.base = fixture_.memory();
    request.size = task_.block;
    request.file_offset = slots_.next(slot);
    request.buffer_offset = slots_.place(slot);
    request.cookie = slot;
    check(fixture_.calls().queue_submit(queue_, &request, 1, nullptr));
  }
  static void check(const penstock_status& status) {
    if (status.code != 0) throw Failure(std::string("queue: could not ") + status.step);
  }

  penstock_file* file_ = nullptr;
  penstock_queue* queue_ = nullptr;
  std::vector<penstock::Completion> done_;
};

class PlainCopies final : public Requests {
 public:
  PlainCopies(Fixture& fixture, const Task& task, unsigned thread, int fd)
      : Requests(fixture, task, thread, fd), pinned_(fixture.pinned() + thread * task.block),
        stream_(fixture.gpu().open_stream()) {}
  ~PlainCopies() override { fixture_.gpu().close_stream(stream_); }
  std::uint64_t run(double until) override {
    std::uint64_t done = 0;
    for (unsigned slot = 0; done < slots_.count() || now() < until; slot = (slot + 1) % slots_.count(), ++done) {
      const off_t offset = slots_.next(slot);
      expect(fixture_.calls(), ::pread(fd_, pinned_, task_.block, offset), task_.block);
      fixture_.gpu().copy_to_device(slots_.address(slot), pinned_, task_.block, stream_);
      fixture_.gpu().wait(stream_);
    }
    return done;
  }

 private:
  char* pinned_;
  void* stream_;
};

template <typename Reads>
Sample run_crew(Fixture& fixture, const Task& task, const Gate& gate) {
  const Target target(fixture, task);
  const OpenRequests open = [&](unsigned thread) {
    return std::make_unique<Reads>(fixture, task, thread, target.handle());
  };
  return Crew(fixture, task, open).run(gate);
}

class Batch {
 public:
  Batch(const Calls& calls, unsigned entries) : calls_(calls), parameters_(entries), events_(entries) {
    check(calls.batch_open(&batch_, entries), "cuFileBatchIOSetUp");
  }
  ~Batch() { calls_.batch_close(batch_); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  std::vector<CUfileIOParams_t>& parameters() { return parameters_; }

  // Submits all entries and waits for them.
  void run(std::size_t block) {
    const auto entries = static_cast<unsigned>(parameters_.size());
    check(calls_.batch_submit(batch_, entries, parameters_.data(), 0), "cuFileBatchIOSubmit");
    for (unsigned left = entries; left > 0;) {
      unsigned count = left;
      timespec patience{10, 0};
      check(calls_.batch_status(batch_, left, &count, events_.data(), &patience), "cuFileBatchIOGetStatus");
      if (count == 0) throw Failure(calls_.name + ": a batch did not end in 10 s");
      for (unsigned i = 0; i < count; ++i) {
        if (events_[i].status == CUFILE_COMPLETE && events_[i].ret == block) continue;
        throw Failure(calls_.name + ": a batch entry ended with status " + std::to_string(events_[i].status));
      }
      left -= count;
    }
  }

 private:
  void check(const CUfileError_t& error, const char* call) const {
    if (error.err == CU_FILE_SUCCESS) return;
    throw Failure(calls_.name + ": " + call + " says " + std::to_string(error.err));
  }

  const Calls& calls_;
  CUfileBatchHandle_t batch_ = nullptr;
  std::vector<CUfileIOParams_t> parameters_;
  std::vector<CUfileIOEvents_t> events_;
};

// Makes requests one after the other by `read`, each timed separately.
template <typename Read>
Sample time_reads(Fixture& fixture, const Task& task, const Gate& gate, int fd, Read read_at) {
  Slots slots(fixture, task, 0);
  std::vector<double> times(task.times);
  const auto read = [&] {
    const off_t offset = slots.next(0);
    const double start = now();
    expect(fixture.calls(), read_at(offset), task.block);
    const double time = now() - start;
    if (task.verify) slots.compare(fd);
    return time;
  };
  for (unsigned i = 0; i < kWarmUp; ++i) read();
  Stopwatch watch(gate);
  for (double& time : times) time = read() * 1e6;
  watch.stop();
  Sample sample = watch.sample(task.times * task.block, task.times);
  sample.p50 = percentile(times, 0.5);
  sample.p99 = percentile(times, 0.99);
  return sample;
}

}  // namespace

Sample read_latency(Fixture& fixture, const Task& task, const Gate& gate) {
  const Target target(fixture, task);
  return time_reads(fixture, task, gate, target.handle().fd(), [&](off_t offset) {
    return fixture.calls().read(target.handle().get(), fixture.memory(), task.block, offset, 0);
  });
}

Sample time_copies(Fixture& fixture, const Task& task, const Gate& gate) {
  const Handle file(fixture.calls(), task.file, O_RDONLY);
  void* const stream = fixture.gpu().open_stream();
  const Sample sample = time_reads(fixture, task, gate, file.fd(), [&](off_t offset) {
    const ssize_t got = ::pread(file.fd(), fixture.pinned(), task.block, offset);
    fixture.gpu().copy_to_device(fixture.memory(), fixture.pinned(), task.block, stream);
    fixture.gpu().wait(stream);
    return got;
  });
  fixture.gpu().close_stream(stream);
  return sample;
}

Sample read_batches(Fixture& fixture, const Task& task, const Gate& gate) {
  const Target target(fixture, task);
  Slots slots(fixture, task, 0);
  Batch batch(fixture.calls(), task.depth);
  const auto run = [&] {
    for (unsigned slot = 0; slot < task.depth; ++slot) {
      CUfileIOParams_t& entry = batch.parameters()[slot];
      entry.mode = CUFILE_BATCH;
      entry.u.batch = {fixture.memory(), slots.next(slot), slots.place(slot), task.block};
      entry.fh = target.handle().get();
      entry.opcode = CUFILE_READ;
      entry.cookie = &entry;
    }
    batch.run(task.block);
  };
  for (int i = 0; i < 3; ++i) run();
  std::uint64_t batches = 0;
  Stopwatch watch(gate);
  for (const double until = now() + task.seconds; batches == 0 || now() < until; ++batches) run();
  watch.stop();
  const std::uint64_t operations = batches * task.depth;
  const Sample sample = watch.sample(operations * task.block, operations);
  if (task.verify) slots.compare(target.handle().fd());
  return sample;
}

Sample read_in_threads(Fixture& fixture, const Task& task, const Gate& gate) {
  return run_crew<SynchronousReads>(fixture, task, gate);
}

Sample read_in_queues(Fixture& fixture, const Task& task, const Gate& gate) {
  if (!fixture.calls().is_penstock()) throw Failure(fixture.calls().name + ": only Penstock's library has queues");
  return run_crew<QueuedReads>(fixture, task, gate);
}

Sample read_and_copy_in_threads(Fixture& fixture, const Task& task, const Gate& gate) {
  const core::UniqueFd fd = open_plainly(task.file);
  const OpenRequests open = [&](unsigned thread) {
    return std::make_unique<PlainCopies>(fixture, task, thread, fd.get());
  };
  return Crew(fixture, task, open).run(gate);
}

}  // namespace penstock::versus
