#include "bench_job.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "arena.h"
#include "failure.h"
#include "interrupt.h"
#include "progress.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kSlotAlign = 4096;  // Direct I/O in place wants aligned slots.
constexpr std::chrono::milliseconds kWatchInterval{50};

std::uint64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec);
}

// What the threads of one job share.
struct Shared {
  explicit Shared(unsigned threads) : ready(threads + 1), go(threads + 1), running(threads) {}

  std::barrier<> ready, go;
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable ended;
  unsigned running;  // Guarded by mutex, as is error.
  std::string error;
};

class Worker {
 public:
  Worker(const Job& job, unsigned index, Shared& shared);
  void run();

  const Tally& tally() const { return tally_; }
  std::uint64_t end_ns() const { return end_ns_; }
  std::uint64_t bytes_so_far() const { return bytes_so_far_.load(std::memory_order_relaxed); }

 private:
  struct Flight {
    Extent extent;
    std::uint64_t start_ns = 0;
  };

  void run_one_by_one();
  void run_queued(Queue& queue);
  bool start(Queue& queue, std::uint64_t slot);
  bool prepare(Flight& flight, std::uint64_t slot);
  void finish(const Flight& flight, std::uint64_t slot, const Status& status, const penstock_report& report,
              std::uint64_t latency);
  void check(const Extent& extent, std::uint64_t slot);
  void give_up(const std::string& error);
  bool may_go_on(std::uint64_t now) const {
    return now < deadline_ns_ && !shared_.stop.load(std::memory_order_relaxed);
  }

  const Job& job_;
  Shared& shared_;
  Extents extents_;
  std::uint64_t slot_size_;
  Arena arena_;
  std::optional<Buffer> registration_;
  std::vector<std::byte> scratch_;  // One block: where content is made and compared.
  std::vector<Flight> flights_;
  std::uint64_t deadline_ns_ = 0;
  std::uint64_t end_ns_ = 0;
  Tally tally_;
  alignas(64) std::atomic<std::uint64_t> bytes_so_far_{0};
};

Worker::Worker(const Job& job, unsigned index, Shared& shared)
    : job_(job), shared_(shared), extents_(job.range, job.is_random, job.seconds > 0, index, job.threads, job.seed),
      slot_size_((job.range.block_size + kSlotAlign - 1) / kSlotAlign * kSlotAlign),
      arena_(job.host_memory ? Arena::on_host(slot_size_ * job.depth)
                             : Arena::on_device(*job.session, job.gpu, slot_size_ * job.depth)),
      scratch_(job.range.block_size), flights_(job.depth) {
  // Incompressible, different in every slot, and touched before the clock runs.
  for (unsigned slot = 0; slot < job.depth; ++slot) {
    RandomContent(job.seed + index).fill(scratch_, slot * slot_size_);
    arena_.upload(slot * slot_size_, scratch_);
  }
  if (job.register_memory) registration_ = require(job.session->buffer(arena_.data(), arena_.size()), "buffer");
}

void Worker::run() {
  std::optional<Queue> queue;
  try {
    if (job_.depth > 1) queue = require(job_.session->queue(job_.depth, job_.range.block_size), "queue");
  } catch (const std::exception& error) {
    give_up(error.what());
  }
  shared_.ready.arrive_and_wait();
  shared_.go.arrive_and_wait();
  deadline_ns_ = job_.seconds > 0 ? now_ns() + static_cast<std::uint64_t>(job_.seconds * 1e9) : UINT64_MAX;
  try {
    queue ? run_queued(*queue) : run_one_by_one();
  } catch (const std::exception& error) {
    give_up(error.what());
  }
  end_ns_ = now_ns();
  queue.reset();
  const std::lock_guard lock(shared_.mutex);
  --shared_.running;
  shared_.ended.notify_one();
}

void Worker::give_up(const std::string& error) {
  shared_.stop = true;
  const std::lock_guard lock(shared_.mutex);
  if (shared_.error.empty()) shared_.error = error;
}

void Worker::run_one_by_one() {
  Flight flight;
  std::uint64_t now = now_ns();
  while (may_go_on(now) && prepare(flight, 0)) {
    penstock_report report{};
    const auto transfer = [&](auto call) {
      return call(job_.session->raw(), job_.file->id(), arena_.data(), flight.extent.size,
                  static_cast<std::int64_t>(flight.extent.offset), 0, &report);
    };
    flight.start_ns = now_ns();
    const Status status = job_.is_write ? transfer(penstock_write) : transfer(penstock_read);
    now = now_ns();
    finish(flight, 0, status, report, now - flight.start_ns);
  }
}

void Worker::run_queued(Queue& queue) {
  std::vector<penstock_completion> completions(job_.depth);
  unsigned outstanding = 0;
  bool more = may_go_on(now_ns());
  while (more && outstanding < job_.depth && start(queue, outstanding)) ++outstanding;
  while (outstanding > 0) {
    const unsigned count = queue.reap(completions, 1);
    if (count == 0) throw Failure("the queue lost requests in flight");
    const std::uint64_t now = now_ns();
    more = more && may_go_on(now);
    for (unsigned i = 0; i < count; ++i) {
      const penstock_completion& done = completions[i];
      const Flight& flight = flights_[done.cookie];
      finish(flight, done.cookie, done.status, done.report, now - flight.start_ns);
      if (!(more && start(queue, done.cookie))) --outstanding;
    }
  }
}

bool Worker::start(Queue& queue, std::uint64_t slot) {
  Flight& flight = flights_[slot];
  if (!prepare(flight, slot)) return false;
  penstock_request request{};
  request.is_write = job_.is_write ? 1 : 0;
  request.file = job_.file->id();
  request.base = arena_.data();
  request.size = flight.extent.size;
  request.file_offset = static_cast<std::int64_t>(flight.extent.offset);
  request.buffer_offset = static_cast<std::int64_t>(slot * slot_size_);
  request.cookie = slot;
  flight.start_ns = now_ns();
  require(queue.submit(request), job_.path);
  return true;
}

bool Worker::prepare(Flight& flight, std::uint64_t slot) {
  if (!extents_.next(flight.extent)) return false;
  if (job_.is_write && job_.content != nullptr) {
    const auto bytes = std::span(scratch_).first(flight.extent.size);
    job_.content->fill(bytes, flight.extent.offset);
    arena_.upload(slot * slot_size_, bytes);
  }
  return true;
}

void Worker::finish(const Flight& flight, std::uint64_t slot, const Status& status, const penstock_report& report,
                    std::uint64_t latency) {
  if (!status) throw Failure(fmt::format("{}: at offset {}: {}", job_.path, flight.extent.offset, status.message()));
  if (report.bytes != flight.extent.size) {
    throw Failure(fmt::format("{}: at offset {}: {} of {} bytes moved: the file ends early", job_.path,
                              flight.extent.offset, report.bytes, flight.extent.size));
  }
  tally_.add(report, latency);
  bytes_so_far_.store(tally_.bytes, std::memory_order_relaxed);
  if (job_.written != nullptr) job_.written->set((flight.extent.offset - job_.range.begin) / job_.range.block_size);
  if (!job_.is_write && job_.content != nullptr) check(flight.extent, slot);
}

void Worker::check(const Extent& extent, std::uint64_t slot) {
  const auto bytes = std::span(scratch_).first(extent.size);
  arena_.download(slot * slot_size_, bytes);
  const auto difference = job_.content->first_difference(bytes, extent.offset);
  if (!difference) return;
  throw Failure(fmt::format("{}: verify: the byte at offset {} is wrong", job_.path, extent.offset + *difference));
}

using Workers = std::vector<std::unique_ptr<Worker>>;

// Until all threads have ended: tells how far they are, and stops them at Ctrl-C.
void watch(const Job& job, Shared& shared, const Workers& workers) {
  Progress progress(job.label);
  const std::uint64_t start = now_ns();
  std::unique_lock lock(shared.mutex);
  while (!shared.ended.wait_for(lock, kWatchInterval, [&] { return shared.running == 0; })) {
    if (interrupted()) shared.stop = true;
    std::uint64_t bytes = 0;
    for (const auto& worker : workers) bytes += worker->bytes_so_far();
    const double part = job.seconds > 0 ? static_cast<double>(now_ns() - start) / 1e9 / job.seconds
                                        : static_cast<double>(bytes) / static_cast<double>(job.range.size);
    progress.update(bytes, part);
  }
}

// A thread that cannot be started must not leave the others waiting for it.
void start_threads(const Workers& workers, Shared& shared, std::vector<std::jthread>& threads) try {
  threads.reserve(workers.size());
  for (const auto& worker : workers) threads.emplace_back([&worker] { worker->run(); });
} catch (const std::system_error&) {
  shared.stop = true;
  const auto missing = static_cast<std::ptrdiff_t>(workers.size() - threads.size() + 1);
  (void)shared.ready.arrive(missing);
  (void)shared.go.arrive(missing);
  throw Failure(fmt::format("only {} of {} threads could be started; ask for fewer, or raise the limit (ulimit -u)",
                            threads.size(), workers.size()));
}

}  // namespace

void Tally::add(const penstock_report& report, std::uint64_t latency) {
  ++operations;
  bytes += report.bytes;
  for (std::size_t i = 0; i < bytes_by_path.size(); ++i) bytes_by_path[i] += report.bytes_by_path[i];
  direct_bytes += report.direct_bytes;
  cached_bytes += report.cached_bytes;
  const auto path = static_cast<std::size_t>(report.path), reason = static_cast<std::size_t>(report.reason);
  if (path < bytes_by_reason.size() && reason < bytes_by_reason[path].size()) {
    bytes_by_reason[path][reason] += report.bytes;
    refused_path[path][reason] = report.refused_path;
  }
  if (report.path_reason != PENSTOCK_REASON_NONE) path_reason = report.path_reason;
  latency_ns.add(latency);
}

void Tally::merge(const Tally& other) {
  operations += other.operations;
  bytes += other.bytes;
  direct_bytes += other.direct_bytes;
  cached_bytes += other.cached_bytes;
  for (std::size_t path = 0; path < bytes_by_path.size(); ++path) {
    bytes_by_path[path] += other.bytes_by_path[path];
    for (std::size_t reason = 0; reason < bytes_by_reason[path].size(); ++reason) {
      if (other.bytes_by_reason[path][reason] == 0) continue;
      bytes_by_reason[path][reason] += other.bytes_by_reason[path][reason];
      refused_path[path][reason] = other.refused_path[path][reason];
    }
  }
  if (other.path_reason != PENSTOCK_REASON_NONE) path_reason = other.path_reason;
  latency_ns.merge(other.latency_ns);
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

JobResult run_job(const Job& job) {
  Shared shared(job.threads);
  Workers workers;
  for (unsigned i = 0; i < job.threads; ++i) workers.push_back(std::make_unique<Worker>(job, i, shared));
  std::vector<std::jthread> threads;
  start_threads(workers, shared, threads);
  shared.ready.arrive_and_wait();
  const double cpu_before = cpu_seconds();
  const std::uint64_t start = now_ns();
  shared.go.arrive_and_wait();
  watch(job, shared, workers);
  JobResult result;
  result.cpu_seconds = cpu_seconds() - cpu_before;
  threads.clear();
  if (!shared.error.empty()) throw Failure(shared.error);
  std::uint64_t end = start + 1;
  for (const auto& worker : workers) {
    result.tally.merge(worker->tally());
    end = std::max(end, worker->end_ns());
  }
  result.seconds = static_cast<double>(end - start) / 1e9;
  result.was_interrupted = interrupted();
  return result;
}

}  // namespace penstock::tools
