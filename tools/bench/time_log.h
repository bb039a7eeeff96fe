// SPDX-License-Identifier: Apache-2.0

// bench --log: what was done in each interval of the measured time, as CSV. The file is there when the measurement is
// over, also where it was interrupted.
#pragma once

#include <string>

#include "tools/common/new_file.h"
#include "tools/common/runner.h"

namespace penstock::tools {

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

}  // namespace penstock::tools
