// SPDX-License-Identifier: Apache-2.0

#include "tools/bench/bench.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <limits>
#include <memory>
#include <optional>

#include "tools/bench/report.h"
#include "tools/bench/settings.h"
#include "tools/bench/verify.h"
#include "tools/bench/versus.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"
#include "tools/common/job.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kBlockSizeMax = std::uint64_t{1} << 30;
constexpr unsigned kThreadsMax = 1024;
constexpr unsigned kDepthMax = 4096;

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock bench data --rw write --create --size 4G --direct      a file of 4 GiB, from device memory\n"
    "  penstock bench data --bs 1M --depth 16 --direct                 sequential read\n"
    "  penstock bench data --rw randread --bs 4k --depth 64 --time 10  random reads for ten seconds\n"
    "  penstock bench data --rw write --verify --overwrite && penstock bench data --verify\n"
    "  penstock bench data --require p2pdma --json                     fails if any byte took another path\n"
    "  penstock bench --versus /usr/local/cuda/lib64/libcufile.so.0    this library against that one, in turns\n"
    "The library's settings (PENSTOCK_IO_URING=off, PENSTOCK_BOUNCE_MIB=512, ...) apply, and are printed.\n"
    "--versus measures whole reads, latencies and a write, by both libraries in turns. It only reads FILE; if FILE\n"
    "does not exist it creates one, and removes it again.\n"
    "Exit code: 0 done, 1 failed or --require not met, 2 wrong usage, 77 if there is no such GPU.";

void check_settings(const BenchSettings& settings) {
  if (settings.block_size == 0 || settings.block_size > kBlockSizeMax) {
    throw Failure(fmt::format("--bs {}: expected 1 to 1G", settings.block_size), kUsage);
  }
  if (settings.threads == 0 || settings.threads > kThreadsMax) {
    throw Failure(fmt::format("--threads {}: expected 1 to {}", settings.threads, kThreadsMax), kUsage);
  }
  if (settings.depth == 0 || settings.depth > kDepthMax) {
    throw Failure(fmt::format("--depth {}: expected 1 to {}", settings.depth, kDepthMax), kUsage);
  }
  if (!(settings.seconds >= 0 && settings.seconds < 1e8)) {
    throw Failure(fmt::format("--time {}: expected seconds, 0 or more", settings.seconds), kUsage);
  }
  if (settings.create && !settings.is_write()) throw Failure("--create goes with --rw write or randwrite", kUsage);
  if (!settings.require.empty() && penstock_path_by_name(settings.require.c_str()) < 0) {
    throw Failure(fmt::format("--require: there is no path '{}'", settings.require), kUsage);
  }
  if (settings.size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) - settings.offset) {
    throw Failure("--offset and --size reach past the largest file", kUsage);
  }
}

// A file that is written must be new, empty, or given up by --overwrite.
OpenFile open_target(const BenchSettings& settings) {
  const int direct = settings.direct ? O_DIRECT : 0;
  if (!settings.is_write()) return open_file(settings.file, O_RDONLY | direct);
  if (!exists(settings.file)) {
    if (!settings.create) throw Failure(settings.file + ": there is no such file; --create makes it", kUsage);
    if (settings.size == 0) throw Failure("--create needs --size", kUsage);
    return open_file(settings.file, O_RDWR | O_CREAT | O_EXCL | direct);
  }
  OpenFile file = open_file(settings.file, O_RDWR | O_EXCL | direct);
  if (!settings.overwrite && (file.size > 0 || file.is_block_device())) {
    throw Failure(settings.file + ": it holds data; --overwrite lets bench write over it", kUsage);
  }
  return file;
}

Range range_of(const BenchSettings& settings, const OpenFile& file) {
  const std::uint64_t rest = file.size > settings.offset ? file.size - settings.offset : 0;
  const Range range{settings.offset, settings.size > 0 ? settings.size : rest, settings.block_size};
  if (range.size == 0) {
    throw Failure(fmt::format("{}: nothing to {} at offset {}: the file has {} bytes{}", settings.file,
                              settings.is_write() ? "write" : "read", settings.offset, file.size,
                              settings.is_write() ? "; give --size" : ""),
                  kUsage);
  }
  if (range.size > rest && (!settings.is_write() || file.is_block_device())) {
    throw Failure(fmt::format("{}: --offset and --size reach past its end: it has {} bytes", settings.file, file.size),
                  kUsage);
  }
  return range;
}

// Space first, so that a full disk shows before the clock runs. Where the file system cannot, writes extend.
void reserve(const BenchSettings& settings, const OpenFile& file, const Range& range) {
  if (!settings.is_write() || file.is_block_device()) return;
  const auto begin = static_cast<off_t>(range.begin), size = static_cast<off_t>(range.size);
  if (fallocate(file.fd.get(), 0, begin, size) != 0 && errno != EOPNOTSUPP && errno != EINTR) {
    fail_errno(settings.file, "reserve space");
  }
}

double flush(const OpenFile& file) {
  const auto start = std::chrono::steady_clock::now();
  if (fsync(file.fd.get()) != 0) fail_errno(file.path, "flush the file");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Job job_of(const BenchSettings& settings, const Range& range, Session& session, const File& file) {
  Job job;
  job.session = &session;
  job.file = &file;
  job.path = settings.file;
  job.label = settings.operation;
  job.is_write = settings.is_write();
  job.is_random = settings.is_random();
  job.range = range;
  job.threads = settings.threads;
  job.depth = settings.depth;
  job.seconds = settings.seconds;
  job.seed = settings.seed;
  job.gpu = settings.gpu;
  job.host_memory = !settings.on_device();
  job.register_memory = settings.register_memory;
  return job;
}

// Before anything is touched: every thread fills depth blocks, and a machine must not be emptied of memory unawares.
void check_memory(const BenchSettings& settings, const Session& session) {
  const std::uint64_t each = settings.block_size * settings.depth;
  const auto device = session.device(settings.on_device() ? settings.gpu : 0);
  if (!device || each * settings.threads <= device->memory_bytes / 2) return;
  throw Failure(fmt::format("{} threads x depth {} x {} take {}, more than half of the memory ({}); use fewer threads, "
                            "less depth or smaller blocks",
                            settings.threads, settings.depth, format_size(settings.block_size),
                            format_size(each * settings.threads), format_size(device->memory_bytes)),
                kUsage);
}

// Says what will be measured; on stdout for people, nowhere with --json.
BenchOutcome announce(const BenchSettings& settings, const Range& range, const Session& session, const File& file) {
  BenchOutcome outcome;
  outcome.settings = settings;
  outcome.range = range;
  outcome.file_system = require(file.info(), settings.file).file_system;
  if (settings.on_device()) {
    outcome.device = device_line(session.raw(), settings.gpu);
    outcome.device_facts = device_json(session.raw(), settings.gpu);
  }
  if (!settings.json) print_settings(outcome);
  flush_output();
  return outcome;
}

void measure(BenchOutcome& outcome, Job job, const OpenFile& opened) {
  const BenchSettings& settings = outcome.settings;
  const RandomContent content(settings.seed);
  std::optional<BlockMap> written;
  if (settings.verify) {
    job.content = &content;
    if (job.is_write) job.written = &written.emplace(job.range);
    else require_content(opened.fd.get(), settings.file, job.range, content, settings.seed);
  }
  if (settings.warm) warm_cache(settings.file, job.range.begin, job.range.size);
  if (settings.drop_cache) drop_cache(opened);
  throw_if_interrupted();
  outcome.result = run_job(job);
  if (outcome.result.was_interrupted) return;
  if (job.is_write) outcome.flush_seconds = flush(opened);
  if (!settings.verify) return;
  outcome.verified_bytes = job.is_write ? read_back(job) : outcome.result.tally.bytes;
}

int judge(const BenchOutcome& outcome) {
  const std::string& required = outcome.settings.require;
  if (required.empty()) return kSuccess;
  const std::uint64_t others = bytes_not_by(outcome.result.tally, penstock_path_by_name(required.c_str()));
  if (others == 0) return kSuccess;
  print_error("penstock: --require {}: {} travelled by another path\n", required, format_size(others));
  return kFailed;
}

int run_bench(const BenchSettings& settings) {
  check_settings(settings);
  SessionSettings choice;
  choice.device = settings.device;
  choice.require = settings.require;
  choice.direct_io = settings.direct ? "always" : settings.buffered ? "never" : "";
  Session session = open_session(choice);
  if (settings.on_device()) check_gpu(session.raw(), settings.gpu);
  check_memory(settings, session);
  const bool is_new = settings.is_write() && !exists(settings.file);
  const OpenFile opened = open_target(settings);
  std::optional<Unfinished> created;
  if (is_new) created.emplace(settings.file);
  const Range range = range_of(settings, opened);
  reserve(settings, opened, range);
  const File file = require(session.file(opened.fd.get()), settings.file);
  BenchOutcome outcome = announce(settings, range, session, file);
  measure(outcome, job_of(settings, range, session, file), opened);
  if (settings.json) print_json(bench_json(outcome));
  else print_result(outcome);
  if (outcome.result.was_interrupted) return kFailed;
  if (created) created->keep();
  return judge(outcome);
}

void add_what(CommandLine& command, BenchSettings& settings) {
  command.option("FILE", settings.file, "A regular file or a block device");
  command.option("--rw", settings.operation, "What the requests do")
      .one_of({"read", "write", "randread", "randwrite"})
      .default_shown();
  command.size("--bs", settings.block_size, "Bytes of one request [1M]");
  command.size("--size", settings.size, "Bytes of the file to work on [to its end]");
  command.size("--offset", settings.offset, "Where in the file they begin [0]");
  command.option("--threads", settings.threads, "Threads, each with requests of its own").default_shown();
  command.option("--depth", settings.depth, "Requests that each thread keeps in flight; 1: synchronous calls")
      .default_shown();
  command.option("--time", settings.seconds, "How long to run, over and over [once over the range]")
      .value_name("SECONDS");
  command.option("--seed", settings.seed, "Seed of random offsets and of content").default_shown();
}

void add_how(CommandLine& command, BenchSettings& settings) {
  const Option direct = command.flag("--direct", settings.direct, "Open the file with O_DIRECT, and always use it");
  command.flag("--buffered", settings.buffered, "Never use O_DIRECT").excludes(direct);
  command.option("--memory", settings.memory, "Whose memory takes part: a GPU's or the host's")
      .one_of({"device", "host"})
      .default_shown();
  command.option("--gpu", settings.gpu, "The GPU whose memory takes part").default_shown();
  command.option("--device", settings.device, "Which devices take part, as in PENSTOCK_DEVICE [auto]")
      .value_name("KIND");
  command.flag("--register", settings.register_memory, "Register the memory with the session first");
  command.flag("--create", settings.create, "Create the file if it does not exist; needs --size");
  command.flag("--overwrite", settings.overwrite, "Allow writes to a file or device that holds data");
  command.flag("--verify", settings.verify, "Write known content and read it back; reads: compare with such content");
  const Option warm = command.flag("--warm", settings.warm, "Read the range into the page cache first");
  command
      .flag("--drop-cache", settings.drop_cache,
            "Ask the kernel to drop the file from the page cache first (it may keep some)")
      .excludes(warm);
  command.option("--require", settings.require, "Fail if bytes take any other path").value_name("PATH");
  command.flag("--json", settings.json, "Print JSON");
}

void add_versus(CommandLine& command, BenchSettings& settings) {
  command
      .option("--versus", settings.versus,
              "Compare with another libcufile.so.0; goes with --size, --pairs, --device and --json alone")
      .value_name("LIBRARY");
  command.option("--pairs", settings.pairs, "How many turns each library has with --versus")
      .between(1, 1000)
      .default_shown();
}

// Options that would be passed over are refused.
void check_words(const CommandLine& command, const BenchSettings& settings) {
  const auto goes_with_versus = [](const std::string& name) {
    return name == "--versus" || name == "--pairs" || name == "--size" || name == "--device" || name == "--json" ||
           name == "FILE";
  };
  const bool versus = command.was_given("--versus");
  for (const std::string& name : command.given()) {
    if (versus && !goes_with_versus(name)) throw Failure(fmt::format("{} does not go with --versus", name), kUsage);
  }
  if (!versus && command.was_given("--pairs")) throw Failure("--pairs goes with --versus", kUsage);
  if (!versus && settings.file.empty()) throw Failure("FILE is required; see 'penstock bench --help'", kUsage);
}

}  // namespace

void add_bench(CommandLine& command) {
  auto settings = std::make_shared<BenchSettings>();
  add_what(command, *settings);
  add_how(command, *settings);
  add_versus(command, *settings);
  command.footer(kExamples);
  command.runs([settings, command] {
    check_words(command, *settings);
    return settings->versus.empty() ? run_bench(*settings) : run_bench_versus(*settings);
  });
}

}  // namespace penstock::tools
