// SPDX-License-Identifier: Apache-2.0

// The measurement itself: warm-up outside the clock, then reads in one go, or passes with what belongs between them
// (fsync, a dropped cache, a new file), until the interval of the rate is narrow or a bound is met.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tools/bench/settings.h"
#include "tools/bench/target.h"
#include "tools/common/context.h"
#include "tools/common/interval.h"
#include "tools/common/job.h"
#include "tools/common/new_file.h"

namespace penstock::tools {

struct Measured {
  JobResult result;                          // All that the clock saw.
  std::vector<Sample> samples;               // The same time in order.
  std::vector<Sample> with_fsync;            // One for each pass of writes.
  double flush_seconds = 0;                  // All fsyncs'.
  unsigned passes = 0;                       // 0: in one go.
  std::optional<std::uint64_t> drive_bytes;  // Fetched from drives meanwhile.
  double wall_seconds = 0;                   // With what is done before the clock runs and after it,
  double others_seconds = 0;                 // and the CPU time of other programs in that time.
  std::optional<std::uint64_t> verified_bytes;

  // Other programs' part of the machine's processors.
  double share_of_others() const;
  double harm_by_others() const;  // The part of it that this measurement may have missed.
  // Reaches up to what the rate could have been without the other programs.
  Estimate rate() const;
  Estimate rate_with_fsync() const;
  void add(const JobResult& run);
};

// bench --log: the bytes and latencies of each interval of the measured time, as CSV. The file is there when the
// measurement is over, also if it was interrupted.
class TimeLog {
 public:
  TimeLog(const std::string& path, bool overwrite) : file_(path, overwrite) {}

  // measured_before: seconds of the passes before this one.
  void add(double measured_before, const Interval& interval);
  void publish() { file_.publish(text_); }

 private:
  TextFile file_;
  std::string text_ = "begin_s,end_s,bytes,gb_per_s,operations,latency_p50_us,latency_p99_us\n";
};

// A session with its files, ready to be measured. Cannot be copied or moved: jobs point into it.
class Bench {
 public:
  // log: for what is measured in one go or in passes; null: not wanted.
  explicit Bench(const BenchSettings& settings, TimeLog* log = nullptr);
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Measured measure();
  // A turn of a comparison, after warm_up(): the whole size once where passes are measured, else for so long.
  Measured turn(double seconds);
  // False where it was interrupted.
  bool warm_up();
  // Each the whole size, or an equal part of the time; else all in one go.
  bool goes_in_passes() const;

  const BenchSettings& settings() const { return settings_; }
  const Session& session() const { return session_; }
  const Target& target() const { return target_; }
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
