// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/totals.h"

#include <algorithm>

namespace penstock::tools {
namespace {

constexpr std::size_t kNameMax = 31;
constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 50;  // The most from one look to the next.
constexpr std::uint64_t kOperationsMax = std::uint64_t{1} << 40;

// Keeps a name of Penstock's, of this version or another; all other names share one.
std::string name_of(const std::string& text) {
  const bool is_name = !text.empty() && text.size() <= kNameMax &&
                       text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
  return is_name ? text : kOther;
}

// Calls `act` with the corresponding numbers of all three.
template <typename Act>
void each_number(RequestCounts& sum, const RequestCounts& one, const RequestCounts& other, Act act) {
  for (std::size_t i = 0; i < sum.sizes.size(); ++i) act(sum.sizes[i], one.sizes[i], other.sizes[i]);
  for (std::size_t i = 0; i < sum.latencies.size(); ++i) act(sum.latencies[i], one.latencies[i], other.latencies[i]);
  act(sum.bytes, one.bytes, other.bytes);
  act(sum.nanoseconds, one.nanoseconds, other.nanoseconds);
  act(sum.failures, one.failures, other.failures);
}

void add_to(RequestCounts& sum, const RequestCounts& more) {
  each_number(sum, sum, more, [](std::uint64_t& to, std::uint64_t one, std::uint64_t other) { to = one + other; });
}

// The entry that was seen longest ago, unless it was seen in this look; else the end.
template <typename Map>
auto oldest_of(Map& map, std::uint64_t look) {
  auto oldest = std::min_element(map.begin(), map.end(),
                                 [](const auto& one, const auto& two) { return one.second.look < two.second.look; });
  return oldest == map.end() || oldest->second.look == look ? map.end() : oldest;
}

}  // namespace

void Totals::begin_look(std::chrono::nanoseconds now) {
  now_ = now;
  ++look_;
  open_ = 0;
  left_out_ = 0;
  std::erase_if(containers_, [&](const auto& one) { return now_ - one.second.seen > limits_.keep; });
  for (auto& [name, container] : containers_) container.sessions = 0;
}

WayCount& Totals::way_in(Ways& ways, const WayKey& key, std::size_t most) {
  const auto found = ways.find(key);
  if (found != ways.end()) return found->second;
  if (ways.size() < most) return ways[key];
  ++folded_;
  return ways[{kOther, kOther, std::get<core::Op>(key)}];
}

Ways Totals::ways_of(const core::StatsSnapshot& snapshot) {
  Ways ways;
  for (const core::StatsRow& row : snapshot.rows) {
    const WayKey key{name_of(row.path), name_of(row.reason), row.op};
    way_in(ways, key, limits_.ways) += {row.bytes, row.operations};
  }
  return ways;
}

RequestCounts& Totals::requests_in(Requests& requests, const std::string& path, core::Op op) {
  const auto found = requests.find({path, op});
  if (found != requests.end()) return found->second;
  if (requests.size() < limits_.requests) return requests[{path, op}];
  ++folded_;
  return requests[{kOther, op}];
}

Requests Totals::requests_of(const core::StatsSnapshot& snapshot) {
  Requests requests;
  for (const core::StatsHistogram& one : snapshot.histograms) {
    add_to(requests_in(requests, name_of(one.path), one.op), request_counts(snapshot, one));
  }
  return requests;
}

// Null if there is no room for it. Bytes that the session had moved before this process began are not counted.
Totals::Session* Totals::session_for(const core::StatsSnapshot& snapshot) {
  auto found = known_.find(snapshot.id);
  if (found == known_.end()) {
    if (known_.size() >= limits_.sessions) {
      const auto oldest = oldest_of(known_, look_);
      if (oldest == known_.end()) return nullptr;
      known_.erase(oldest);
    }
    found = known_.emplace(snapshot.id, Session{}).first;
    if (snapshot.opened_ns < begin_ns_) {
      found->second.last = ways_of(snapshot);
      found->second.last_requests = requests_of(snapshot);
      found->second.last_saves = snapshot.saves;
    }
  }
  found->second.look = look_;
  return &found->second;
}

Totals::Container& Totals::container_for(const ContainerName& name) {
  auto found = containers_.find(name);
  if (found == containers_.end() && containers_.size() >= limits_.containers) {
    const auto oldest = oldest_of(containers_, look_);
    if (oldest != containers_.end()) containers_.erase(oldest);
  }
  if (found == containers_.end() && containers_.size() < limits_.containers)
    found = containers_.try_emplace(name).first;
  if (found == containers_.end()) {
    ++folded_;
    found = containers_.try_emplace({kOther, kOther}).first;
  }
  found->second.look = look_;
  found->second.seen = now_;
  return found->second;
}

// The process that counts may write anything: a smaller number than before adds nothing, and an impossible one is
// ignored.
WayCount Totals::since(const WayCount& before, const WayCount& now) {
  const WayCount more = growth(before, now);
  if (more.bytes <= kBytesMax && more.operations <= kOperationsMax) return more;
  ++disbelieved_;
  return {};
}

RequestCounts Totals::since(const RequestCounts& before, const RequestCounts& now) {
  RequestCounts more;
  bool is_believed = true;
  each_number(more, before, now, [&](std::uint64_t& to, std::uint64_t one, std::uint64_t other) {
    to = other > one ? other - one : 0;
    is_believed = is_believed && to <= kBytesMax;
  });
  if (is_believed) return more;
  ++disbelieved_;
  return {};
}

void Totals::add_saves(const core::SaveNumbers& before, const core::SaveNumbers& now) {
  for (std::size_t i = 0; i < now.size(); ++i) {
    const std::uint64_t more = now[i] > before[i] ? now[i] - before[i] : 0;
    saves_[i] += more <= kBytesMax ? more : 0;
    if (more > kBytesMax) ++disbelieved_;
  }
}

void Totals::add(const ContainerName& name, const core::StatsSnapshot& snapshot) {
  const auto known = known_.find(snapshot.id);
  if (known != known_.end() && known->second.look == look_) return;  // Another process holds the same segment.
  Ways now = ways_of(snapshot);
  Session* const session = session_for(snapshot);
  if (session == nullptr) {
    ++left_out_;
    return;
  }
  ++open_;
  Container& container = container_for(name);
  ++container.sessions;
  for (const auto& [key, count] : now) {
    const WayCount more = since(session->last[key], count);
    way_in(container.ways, key, limits_.ways) += more;
    way_in(node_, key, limits_.node_ways) += more;
  }
  session->last = std::move(now);
  Requests requests = requests_of(snapshot);
  for (const auto& [key, counts] : requests) {
    add_to(requests_in(requests_, key.first, key.second), since(session->last_requests[key], counts));
  }
  session->last_requests = std::move(requests);
  add_saves(session->last_saves, snapshot.saves);
  session->last_saves = snapshot.saves;
}

}  // namespace penstock::tools
