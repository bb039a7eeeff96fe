// SPDX-License-Identifier: Apache-2.0

#include "tools/stats/rates.h"

#include <algorithm>
#include <set>

namespace penstock::tools {
namespace {

std::vector<unsigned> gpus_of(const ProcessView& process) {
  std::set<unsigned> gpus;
  for (const core::StatsSnapshot& session : process.sessions) {
    for (unsigned i = 0; i < core::kCufileGpus; ++i) {
      const core::CufileGpu& gpu = session.cufile.sums.gpus[i];
      if (gpu.transfers[0].bytes + gpu.transfers[1].bytes > 0) gpus.insert(i);
    }
  }
  return {gpus.begin(), gpus.end()};
}

}  // namespace

double Moved::rate(core::Op op) const { return per_second(sums_of(ways)[static_cast<unsigned>(op)].bytes); }

void Rates::add_session(const SessionKey& key, const core::StatsSnapshot& session, Ways& moved) {
  const Ways& before = before_[key];
  Ways& now = now_[key];
  add_ways(session, now);
  if (is_first_) return;
  for (const auto& [way, count] : now) {
    const auto known = before.find(way);
    const WayCount more = growth(known == before.end() ? WayCount{} : known->second, count);
    if (more.bytes + more.operations > 0) moved[way] += more;
  }
}

MachineRate Rates::add(const MachineView& machine, double seconds) {
  MachineRate rate{{{}, seconds}, {}, machine.hidden, machine.not_looked_at, machine.why_hidden};
  std::map<pid_t, std::deque<double>> histories;
  for (const ProcessView& process : machine.processes) {
    ProcessRate one{process.pid, process.command, {{}, seconds}, gpus_of(process), {}, process.refusal};
    for (const core::StatsSnapshot& session : process.sessions) {
      add_session({process.pid, session.id}, session, one.moved.ways);
    }
    for (const auto& [way, count] : one.moved.ways) rate.moved.ways[way] += count;
    one.history = std::move(histories_[process.pid]);
    if (!is_first_) one.history.push_back(one.moved.rate());
    if (one.history.size() > kHistoryMost) one.history.pop_front();
    histories[process.pid] = one.history;
    rate.processes.push_back(std::move(one));
  }
  std::stable_sort(rate.processes.begin(), rate.processes.end(),
                   [](const ProcessRate& a, const ProcessRate& b) { return a.moved.rate() > b.moved.rate(); });
  histories_ = std::move(histories);
  before_ = std::move(now_);
  now_.clear();
  is_first_ = false;
  return rate;
}

}  // namespace penstock::tools
