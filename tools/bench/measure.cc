// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/measure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "facts/environment.h"
#include "facts/outlook.h"
#include "tools/bench/verify.h"
#include "tools/common/arena.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"
#include "tools/common/machine_use.h"
#include "tools/common/striped.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

// A measurement ends before its longest time once half of the interval is at most this part of the rate.
constexpr double kNarrow = 0.03;
constexpr double kWarmUpSeconds = 0.25;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool is_narrow(const std::vector<Sample>& samples) {
  const Estimate told = estimate(samples);
  return told.has_interval() && told.half_width() <= kNarrow * told.rate;
}

double flush(const OpenFile& file) {
  const double start = now();
  if (fsync(file.fd.get()) != 0) fail_errno(file.path, "flush the file");
  return now() - start;
}

Session session_for(const BenchSettings& settings) {
  SessionSettings choice;
  choice.device = settings.device;
  choice.require = settings.require;
  choice.direct_io = settings.direct ? "always" : settings.buffered ? "never" : "";
  for (const auto& [variable, value] : settings.library)
    choice.more.emplace_back(facts::library_setting(variable), value);
  return open_session(choice);
}

// Fails with exit code 77 if host memory stands in for the GPU, and only a real one can prove the required path.
void check_provable(penstock_session* session, const BenchSettings& settings) {
  const auto path = path_by_name(settings.require);
  if (!path || !(facts::is_direct_path(*path) || *path == PENSTOCK_PATH_PAGECACHE)) return;
  DeviceInfo device;
  require(penstock_device_get(session, settings.gpu, &device), settings.require);
  if (device.stand_in == 0) return;
  const facts::Finding why = why_stand_in(session);
  throw Failure(fmt::format("--require {}: nothing can be proven here, since host memory stands in for a GPU: {}{}",
                            settings.require, why.sentence, why.remedy.empty() ? "" : ". " + why.remedy),
                kNotApplicable);
}

Job job_of(const BenchSettings& settings) {
  Job job;
  job.label = settings.progress.empty() ? settings.operation : settings.progress;
  job.is_write = settings.is_write();
  job.is_random = settings.is_random();
  job.threads = settings.threads;
  job.depth = settings.depth;
  job.seed = settings.seed;
  job.gpu = settings.gpu;
  job.host_memory = !settings.on_device();
  job.register_memory = settings.register_memory;
  return job;
}

}  // namespace

void TimeLog::add(double measured_before, const Interval& interval) {
  const auto us = [&](double quantile) { return static_cast<double>(interval.latency_ns.quantile(quantile)) / 1e3; };
  text_ += fmt::format("{:.6f},{:.6f},{},{:.6f},{},{:.3f},{:.3f}\n", measured_before + interval.begin,
                       measured_before + interval.end, interval.bytes,
                       gigabytes(interval.bytes) / (interval.end - interval.begin), interval.latency_ns.count(),
                       us(0.5), us(0.99));
}

double Measured::share_of_others() const { return share_of_processors(others_seconds, wall_seconds); }

// Other programs harm a measurement that waits for a drive less than one that computes, or that would compute if it had
// a processor.
double Measured::harm_by_others() const {
  if (result.seconds <= 0) return 0;
  return share_of_others() * std::min(1.0, (result.cpu_seconds + result.waiting_seconds) / result.seconds);
}

Estimate Measured::rate() const {
  Estimate told = estimate(samples);
  told.share(harm_by_others());
  return told;
}

Estimate Measured::rate_with_fsync() const {
  Estimate told = estimate(with_fsync);
  told.share(harm_by_others());
  return told;
}

void Measured::add(const JobResult& run) {
  result.tally.merge(run.tally);
  result.seconds += run.seconds;
  result.cpu_seconds += run.cpu_seconds;
  result.waiting_seconds += run.waiting_seconds;
  result.was_interrupted = run.was_interrupted;
}

Bench::Bench(const BenchSettings& settings, TimeLog* log)
    : settings_(settings), session_(session_for(settings)), job_(job_of(settings)), log_(log), content_(settings.seed) {
  if (settings.on_device()) {
    check_gpu(session_.raw(), settings.gpu);
    check_provable(session_.raw(), settings);
  }
  check_memory();
  target_ = open_target(settings);
  for (const OpenFile& file : target_.files) {
    files_.push_back(is_striped(file.path) ? require(session_.stripe(file.path.c_str()), file.path)
                                           : require(session_.file(file.fd.get()), file.path));
  }
  job_.session = &session_;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    job_.files.push_back({&files_[i], target_.files[i].path, target_.ranges[i]});
  }
}

// Checks before anything is touched that memory is enough: every thread fills `depth` blocks, and no machine may run
// out of memory without warning.
void Bench::check_memory() const {
  const std::uint64_t each = settings_.block_size * settings_.depth;
  const auto device = session_.device(settings_.on_device() ? settings_.gpu : 0);
  if (!device || each * settings_.threads <= device->memory_bytes / 2) return;
  throw Failure(fmt::format("{} threads x depth {} x {} take {}, more than half of the memory ({}); use fewer threads, "
                            "less depth or smaller blocks",
                            settings_.threads, settings_.depth, format_size(settings_.block_size),
                            format_size(each * settings_.threads), format_size(device->memory_bytes)),
                kUsage);
}

std::vector<std::string> Bench::usable_paths() const {
  const Arena host = Arena::on_host(4096);
  std::vector<std::string> names;
  for (const bool is_host : {false, true}) {
    const DryRun run{settings_.is_write() ? PENSTOCK_WRITE : PENSTOCK_READ, settings_.gpu,
                     is_host ? host.data() : nullptr};
    const auto verdicts = files_[0].explain(run);
    for (const Verdict& each : verdicts ? *verdicts : std::vector<Verdict>{}) {
      const bool is_meant = each.path != PENSTOCK_PATH_NULL && (each.path == PENSTOCK_PATH_HOST) == is_host;
      if (each.usable != 0 && is_meant) names.emplace_back(each.path_name());
    }
  }
  return names;
}

bool Bench::goes_in_passes() const {
  return settings_.repeat > 0 ||
         (settings_.seconds == 0 && (settings_.is_write() || settings_.drop_cache || settings_.verify));
}

// Reads blocks other than those that will be measured, if blocks are drawn at random: the warm-up must not put the
// measured ones into the cache.
bool Bench::warm_up() {
  const double seconds = settings_.ramp.value_or(kWarmUpSeconds);
  if (seconds == 0 || settings_.verify) return true;
  Job job = job_;
  job.seconds = seconds;
  job.is_endless = settings_.ramp.has_value();
  job.seed = ~settings_.seed;
  is_used_ = target_.is_new();
  return !run_job(job).was_interrupted;
}

Measured Bench::measure() {
  Measured all;
  const BenchSettings& settings = settings_;
  if (settings.verify && !settings.is_write()) {
    for (std::size_t i = 0; i < target_.files.size(); ++i) {
      const OpenFile& file = target_.files[i];
      require_content(file.fd.get(), file.path, target_.ranges[i], content_, settings.seed);
    }
  }
  warm_caches();
  throw_if_interrupted();
  if (!warm_up()) {
    all.result.was_interrupted = true;
    return all;
  }
  if (settings.verify) job_.content = &content_;
  if (settings.verify && settings.is_write()) {
    written_ = std::make_unique<BlockMap>(target_.ranges[0]);
    job_.written = written_.get();
  }
  if (goes_in_passes()) in_passes(all);
  else in_one_go(all);
  if (settings.verify && !all.result.was_interrupted) verify(all);
  return all;
}

Measured Bench::turn(double seconds) {
  Measured all;
  warm_caches();
  pass(all, goes_in_passes() ? 0 : seconds);
  return all;
}

// Runs the job once. `more` is asked a few times a second if the run is to go on.
void Bench::run(Measured& all, const std::function<bool(double, std::uint64_t)>& more) {
  double seconds_before = 0;
  std::uint64_t bytes_before = 0;
  const auto add = [&](double seconds, std::uint64_t bytes) {
    all.samples.push_back({seconds - seconds_before, static_cast<double>(bytes - bytes_before)});
    seconds_before = seconds;
    bytes_before = bytes;
  };
  job_.observe = [&](double seconds, std::uint64_t bytes) {
    add(seconds, bytes);
    return more(seconds, bytes);
  };
  job_.interval_seconds = settings_.interval;
  if (log_ != nullptr) {
    job_.on_interval = [this, before = all.result.seconds](const Interval& one) { log_->add(before, one); };
  }
  const auto fetched_before = bytes_read_from_drives();
  const auto interrupts_before = machine_interrupts();
  const OtherPrograms others;
  const JobResult one = run_job(job_);
  all.wall_seconds += others.wall_seconds();
  all.others_seconds += others.cpu_seconds();
  job_.observe = nullptr;
  const auto interrupts = machine_interrupts();
  const auto fetched = bytes_read_from_drives();
  add(one.seconds, one.tally.bytes);
  all.add(one);
  if (interrupts && interrupts_before) {
    all.interrupts = all.interrupts.value_or(0) + *interrupts - *interrupts_before;
  }
  if (fetched && fetched_before) all.drive_bytes = all.drive_bytes.value_or(0) + *fetched - *fetched_before;
}

void Bench::warm_caches() const {
  if (!settings_.warm) return;
  for (const JobFile& each : job_.files) warm_cache(each.path, each.range.begin, each.range.size);
}

void Bench::drop_caches() const {
  if (!settings_.drop_cache) return;
  for (const OpenFile& file : target_.files) drop_cache(file);
}

void Bench::in_one_go(Measured& all) {
  job_.is_endless = true;
  job_.seconds = settings_.seconds;
  drop_caches();
  run(all, [&](double seconds, std::uint64_t bytes) {
    if (settings_.seconds > 0 || seconds < settings_.seconds_least || bytes < target_.size()) return true;
    return seconds < settings_.seconds_most && !is_narrow(all.samples);
  });
  if (!settings_.is_write() || all.result.was_interrupted) return;
  all.flush_seconds = flush(target_.files[0]);
  all.with_fsync.push_back({all.result.seconds + all.flush_seconds, static_cast<double>(all.result.tally.bytes)});
}

void Bench::in_passes(Measured& all) {
  const double began = now();
  do pass(all, settings_.repeat > 0 ? settings_.seconds / settings_.repeat : 0);
  while (!is_enough(all, began));
}

bool Bench::is_enough(const Measured& all, double began) const {
  if (all.result.was_interrupted || interrupted()) return true;
  if (settings_.repeat > 0) return all.passes >= settings_.repeat;
  if (settings_.verify) return true;
  const double spent = now() - began;
  if (spent >= settings_.seconds_most) return true;
  return spent >= settings_.seconds_least && is_narrow(settings_.is_write() ? all.with_fsync : all.samples);
}

void Bench::pass(Measured& all, double seconds) {
  if (target_.is_new() && is_used_) target_.renew();
  is_used_ = true;
  drop_caches();
  job_.seconds = seconds;
  job_.is_endless = seconds > 0;
  const double before = all.result.seconds;
  const std::uint64_t bytes_before = all.result.tally.bytes;
  run(all, [](double, std::uint64_t) { return true; });
  ++all.passes;
  if (!settings_.is_write() || all.result.was_interrupted) return;
  const double flushed = flush(target_.files[0]);
  all.flush_seconds += flushed;
  all.with_fsync.push_back(
      {all.result.seconds - before + flushed, static_cast<double>(all.result.tally.bytes - bytes_before)});
}

void Bench::verify(Measured& all) {
  all.verified_bytes = settings_.is_write() ? read_back(job_) : all.result.tally.bytes;
}

}  // namespace penstock::tools
