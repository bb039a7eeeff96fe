// SPDX-License-Identifier: Apache-2.0

// How fast the contention simulator is: events a second, and its two promised cases. Run by hand:
//
//   build/release/bench/contention_bench
//
// "peak_MiB" is the process's high-water mark so far; run one case with --benchmark_filter to see its own.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "model/pcie/builtin_machines.h"
#include "model/pcie/event_queue.h"
#include "model/pcie/flow_level.h"
#include "model/pcie/simulator.h"

namespace penstock::model {
namespace {

void count_memory(benchmark::State& state) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}

// Eight GPUs, 16 GiB in all, in bursts of the given size.
void eight_gpus(benchmark::State& state) {
  const Machine machine = builtin_machine("two-switch-server");
  Workload workload;
  workload.streams = streams_of(machine, Pattern::own_drive);
  workload.burst_bytes = static_cast<std::uint64_t>(state.range(0));
  for (Stream& stream : workload.streams) stream.total_bytes = std::uint64_t{2} << 30, stream.depth = 16;
  const Network network = compile(machine, workload);
  std::uint64_t events = 0;
  for (auto _ : state) events += simulate(network, workload).events;
  state.counters["events/s"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
  count_memory(state);
}
BENCHMARK(eight_gpus)->Arg(4096)->Arg(16384)->Arg(65536)->Unit(benchmark::kMillisecond)->UseRealTime();

// Growth with streams: the same bytes, from more and more streams.
void many_streams(benchmark::State& state) {
  const Machine machine = builtin_machine("four-l40s");
  Workload workload;
  const std::vector<Stream> pattern = streams_of(machine, Pattern::striped);
  const auto count = static_cast<std::size_t>(state.range(0));
  for (std::size_t i = 0; i < count; ++i) {
    workload.streams.push_back(pattern[i % pattern.size()]);
    workload.streams.back().total_bytes = (std::uint64_t{4} << 30) / count;
    workload.streams.back().depth = 4;
  }
  const Network network = compile(machine, workload);
  std::uint64_t events = 0;
  for (auto _ : state) events += simulate(network, workload).events;
  state.counters["events/s"] = benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
}
BENCHMARK(many_streams)->RangeMultiplier(8)->Range(4, 2048)->Unit(benchmark::kMillisecond)->UseRealTime();

// 1,024 GPUs in 128 nodes read 64 storage servers: routes and flows.
void fleet(benchmark::State& state) {
  const Machine machine = builtin_machine("fleet");
  Workload workload;
  workload.streams = streams_of(machine, Pattern::striped);
  for (auto _ : state) benchmark::DoNotOptimize(simulate_flows(compile(machine, workload), workload).seconds);
  count_memory(state);
}
BENCHMARK(fleet)->Unit(benchmark::kMillisecond)->UseRealTime();

void event_queue(benchmark::State& state) {
  EventQueue queue;
  std::uint64_t random = 1;
  for (int i = 0; i < state.range(0); ++i) queue.push(random = random * 6364136223846793005U + 1, 0);
  for (auto _ : state) queue.push(queue.pop().time + ((random = random * 6364136223846793005U + 1) >> 40), 0);
}
BENCHMARK(event_queue)->Arg(64)->Arg(1024)->Arg(65536);

}  // namespace
}  // namespace penstock::model

BENCHMARK_MAIN();
