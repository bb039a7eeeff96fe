// SPDX-License-Identifier: Apache-2.0

#include "tools/gds_stats/gds_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "tools/common/failure.h"
#include "tools/common/stats_source.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

using core::CufileOperation;
using core::CufileTotals;

struct GdsStatsSettings {
  unsigned pid = 0;
  std::optional<unsigned> level;
};

constexpr const char* kGdsStatsExamples =
    "Examples:\n"
    "  gds_stats -p 4711         all that the process counts\n"
    "  gds_stats -p 4711 -l 1    only its totals\n"
    "A process counts for this if profile.cufile_stats in its cufile.json or cuFileSetStatsLevel() says so; 'penstock "
    "stats' shows every process without that.\n"
    "Exit code: 0 done, 1 there is no such process, this user may not look at it, or it counts too little, 2 wrong "
    "usage, 77 if the process has no session open.";

constexpr int kLayout = 8;
constexpr unsigned kRows = 16;  // The rows of the histogram; the last one counts all larger requests.
constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiB = kMiB * 1024.0;

// In the order in which they are printed.
constexpr const char* kOperations[] = {
    "Read",          "Write",         "HandleRegister",     "HandleDeregister", "BufRegister",
    "BufDeregister", "BatchSubmit",   "BatchComplete",      "BatchSetup",       "BatchCancel",
    "BatchDestroy",  "BatchEnqueued", "PosixBatchEnqueued", "BatchProcessed",   "PosixBatchProcessed",
};
static_assert(std::size(kOperations) == static_cast<unsigned>(CufileOperation::batch_posix_processed) + 1);

std::uint64_t mebibytes(std::uint64_t bytes) { return bytes >> 20; }

double gibibytes_a_second(std::uint64_t bytes, const CufileTotals& totals) {
  if (totals.elapsed_ns == 0) return 0;
  return static_cast<double>(bytes) / kGiB / (static_cast<double>(totals.elapsed_ns) / 1e9);
}

std::uint64_t average_us(std::uint64_t nanoseconds, std::uint64_t times) {
  return times == 0 ? 0 : nanoseconds / times / 1000;
}

std::string global_text(const CufileTotals& totals) {
  std::string text = "GLOBAL STATS:\n";
  for (std::size_t i = 0; i < std::size(kOperations); ++i) {
    const core::CufileCount& count = totals.sums.operations[i];
    text += fmt::format("{}: ok = {} err = {}\n", kOperations[i], count.ok, count.err);
  }
  const core::CufileSums& sums = totals.sums;
  for (unsigned op = 0; op < 2; ++op) {
    const char* const name = op == 0 ? "Read" : "Write";
    text += fmt::format("Total {} Size (MiB): {}\n{} BandWidth (GiB/s): {:g}\nAvg {} Latency (us): {}\n", name,
                        mebibytes(sums.bytes[op]), name, gibibytes_a_second(sums.bytes[op], totals), name,
                        average_us(sums.nanoseconds[op], sums.operations[op].ok));
  }
  for (unsigned op = 0; op < 2; ++op) {
    text += fmt::format("Total Batch {} Size (MiB): {}\n", op == 0 ? "Read" : "Write", mebibytes(sums.batch_bytes[op]));
  }
  for (unsigned op = 0; op < 2; ++op) {
    text += fmt::format("Batch {} BandWidth (GiB/s): {:g}\n", op == 0 ? "Read" : "Write",
                        gibibytes_a_second(sums.batch_bytes[op], totals));
  }
  text += fmt::format("Avg Batch Submit Latency (us): {}\nAvg Batch Completion Latency (us): {}\n",
                      average_us(sums.submit_nanoseconds, totals.operations(CufileOperation::batch_submit).ok),
                      average_us(sums.completion_nanoseconds, totals.operations(CufileOperation::batch_complete).ok));
  return text;
}

std::string histogram_text(const CufileTotals& totals) {
  std::string text = "READ-WRITE SIZE HISTOGRAM :\n";
  for (unsigned row = 0; row < kRows; ++row) {
    std::uint64_t counts[2];
    for (unsigned op = 0; op < 2; ++op) {
      const auto& sizes = totals.sums.sizes[op];
      counts[op] = sizes[row];
      for (unsigned i = kRows; row == kRows - 1 && i < core::kCufileSizeBuckets; ++i) counts[op] += sizes[i];
    }
    const unsigned low = row == 0 ? 0 : 2u << row;
    const std::string high = row == kRows - 1 ? "..." : fmt::format("{}", 4u << row);
    text += fmt::format("{}-{}(KiB): {} {}\n", low, high, counts[0], counts[1]);
  }
  return text;
}

std::string uuid_text(const std::array<std::uint8_t, 16>& uuid) {
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid[i]);
  }
  return text;
}

std::string transfers_text(const core::CufileGpuTransfers& transfers, const CufileTotals& totals) {
  const std::uint64_t utilization = totals.elapsed_ns == 0 ? 0 : transfers.nanoseconds * 100 / totals.elapsed_ns;
  return fmt::format("bw={:g} util(%)={} n={} posix={} unalign={} dr=0", gibibytes_a_second(transfers.bytes, totals),
                     utilization, transfers.total, transfers.by_way[static_cast<unsigned>(core::CufileWay::posix)],
                     transfers.unaligned);
}

std::string gpu_text(const CufileTotals& totals, unsigned gpu) {
  const core::CufileGpu& counted = totals.sums.gpus[gpu];
  const core::CufileGpuTransfers& reads = counted.transfers[0];
  const core::CufileGpuTransfers& writes = counted.transfers[1];
  const std::uint64_t registered = counted.registered_bytes - std::min(counted.freed_bytes, counted.registered_bytes);
  return fmt::format(
      "GPU {}(UUID: {}) Read: {} r_sparse=0 r_inline=0 err={} MiB={} Write: {} err={} MiB={} BufRegister: n={} err={} "
      "free={} MiB={}\n",
      gpu, uuid_text(totals.uuids[gpu]), transfers_text(reads, totals), reads.failed, mebibytes(reads.bytes),
      transfers_text(writes, totals), writes.failed, mebibytes(writes.bytes),
      counted.registrations + counted.registrations_failed, counted.registrations_failed, counted.registrations_freed,
      mebibytes(registered));
}

// Pools and RDMA have headings only, because Penstock has neither.
std::string gpus_text(const CufileTotals& totals) {
  std::string text = "PER_GPU STATS:\n";
  for (unsigned gpu = 0; gpu < totals.gpu_count; ++gpu) text += gpu_text(totals, gpu);
  return text +
         "PER_GPU POOL BUFFER STATS:\nPER_GPU POSIX POOL BUFFER STATS:\nPER_GPU RDMA STATS:\nRDMA MRSTATS:\n"
         "peer name nr_mrs mr_size(MiB)\n";
}

// Finds the session of the process that counts for cuFile: a process has one cuFile driver.
const CufileTotals& totals_of(const ProcessView& process, unsigned level) {
  const CufileTotals* best = &process.sessions.front().cufile;
  for (const auto& session : process.sessions) {
    if (session.cufile.level > best->level) best = &session.cufile;
  }
  if (best->level >= level && best->level > 0) return *best;
  const std::string counts = best->level == 0 ? "no cuFile statistics" : fmt::format("level {} only", best->level);
  throw Failure(
      fmt::format("process {} counts {}; set profile.cufile_stats to {} in its cufile.json, or let it call "
                  "cuFileSetStatsLevel and cuFileStatsStart",
                  process.pid, counts, std::max(level, 1u)));
}

int show(const GdsStatsSettings& settings) {
  if (settings.pid < 1 || settings.pid > std::numeric_limits<pid_t>::max()) {
    throw Failure(fmt::format("-p {}: expected the number of a process, 1 or above", settings.pid), kUsage);
  }
  const ProcessView process = look_at(static_cast<pid_t>(settings.pid));
  const CufileTotals& totals = totals_of(process, settings.level.value_or(0));
  print("{}", Text(gds_stats_text(totals, settings.level.value_or(totals.level))));
  return kSuccess;
}

}  // namespace

std::string gds_stats_text(const CufileTotals& totals, unsigned level) {
  std::string text = fmt::format("cuFile STATS VERSION : {}\n", kLayout) + global_text(totals);
  if (level >= 2) text += histogram_text(totals);
  if (level >= 3) text += gpus_text(totals);
  return text;
}

void add_gds_stats(CommandLine& command) {
  auto settings = std::make_shared<GdsStatsSettings>();
  command.option("-p", settings->pid, "The process, which must be of the same user").required().value_name("PID");
  command.option("-l", settings->level, "1: totals, 2: also by size, 3: also by GPU [what the process counts]")
      .between(1, 3);
  command.footer(kGdsStatsExamples);
  command.runs([settings] { return show(*settings); });
}

}  // namespace penstock::tools
