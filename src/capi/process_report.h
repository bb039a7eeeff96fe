// SPDX-License-Identifier: Apache-2.0

// Reports what this process's sessions moved, if the setting penstock.report asks for it: sessions that name the same
// target share one report. It is written when the last of them closes, and again when the process exits with a session
// open, since most programs never close cuFile's driver. A report that cannot be written is logged, and nothing else
// fails. Writing reads counters and never calls a device's driver. Thread-safe.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

#include "base/mutex.h"
#include "stats/usage_report.h"

namespace penstock::core {

class ProcessReport {
 public:
  // The report for "stderr" or a file name; null for "". Never destroyed; a forked child has its own.
  static ProcessReport* to(const std::string& target);

  explicit ProcessReport(const std::string& target);
  // Sessions count their files here.
  Usage& usage() { return usage_; }
  // `placement` is from placement_text().
  void session_opened(const Counters& counters, const std::string& placement);
  // Call it once all requests of the session are counted. The last session writes the report.
  void session_closed(const Counters& counters);
  // For the process's exit: writes if a session is still open.
  void write_if_open();

 private:
  UsageReport report_locked() const REQUIRES(mutex_);
  void write_locked() REQUIRES(mutex_);

  const pid_t pid_;
  const std::string file_;   // Absolute path; "" for stderr.
  dev_t stderr_device_ = 0;  // Identify stderr, whose descriptor may be reused.
  ino_t stderr_inode_ = 0;
  const std::uint64_t opened_ns_;
  Usage usage_;
  Mutex mutex_;
  unsigned sessions_ GUARDED_BY(mutex_) = 0;
  std::string placement_ GUARDED_BY(mutex_);  // Placement of the latest session.
  std::set<const Counters*> open_ GUARDED_BY(mutex_);
  UsageReport closed_ GUARDED_BY(mutex_);  // Has the bytes of closed sessions, and nothing else.
};

}  // namespace penstock::core
