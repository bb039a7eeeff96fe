// SPDX-License-Identifier: Apache-2.0

// Runs simulations, each in a process of its own, until a seed finds something, which it names.
//
//   penstock_simulation [--seed N] [--seeds N | --minutes N] [--guard] [--twice] [--trace]
//
// --seed: the first one; without it, others each time. --seeds: how many; with --seed it is one unless this says
// otherwise. --minutes: how long, in CPU time; one by default. --twice: each seed must give the same trace again.
// --guard: each run has the heap that one seed in 128 has (heap.h). --trace: prints each point of each run.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <numeric>

#include "simulation/batches.h"
#include "simulation/chunks.h"
#include "simulation/dmabufs.h"
#include "simulation/drive.h"
#include "simulation/ends.h"
#include "simulation/files.h"
#include "simulation/gpu.h"
#include "simulation/heap.h"
#include "simulation/nvfs.h"
#include "simulation/objects.h"
#include "simulation/peers.h"
#include "simulation/ranks.h"
#include "simulation/requests.h"
#include "simulation/scheduler.h"
#include "simulation/vendor.h"

namespace {

using namespace penstock::simulation;

constexpr long kPatienceSeconds = 60;  // Of CPU time, for what turns without ever coming to a point.
constexpr unsigned kGuardedOf = 128;   // One seed in so many has a guarded heap.

struct Result {
  Tally tally;
  std::uint64_t faults[kFaults];
  std::uint64_t points, trace, transfers, chunks;
  Nanoseconds time;
};

struct Options {
  std::uint64_t seed = 0, seeds = ~std::uint64_t{0};
  double cpu_seconds = 60;
  bool is_guarded = false, is_traced = false, is_twice = false;
};

// One thread runs at a time, and waking the next one is quickest where this one has been.
void stay_on_one_processor() {
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  if (REAL(sched_getaffinity)(0, sizeof allowed, &allowed) != 0) return;
  for (std::size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
    if (CPU_ISSET(i, &allowed)) CPU_SET(i, &one);
  }
  (void)REAL(sched_setaffinity)(0, sizeof one, &one);
}

std::uint64_t run_a_store(Random& random) {
  if (random.one_in(16)) return run_ranks();
  return random.one_in(8) ? run_rank_with_power_loss() : run_chunks();
}

Tally run_without_a_gpu(Random& random) {
  if (random.one_in(6)) peers().plug_in();
  return run_requests();
}

Tally run_with_a_gpu(Random& random) {
  gpu().plug_in();
  if (random.one_in(2)) nvfs().plug_in();
  if (nvfs().is_there() && random.one_in(2)) vendor().plug_in();
  if (random.one_in(2)) dmabufs().plug_in();
  return run_requests();
}

void keep(Result& result, Nanoseconds began) {
  std::memcpy(result.faults, disk().faults.data(), sizeof result.faults);
  result.transfers = disk().transfers;
  result.points = scheduler().points();
  result.trace = scheduler().trace();
  result.time = scheduler().now() - began;
}

void limit_time(long seconds) {
  const itimerval limit{{}, {seconds, 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
}

// Tells where each thread stands when the run ends by a signal.
void tell_of_signal(int number, siginfo_t* info, void*) {
  limit_time(10);  // Nothing that is told may need longer.
  static char text[100];
  const void* const address = number == SIGSEGV || number == SIGBUS ? info->si_addr : nullptr;
  std::snprintf(text, sizeof text, "%s, at %p", ::strsignal(number), address);
  if (::gettid() == ::getpid()) scheduler().fail(text);
  std::fprintf(stderr, "%s, in a thread that ends\n", text);  // It has no fiber any more.
  ::_exit(1);
}

void tell_of_signals() {
  struct sigaction action {};
  action.sa_sigaction = tell_of_signal;
  action.sa_flags = SA_SIGINFO | static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGPROF}) (void)::sigaction(number, &action, nullptr);
}

void simulate(std::uint64_t seed, const Options& options, Result& result) {
  stay_on_one_processor();
  limit_time(kPatienceSeconds);
  tell_of_signals();
  scheduler().begin(seed, options.is_traced);
  begin_heap(options.is_guarded || seed % kGuardedOf == 0);
  const Nanoseconds began = scheduler().now();
  ends().begin([&result, began] {
    result.tally = *ends().tally();
    keep(result, began);
  });
  Random& random = scheduler().random();
  if (random.one_in(4)) result.chunks = run_a_store(random);
  else if (random.one_in(5)) result.tally = run_objects();
  else if (random.one_in(8)) result.tally = run_batches();
  else if (!random.one_in(5)) result.tally = run_without_a_gpu(random);
  else result.tally = run_with_a_gpu(random);
  keep(result, began);
}

// By a process of its own: what this one had allocated would move what the next run allocates, and with it where a
// wait of the C++ library queues.
void remove_drive_of(pid_t process) {
  const std::array<char, 64> root = Drive::root_of(process);
  if (::access(root.data(), F_OK) != 0) return;
  const pid_t child = ::fork();
  if (child == 0) {
    std::error_code none;
    std::filesystem::remove_all(root.data(), none);
    ::_exit(0);
  }
  (void)::waitpid(child, nullptr, 0);
}

// False if the seed found something.
bool run(std::uint64_t seed, const Options& options, Result& result) {
  result = {};
  const pid_t child = ::fork();
  if (child == 0) {
    simulate(seed, options, result);
    ::_exit(0);
  }
  int status = 0;
  const bool is_over = ::waitpid(child, &status, 0) == child;
  if (is_over) remove_drive_of(child);
  if (is_over && status == 0) return true;
  if (WIFSIGNALED(status)) std::fprintf(stderr, "it ended by a signal: %s\n", ::strsignal(WTERMSIG(status)));
  std::fprintf(stderr, "found by seed %llu: ./dev simulate --seed %llu\n\n", static_cast<unsigned long long>(seed),
               static_cast<unsigned long long>(seed));
  return false;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds_of = [](const timeval& time) { return double(time.tv_sec) + double(time.tv_usec) / 1e6; };
  const double all = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  static const double before = all;  // A shell that became this program may have had children.
  return all - before;
}

void add(Result& sum, const Result& one) {
  sum.tally.requests += one.tally.requests;
  sum.tally.failed += one.tally.failed;
  sum.tally.canceled += one.tally.canceled;
  sum.tally.late += one.tally.late;
  for (std::size_t i = 0; i < kFaults; ++i) sum.faults[i] += one.faults[i];
  sum.points += one.points;
  sum.transfers += one.transfers;
  sum.chunks += one.chunks;
  sum.time += one.time;
}

void print(const Result& sum, std::uint64_t runs, unsigned findings) {
  const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf(
      "%llu runs, %u findings, %llu requests (%llu failed, %llu canceled, %llu past their deadline), %llu transfers; "
      "%llu chunks\n",
      number(runs), findings, number(sum.tally.requests), number(sum.tally.failed), number(sum.tally.canceled),
      number(sum.tally.late), number(sum.transfers), number(sum.chunks));
  const std::uint64_t faults = std::accumulate(std::begin(sum.faults), std::end(sum.faults), std::uint64_t{0});
  std::printf("%llu faults:", number(faults));
  for (std::size_t i = 0; i < kFaults; ++i) std::printf(" %s %llu", kFaultNames[i], number(sum.faults[i]));
  std::printf("\n%.1f simulated seconds, %llu points, %.1f CPU seconds: %.0f requests in each\n",
              double(sum.time) / 1e9, number(sum.points), cpu_seconds(), double(sum.tally.requests) / cpu_seconds());
}

Options options_of(int count, char** words) {
  Options options;
  bool has_seed = false, has_end = false;
  for (int i = 1; i < count; ++i) {
    const auto is = [&](const char* name) { return std::strcmp(words[i], name) == 0; };
    const char* const value = i + 1 < count ? words[i + 1] : nullptr;
    if (is("--trace")) options.is_traced = true;
    else if (is("--guard")) options.is_guarded = true;
    else if (is("--twice")) options.is_twice = true;
    else if (is("--seed") && value) options.seed = std::strtoull(value, nullptr, 10), has_seed = true, ++i;
    else if (is("--seeds") && value) options.seeds = std::strtoull(value, nullptr, 10), has_end = true, ++i;
    else if (is("--minutes") && value) options.cpu_seconds = 60 * std::strtod(value, nullptr), has_end = true, ++i;
    else
      std::fprintf(stderr, "usage: simulate [--seed N] [--seeds N | --minutes N] [--guard] [--twice] [--trace]\n"),
          std::exit(2);
  }
  if (!has_seed) options.seed = static_cast<std::uint64_t>(std::time(nullptr)) * 1000;
  else if (!has_end) options.seeds = 1;
  if (options.seeds != ~std::uint64_t{0}) options.cpu_seconds = 1e9;
  return options;
}

// Addresses decide where a wait of the C++ library queues: the same in each run, so far as the system lets us.
void keep_addresses(char** words) {
  const int before = ::personality(0xffffffff);
  if (before < 0 || (before & ADDR_NO_RANDOMIZE) != 0) return;
  if (::personality(static_cast<unsigned long>(before) | ADDR_NO_RANDOMIZE) < 0) return;
  ::execv("/proc/self/exe", words);
}

}  // namespace

int main(int count, char** words) {
  keep_addresses(words);
  const Options options = options_of(count, words);
  ::unsetenv("PENSTOCK_REPORT");
  auto* const result =
      static_cast<Result*>(::mmap(nullptr, sizeof(Result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  Result sum{};
  std::uint64_t runs = 0;
  bool is_right = true;
  (void)cpu_seconds();
  std::printf("from seed %llu\n", static_cast<unsigned long long>(options.seed));
  std::fflush(stdout);
  while (is_right && runs < options.seeds && cpu_seconds() < options.cpu_seconds) {
    const std::uint64_t seed = options.seed + runs++;
    is_right = run(seed, options, *result);
    add(sum, *result);
    const std::uint64_t trace = result->trace;
    if (options.is_traced) std::printf("trace %016llx\n", static_cast<unsigned long long>(trace));
    if (!options.is_twice || !is_right || (run(seed, options, *result) && result->trace == trace)) continue;
    std::fprintf(stderr, "seed %llu gives another trace each time\n", static_cast<unsigned long long>(seed));
    is_right = false;
  }
  print(sum, runs, is_right ? 0 : 1);
  return is_right ? 0 : 1;
}
