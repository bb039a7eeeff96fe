// SPDX-License-Identifier: Apache-2.0

// The measurement itself: a warm-up outside the clock, then reads in one go, or passes with something between them
// (fsync, a dropped cache, a new file), until the interval of the rate is narrow or a limit is reached.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/settings.h"
#include "tools/bench/target.h"
#include "tools/common/context.h"
#include "tools/common/interval.h"
#include "tools/common/job.h"
#include "tools/common/new_file.h"

namespace penstock::tools {

struct Measured {
  JobResult result;                          // All that happened while the clock ran.
  std::vector<Sample> samples;               // The same time, in parts, in order.
  std::vector<Sample> with_fsync;            // One for each pass of writes.
  double flush_seconds = 0;                  // The time of all fsyncs.
  unsigned passes = 0;                       // 0: it went in one go.
  std::optional<std::uint64_t> drive_bytes;  // Fetched from drives in that time.
  std::optional<std::uint64_t> interrupts;   // Taken by the machine in that time, whoever caused them.
  double wall_seconds = 0;                   // Also counts the work before and after the clock runs.
  double others_seconds = 0;                 // CPU time of other programs within wall_seconds.
  std::optional<std::uint64_t> verified_bytes;

  // The part of the machine's processors that other programs had.
  double share_of_others() const;
  double harm_by_others() const;  // The part of it that may have cost this measurement.
  // An estimate whose interval reaches up to the rate that might have been without the other programs.
  Estimate rate() const;
  Estimate rate_with_fsync() const;
  void add(const JobResult& run);
};

// bench --log: writes bytes and latencies of each interval of the measured time as CSV. The file appears when the
// measurement is over, also if it was interrupted.
class TimeLog {
 public:
  TimeLog(const std::string& path, bool overwrite) : file_(path, overwrite) {}

  // `measured_before` is the time of the passes before this one.
  void add(double measured_before, const Interval& interval);
  void publish() { file_.publish(text_); }

 private:
  TextFile file_;
  std::string text_ = "begin_s,end_s,bytes,gb_per_s,operations,latency_p50_us,latency_p99_us\n";
};

// A session with its files, ready to be measured. It cannot be copied or moved, because jobs point into it.
class Bench {
 public:
  // `log` receives what measure() measures; null: not wanted.
  explicit Bench(const BenchSettings& settings, TimeLog* log = nullptr);
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Measured measure();
  // Measures one turn of a comparison, after warm_up(): the whole size once if the settings ask for passes, else for so
  // many seconds.
  Measured turn(double seconds);
  // False if it was interrupted.
  bool warm_up();
  // True if each pass moves the whole size or takes an equal part of the time; false if all goes in one go.
  bool goes_in_passes() const;

  const BenchSettings& settings() const { return settings_; }
  const Session& session() const { return session_; }
  const Target& target() const { return target_; }
  // The names of the paths that serve the first file here, with device memory or the host's; best first.
  std::vector<std::string> usable_paths() const;
  FileInfo file_info() const { return require(files_[0].info(), target_.files[0].path); }
  void keep_created() {
    if (target_.created) target_.created->keep();
  }

 private:
  void check_memory() const;
  void warm_caches() const;
  void drop_caches() const;
  void in_one_go(Measured& all);
  void in_passes(Measured& all);
  void pass(Measured& all, double seconds);
  bool is_enough(const Measured& all, double began) const;
  void verify(Measured& all);
  void run(Measured& all, const std::function<bool(double, std::uint64_t)>& more);

  BenchSettings settings_;
  Session session_;
  Target target_;
  std::vector<File> files_;
  Job job_;
  TimeLog* const log_;
  RandomContent content_;
  std::unique_ptr<BlockMap> written_;
  bool is_used_ = false;  // A new file has been written to.
};

}  // namespace penstock::tools
