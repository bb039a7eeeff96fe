// SPDX-License-Identifier: Apache-2.0

// Tells what this process's sessions moved, if the setting penstock.report asks for it: sessions that name the same
// place share one report. It is written when the last of them closes, and again when the process exits with one open:
// most programs never close cuFile's driver. It goes where the setting says, and nowhere else; a report that cannot be
// written is logged, and disturbs nothing. Writing reads counters and makes no call of a device's driver. Thread-safe.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

#include "base/mutex.h"
#include "stats/usage_report.h"

namespace penstock::core {

class ProcessReport {
 public:
  // "stderr", or a file's name. Null for "". Never destroyed; a forked child has its own.
  static ProcessReport* to(const std::string& target);

  explicit ProcessReport(const std::string& target);
  // Sessions count their files here.
  Usage& usage() { return usage_; }
  // `placement` as placement_text() has it.
  void session_opened(const Counters& counters, const std::string& placement);
  // All its requests have been counted. Writes, where it was the last.
  void session_closed(const Counters& counters);
  // For the process's exit.
  void write_if_open();

 private:
  UsageReport report_locked() const REQUIRES(mutex_);
  void write_locked() REQUIRES(mutex_);

  const pid_t pid_;
  const std::string file_;   // Whole; "" for stderr,
  dev_t stderr_device_ = 0;  // which may be another file's number by then.
  ino_t stderr_inode_ = 0;
  const std::uint64_t opened_ns_;
  Usage usage_;
  Mutex mutex_;
  unsigned sessions_ GUARDED_BY(mutex_) = 0;
  std::string placement_ GUARDED_BY(mutex_);  // The latest session's.
  std::set<const Counters*> open_ GUARDED_BY(mutex_);
  std::vector<UsageReport::Moved> closed_ GUARDED_BY(mutex_);  // Moved by closed sessions.
};

}  // namespace penstock::core
