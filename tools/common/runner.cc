// SPDX-License-Identifier: Apache-2.0

#include "tools/common/runner.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>

#include "tools/common/failure.h"
#include "tools/common/interrupt.h"
#include "tools/common/progress.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kSlotAlign = 4096;
constexpr std::byte kFillByte{0xa5};
constexpr std::chrono::milliseconds kWatchInterval{50};

std::uint64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec);
}

// The time for which this thread was ready to run and had no processor.
std::uint64_t waiting_ns() {
  std::ifstream file("/proc/thread-self/schedstat");
  std::uint64_t running = 0, waiting = 0;
  file >> running >> waiting;
  return waiting;
}

// State that the threads of one run share.
struct Shared {
  explicit Shared(unsigned threads) : ready(threads + 1), go(threads + 1), running(threads) {}

  std::barrier<> ready, go;
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable ended;
  unsigned running;          // Guarded by `mutex`, and so is `error`.
  std::exception_ptr error;  // The first error of any thread.
};

class Worker {
 public:
  Worker(const RunSettings& settings, Part part, unsigned index, Shared& shared)
      : settings_(settings), part_(std::move(part)), index_(index), shared_(shared), scratch_(part_.block_size),
        flights_(part_.depth) {}
  void run();

  const Tally& tally() const { return tally_; }
  std::uint64_t end_ns() const { return end_ns_; }
  std::uint64_t waited_ns() const { return waited_ns_; }
  std::uint64_t bytes_so_far() const { return bytes_so_far_.load(std::memory_order_relaxed); }
  // Adds to `interval` what was done since the last call, and forgets it.
  void take_recent(Interval& interval);

 private:
  struct Flight {
    Extent extent;
    std::uint64_t start_ns = 0;
  };

  template <typename Step>
  void guarded(Step step);
  void open();
  void loop();
  bool start(unsigned slot);
  void finish(const Completion& done, std::uint64_t now);
  void check(const Extent& extent, std::uint64_t slot);
  bool may_go_on(std::uint64_t now) const {
    return now < deadline_ns_ && !shared_.stop.load(std::memory_order_relaxed);
  }

  const RunSettings& settings_;
  Part part_;
  const unsigned index_;
  Shared& shared_;
  std::unique_ptr<Transport> transport_;
  std::vector<std::byte> scratch_;  // One block, in which content is made and compared.
  std::vector<Flight> flights_;
  std::uint64_t deadline_ns_ = 0;
  std::uint64_t end_ns_ = 0;
  std::uint64_t waited_ns_ = 0;
  Tally tally_;
  std::mutex recent_mutex_;
  Interval recent_;  // Guarded by recent_mutex_; only filled if intervals are asked for.
  alignas(64) std::atomic<std::uint64_t> bytes_so_far_{0};
};

template <typename Step>
void Worker::guarded(Step step) try {
  step();
} catch (...) {
  shared_.stop = true;
  const std::lock_guard lock(shared_.mutex);
  if (!shared_.error) shared_.error = std::current_exception();
}

void Worker::run() {
  guarded([&] { open(); });
  shared_.ready.arrive_and_wait();
  shared_.go.arrive_and_wait();
  deadline_ns_ = settings_.seconds > 0 ? now_ns() + static_cast<std::uint64_t>(settings_.seconds * 1e9) : UINT64_MAX;
  const std::uint64_t waited_before = waiting_ns();
  guarded([&] { loop(); });
  end_ns_ = now_ns();
  waited_ns_ = waiting_ns() - waited_before;
  transport_.reset();
  const std::lock_guard lock(shared_.mutex);
  --shared_.running;
  shared_.ended.notify_one();
}

// Touches the memory before the clock runs. With random fill, every slot has different, incompressible bytes.
void Worker::open() {
  transport_ = part_.open();
  std::fill(scratch_.begin(), scratch_.end(), kFillByte);
  for (unsigned slot = 0; slot < part_.depth; ++slot) {
    const std::uint64_t at = slot * transport_->slot_size();
    if (settings_.random_fill) RandomContent(settings_.seed + index_).fill(scratch_, at);
    transport_->arena().upload(at, scratch_);
  }
}

void Worker::loop() {
  std::vector<Completion> completions(part_.depth);
  unsigned outstanding = 0;
  bool more = may_go_on(now_ns());
  while (more && outstanding < part_.depth && start(outstanding)) ++outstanding;
  while (outstanding > 0) {
    const unsigned count = transport_->reap(completions);
    if (count == 0) throw Failure("requests in flight were lost");
    const std::uint64_t now = now_ns();
    more = more && may_go_on(now);
    for (unsigned i = 0; i < count; ++i) {
      finish(completions[i], now);
      if (!(more && start(static_cast<unsigned>(completions[i].cookie)))) --outstanding;
    }
  }
}

bool Worker::start(unsigned slot) {
  Flight& flight = flights_[slot];
  if (!part_.extents->next(flight.extent)) return false;
  if (settings_.is_write && settings_.content != nullptr) {
    const auto bytes = std::span(scratch_).first(flight.extent.size);
    settings_.content->fill(bytes, flight.extent.offset);
    transport_->arena().upload(slot * transport_->slot_size(), bytes);
  }
  flight.start_ns = now_ns();
  transport_->start(slot, flight.extent);
  return true;
}

void Worker::finish(const Completion& done, std::uint64_t now) {
  const Flight& flight = flights_[done.cookie];
  const Extent& extent = flight.extent;
  if (const Status status(done.status); !status.ok()) {
    throw Failure(fmt::format("{}: at offset {}: {}", part_.paths[extent.file], extent.offset, status.message()));
  }
  if (done.report.bytes != extent.size) {
    throw Failure(fmt::format("{}: at offset {}: {} of {} bytes moved: the file ends early", part_.paths[extent.file],
                              extent.offset, done.report.bytes, extent.size));
  }
  tally_.add(done.report, now - flight.start_ns);
  if (settings_.on_interval) {
    const std::lock_guard lock(recent_mutex_);
    recent_.bytes += done.report.bytes;
    recent_.latency_ns.add(now - flight.start_ns);
  }
  bytes_so_far_.store(tally_.bytes, std::memory_order_relaxed);
  if (settings_.written != nullptr) settings_.written->set(extent.offset);
  if (!settings_.is_write && settings_.content != nullptr) check(extent, done.cookie);
}

void Worker::take_recent(Interval& interval) {
  const std::lock_guard lock(recent_mutex_);
  interval.bytes += recent_.bytes;
  interval.latency_ns.merge(recent_.latency_ns);
  recent_ = {};
}

void Worker::check(const Extent& extent, std::uint64_t slot) {
  const auto bytes = std::span(scratch_).first(extent.size);
  transport_->arena().download(slot * transport_->slot_size(), bytes);
  const auto difference = settings_.content->first_difference(bytes, extent.offset);
  if (!difference) return;
  throw Failure(
      fmt::format("{}: verify: the byte at offset {} is wrong", part_.paths[extent.file], extent.offset + *difference));
}

using Workers = std::vector<std::unique_ptr<Worker>>;

// Divides the time of a run into intervals, and reports what was done in each.
class IntervalClock {
 public:
  IntervalClock(const RunSettings& settings, const Workers& workers) : settings_(settings), workers_(workers) {}

  // The time until the next interval ends, at most kWatchInterval.
  std::chrono::nanoseconds patience(double now) const {
    if (!settings_.on_interval) return kWatchInterval;
    const std::chrono::duration<double> left(std::max(0.0, begin_ + settings_.interval_seconds - now));
    return std::min<std::chrono::nanoseconds>(kWatchInterval, std::chrono::ceil<std::chrono::nanoseconds>(left));
  }
  void look(double now) {
    if (settings_.on_interval && now >= begin_ + settings_.interval_seconds) hand_over(now);
  }
  void end(double now) {
    if (settings_.on_interval && now > begin_) hand_over(now);
  }

 private:
  void hand_over(double now) {
    Interval interval;
    interval.begin = begin_;
    interval.end = begin_ = now;
    for (const auto& worker : workers_) worker->take_recent(interval);
    settings_.on_interval(interval);
  }

  const RunSettings& settings_;
  const Workers& workers_;
  double begin_ = 0;
};

// Reports progress until all threads have ended, and stops them at Ctrl-C.
void watch(const RunSettings& settings, Shared& shared, const Workers& workers, std::uint64_t start) {
  Progress progress(settings.label);
  IntervalClock intervals(settings, workers);
  const auto now = [&] { return static_cast<double>(now_ns() - start) / 1e9; };
  std::unique_lock lock(shared.mutex);
  while (!shared.ended.wait_for(lock, intervals.patience(now()), [&] { return shared.running == 0; })) {
    if (interrupted()) shared.stop = true;
    std::uint64_t bytes = 0;
    for (const auto& worker : workers) bytes += worker->bytes_so_far();
    const double seconds = now();
    intervals.look(seconds);
    if (settings.observe && !settings.observe(seconds, bytes)) shared.stop = true;
    const double part = settings.seconds > 0 ? seconds / settings.seconds
                                             : static_cast<double>(bytes) / static_cast<double>(settings.bytes_total);
    progress.update(bytes, part);
  }
  intervals.end(now());
}

// Starts the threads. If one cannot be started, the others must not wait for it.
void start_threads(const Workers& workers, Shared& shared, std::vector<std::jthread>& threads) try {
  threads.reserve(workers.size());
  for (const auto& worker : workers) threads.emplace_back([&worker] { worker->run(); });
} catch (const std::system_error& error) {
  shared.stop = true;
  const auto missing = static_cast<std::ptrdiff_t>(workers.size() - threads.size() + 1);
  (void)shared.ready.arrive(missing);
  (void)shared.go.arrive(missing);
  throw Failure(
      fmt::format("only {} of {} threads could be started ({}); ask for fewer, or raise the limits (ulimit -u, -v)",
                  threads.size(), workers.size(), error.code().message()));
}

}  // namespace

std::uint64_t slot_size_for(std::uint64_t bytes) { return (bytes + kSlotAlign - 1) / kSlotAlign * kSlotAlign; }

void Tally::add(const penstock_report& report, std::uint64_t latency) {
  ++operations;
  bytes += report.bytes;
  for (std::size_t path = 0; path < bytes_by_path.size(); ++path) {
    bytes_by_path[path] += penstock_report_bytes(&report, static_cast<int>(path));
  }
  direct_bytes += report.direct_bytes;
  cached_bytes += report.cached_bytes;
  Chosen& way = chosen[{report.path, report.reason}];
  way.bytes += report.bytes;
  way.refused_path = report.refused_path;
  if (report.path_reason != PENSTOCK_REASON_NONE) path_reason = report.path_reason;
  latency_sum_ns += latency;
  latency_least_ns = std::min(latency_least_ns, latency);
  latency_most_ns = std::max(latency_most_ns, latency);
  latency_ns.add(latency);
}

void Tally::merge(const Tally& other) {
  operations += other.operations;
  bytes += other.bytes;
  direct_bytes += other.direct_bytes;
  cached_bytes += other.cached_bytes;
  for (std::size_t path = 0; path < bytes_by_path.size(); ++path) bytes_by_path[path] += other.bytes_by_path[path];
  for (const auto& [key, way] : other.chosen) {
    chosen[key].bytes += way.bytes;
    chosen[key].refused_path = way.refused_path;
  }
  if (other.path_reason != PENSTOCK_REASON_NONE) path_reason = other.path_reason;
  latency_sum_ns += other.latency_sum_ns;
  latency_least_ns = std::min(latency_least_ns, other.latency_least_ns);
  latency_most_ns = std::max(latency_most_ns, other.latency_most_ns);
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

JobResult run_parts(const RunSettings& settings, std::vector<Part> parts) {
  const auto count = static_cast<unsigned>(parts.size());
  Shared shared(count);
  Workers workers;
  for (unsigned i = 0; i < count; ++i) {
    workers.push_back(std::make_unique<Worker>(settings, std::move(parts[i]), i, shared));
  }
  std::vector<std::jthread> threads;
  start_threads(workers, shared, threads);
  shared.ready.arrive_and_wait();
  const double cpu_before = cpu_seconds();
  const std::uint64_t start = now_ns();
  shared.go.arrive_and_wait();
  watch(settings, shared, workers, start);
  JobResult result;
  result.cpu_seconds = cpu_seconds() - cpu_before;
  threads.clear();
  if (shared.error) std::rethrow_exception(shared.error);
  std::uint64_t end = start + 1;
  for (const auto& worker : workers) {
    result.tally.merge(worker->tally());
    end = std::max(end, worker->end_ns());
    result.waiting_seconds = std::max(result.waiting_seconds, static_cast<double>(worker->waited_ns()) / 1e9);
  }
  result.seconds = static_cast<double>(end - start) / 1e9;
  result.was_interrupted = interrupted();
  return result;
}

}  // namespace penstock::tools
