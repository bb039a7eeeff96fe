// SPDX-License-Identifier: Apache-2.0

// Adds up what sessions have moved, by container and for the whole node, over many looks. Sums only grow, and bytes
// stay counted when their process has ended. A session that was open before `begin_ns` counts from the first look on,
// so that a restart of this program does not make a sum jump; with 0 all that a session moved is counted.
//
// The numbers come from other processes, so there are limits whatever they say: on series, on memory, and on what a
// session can have moved between two looks. Sessions without an entry of their own are added up as "other". Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "stats/reader.h"
#include "tools/common/request_counts.h"
#include "tools/common/stats_source.h"
#include "tools/serve/container_name.h"

namespace penstock::tools {

inline constexpr const char* kOther = "other";

class Totals {
 public:
  struct Limits {
    std::size_t sessions = 1024;
    std::size_t containers = 128;
    std::size_t ways = 16;  // A session's, and a container's.
    std::size_t node_ways = 128;
    std::size_t requests = 16;  // For a session, and for the node; each is a path and a direction.
    // Keeps a container for so long in which no session was seen.
    std::chrono::nanoseconds keep = std::chrono::hours(1);
  };
  struct Container {
    Ways ways;
    unsigned sessions = 0;  // Open at the last look.
    std::uint64_t look = 0;
    std::chrono::nanoseconds seen{};
  };

  // `begin_ns` is by CLOCK_REALTIME, like the time at which a session was opened.
  explicit Totals(std::uint64_t begin_ns) : Totals(begin_ns, Limits{}) {}
  Totals(std::uint64_t begin_ns, const Limits& limits) : begin_ns_(begin_ns), limits_(limits) {}

  // `now` is of any clock that never goes back.
  void begin_look(std::chrono::nanoseconds now);
  void add(const ContainerName& name, const core::StatsSnapshot& session);

  const std::map<ContainerName, Container>& containers() const { return containers_; }
  const Ways& node() const { return node_; }
  const Requests& requests() const { return requests_; }     // The requests of the whole node.
  const core::SaveNumbers& saves() const { return saves_; }  // The saves of the whole node.
  unsigned sessions() const { return open_; }                // At the last look.
  // Sessions of the last look that were not counted, since there were too many.
  unsigned left_out() const { return left_out_; }
  std::uint64_t folded() const { return folded_; }  // Times that numbers were added to "other".
  // Times that a number was higher than a machine can move.
  std::uint64_t disbelieved() const { return disbelieved_; }

 private:
  struct Session {
    Ways last;
    Requests last_requests;
    core::SaveNumbers last_saves{};
    std::uint64_t look = 0;
  };

  Session* session_for(const core::StatsSnapshot& snapshot);
  Container& container_for(const ContainerName& name);
  Ways ways_of(const core::StatsSnapshot& snapshot);
  Requests requests_of(const core::StatsSnapshot& snapshot);
  WayCount& way_in(Ways& ways, const WayKey& key, std::size_t most);
  RequestCounts& requests_in(Requests& requests, const std::string& path, core::Op op);
  WayCount since(const WayCount& before, const WayCount& now);
  RequestCounts since(const RequestCounts& before, const RequestCounts& now);

  void add_saves(const core::SaveNumbers& before, const core::SaveNumbers& now);

  const std::uint64_t begin_ns_;
  const Limits limits_;
  std::chrono::nanoseconds now_{};
  std::uint64_t look_ = 0;
  std::map<std::uint64_t, Session> known_;  // By the session's id.
  std::map<ContainerName, Container> containers_;
  Ways node_;
  Requests requests_;
  core::SaveNumbers saves_{};
  unsigned open_ = 0;
  unsigned left_out_ = 0;
  std::uint64_t folded_ = 0;
  std::uint64_t disbelieved_ = 0;
};

}  // namespace penstock::tools
