// SPDX-License-Identifier: Apache-2.0

// Looks at the node again and again, in a thread of its own, and keeps the result of the last look as finished pages.
// So a client never waits for a look, and many requests cause no more looks. A look has limits. If a file cannot be
// written, or the host can no longer be read, that is reported and tried again.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "tools/serve/facts.h"
#include "tools/serve/metrics.h"
#include "tools/serve/totals.h"

namespace penstock::tools {

struct WatchSettings {
  std::string host = "/";  // The folder with the node's /proc and /sys.
  std::chrono::milliseconds interval{15'000};
  std::string textfile;  // A folder for node_exporter; "" for none.
  std::string nfd;       // A folder for Node Feature Discovery; "" for none.
  // Counts what a session moved before this process began, too: for one look, after which nothing would be counted.
  bool counts_whole_sessions = false;
};

struct Pages {
  std::shared_ptr<const std::string> openmetrics, prometheus;
};

class Watch {
 public:
  // Throws a Failure if the host cannot be read, or a folder does not exist.
  explicit Watch(WatchSettings settings);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void start();
  Pages look_once();  // Looks in the caller's thread; not while started.
  // False if a file could not be written, which was reported; not while started.
  bool has_written_all() const { return textfile_errors_ + feature_file_errors_ == 0; }
  // False if a look has not ended in time: it still uses this object then.
  bool stop_within(std::chrono::milliseconds time);

  std::optional<Pages> pages() const;  // Nothing before the first look has ended.
  bool is_looking() const;             // True if looks still end in time.

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  void look();
  void refresh_facts(Clock::time_point now);
  core::LookResult count_processes(unsigned& segments_refused);
  void write_files(const Pages& pages);
  void write(const std::string& path, const std::string& text, std::uint64_t& errors);
  void report_what_is_hidden(const core::LookResult& processes);

  const WatchSettings settings_;
  // Only the thread uses this, down to mutex_.
  NodeFacts facts_;
  Clock::time_point facts_read_;
  Totals totals_;
  std::uint64_t looks_ = 0;
  std::uint64_t textfile_errors_ = 0;
  std::uint64_t feature_file_errors_ = 0;
  std::string last_complaint_;
  bool has_reported_hidden_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Pages> pages_;  // mutex_ guards this and all that follows.
  Clock::time_point last_end_;
  bool shall_stop_ = false;
  bool has_stopped_ = true;
  std::thread thread_;
};

}  // namespace penstock::tools
