// SPDX-License-Identifier: Apache-2.0

// gdsio: NVIDIA's measuring tool with its name, flags and result line, on Penstock's library.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/cpus.h"
#include "facts/outlook.h"
#include "tools/common/command_line.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"
#include "tools/gdsio/options.h"
#include "tools/gdsio/report.h"
#include "tools/gdsio/transport.h"

namespace penstock::tools {
namespace {

constexpr unsigned kAsyncCopies = 4;  // The copies of one thread with CPU_ASYNC_GPU.

// Removes the files that this run has created, unless the run completes.
class CreatedFiles {
 public:
  void add(const std::string& path) { files_.emplace_back(path); }
  void keep() {
    for (Unfinished& file : files_) file.keep();
  }

 private:
  std::deque<Unfinished> files_;
};

// The cuFile driver, if the transfer type needs one, and CUDA's driver for each GPU, if there is one.
class Machinery {
 public:
  explicit Machinery(const GdsioSettings& settings) {
    if (settings.transfer == TransferType::cpu_only) return;
    session_ = cufile_session();
    const bool needs_cuda = settings.memory == MemoryType::device_vmm || settings.memory == MemoryType::pinned_host;
    for (const GdsioGroup& group : settings.groups) {
      check_gpu(session(), group.gpu);
      if (drivers_.size() <= group.gpu) drivers_.resize(group.gpu + 1);
      if (drivers_[group.gpu] == nullptr) drivers_[group.gpu] = CudaDriver::open(session(), group.gpu);
      if (needs_cuda && drivers_[group.gpu] == nullptr) {
        throw Failure(fmt::format("-m {} needs a GPU of CUDA's; {}", static_cast<unsigned>(settings.memory),
                                  device_line(session(), group.gpu)),
                      kNotApplicable);
      }
    }
  }
  ~Machinery() {
    if (session() != nullptr) (void)cuFileDriverClose();
  }

  penstock_session* session() const { return session_.raw(); }
  const CudaDriver* cuda(unsigned gpu) const { return gpu < drivers_.size() ? drivers_[gpu].get() : nullptr; }
  // The size of the GPU's memory, or of the host's if no GPU takes part.
  std::uint64_t memory_bytes(unsigned gpu) const {
    if (session() == nullptr) {
      return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    }
    return require(session_.device(gpu), "GPU").memory_bytes;
  }
  std::vector<Counter> counters() const {
    return session() != nullptr ? require(session_.counters(), "counters") : std::vector<Counter>();
  }

 private:
  Session session_{nullptr};
  std::vector<std::unique_ptr<CudaDriver>> drivers_;
};

// Subtracts the counts in `before` from the rows of `after`.
std::vector<Counter> counted_since(const std::vector<Counter>& before, std::vector<Counter> after) {
  for (Counter& row : after) {
    for (const Counter& old : before) {
      if (old.path != row.path || old.reason != row.reason) continue;
      row.read_bytes -= old.read_bytes;
      row.write_bytes -= old.write_bytes;
    }
  }
  std::erase_if(after, [](const Counter& row) { return row.read_bytes + row.write_bytes == 0; });
  return after;
}

// Moves the calling thread; its later allocations lie on that node too, by the kernel's default policy.
void run_on_numa_node(unsigned node) {
  const std::string folder = fmt::format("/sys/devices/system/node/node{}", node);
  if (!exists(folder)) throw Failure(fmt::format("there is no NUMA node {} on this machine", node), kNotApplicable);
  const core::CpuSet cpus = core::parse_cpu_list(core::read_first_line(folder + "/cpulist"));
  if (cpus.none()) throw Failure(fmt::format("NUMA node {} has no CPUs to run on", node), kNotApplicable);
  if (core::allow_cpus(cpus)) return;
  throw Failure(fmt::format("cannot run on the CPUs of NUMA node {}: {}", node, std::strerror(errno)), kNotApplicable);
}

class Run {
 public:
  explicit Run(const GdsioSettings& settings) : settings_(settings), machinery_(settings) { open_files(); }

  GdsioOutcome pass(bool is_write) {
    GdsioOutcome outcome;
    outcome.is_write = is_write;
    outcome.is_random = settings_.is_random;
    outcome.threads = static_cast<unsigned>(shares_.size());
    outcome.depth = settings_.is_batch() ? settings_.groups[0].threads : 0;
    outcome.data_bytes = data_bytes_;
    const RandomContent content(settings_.seed);
    RunSettings run;
    run.label = is_write ? "write" : "read";
    run.is_write = is_write;
    run.seconds = settings_.seconds;
    run.bytes_total = data_bytes_;
    run.seed = settings_.seed;
    run.random_fill = settings_.random_fill;
    if (verifies() || (settings_.refill && is_write)) run.content = &content;
    const std::vector<Counter> before = machinery_.counters();
    outcome.result = run_parts(run, parts(is_write));
    if (settings_.calls_cufile()) outcome.ways = counted_since(before, machinery_.counters());
    return outcome;
  }

  bool verifies() const { return settings_.verify && settings_.seconds == 0; }
  void keep_files() { created_.keep(); }
  const Machinery& machinery() const { return machinery_; }

 private:
  // One thread's part of a file.
  struct Share {
    const GdsioGroup* group;
    const CufileFile* file;
    std::uint64_t size;
    unsigned thread;
    unsigned threads;
  };

  void open_files() {
    for (const GdsioGroup& group : settings_.groups) {
      const unsigned threads = settings_.is_batch() ? 1 : group.threads;
      if (!group.file.empty()) add_file(group, group.file, threads);
      for (unsigned i = 0; i < threads && !group.folder.empty(); ++i) {
        add_file(group, fmt::format("{}/gdsio.{}", group.folder, i), 1);
      }
    }
    check_memory();
  }

  void add_file(const GdsioGroup& group, const std::string& path, unsigned threads) {
    OpenFile opened = open(path);
    const std::uint64_t size = size_of_work(opened);
    files_.emplace_back(std::move(opened), settings_.calls_cufile());
    for (unsigned i = 0; i < threads; ++i) shares_.push_back({&group, &files_.back(), size, i, threads});
    data_bytes_ += size;
  }

  OpenFile open(const std::string& path) {
    const bool buffered = settings_.buffered || settings_.transfer == TransferType::cpu_cached_gpu;
    const int direct = buffered ? 0 : O_DIRECT;
    struct stat facts {};
    if (stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) {
      throw Failure(path + ": it is a folder; -D makes and uses files of its own in a folder, -f takes a file", kUsage);
    }
    const bool is_new = settings_.is_write && stat(path.c_str(), &facts) != 0;
    try {
      if (!settings_.is_write) return open_file(path, O_RDONLY | direct);
      // A block device that is mounted must not be overwritten.
      const int how = is_new ? O_CREAT | O_EXCL : S_ISBLK(facts.st_mode) ? O_EXCL : 0;
      OpenFile file = open_file(path, O_RDWR | how | direct);
      if (is_new) created_.add(path);
      else if (S_ISREG(facts.st_mode) && facts.st_size > 0) report_overwriting(path);
      return file;
    } catch (const DirectRefused&) {
      if (is_new) created_.add(path);  // The kernel creates the file before it refuses to open it.
      throw Failure(path + ": its file system does not take O_DIRECT; -O 1 opens files without");
    }
  }

  // Warns because some guides call -I 1 a read.
  void report_overwriting(const std::string& path) {
    if (std::exchange(has_reported_overwriting_, true)) return;
    print_error("gdsio: {} is written over: -I 1 and 3 write, 0 and 2 read\n", path);
  }

  std::uint64_t size_of_work(const OpenFile& file) const {
    const std::uint64_t rest = file.size > settings_.offset ? file.size - settings_.offset : 0;
    const std::uint64_t size = settings_.size > 0 ? settings_.size : rest;
    if (size == 0) {
      throw Failure(fmt::format("{}: it has no bytes at offset {}; give a size (-s)", file.path, settings_.offset),
                    kUsage);
    }
    if (size > rest && (!settings_.is_write || file.is_block_device())) {
      throw Failure(fmt::format("{}: it has {} bytes, and -o and -s reach past them{}", file.path, file.size,
                                settings_.is_write ? "" : "; write it first, with -I 1"));
    }
    return size;
  }

  unsigned depth_of(const GdsioGroup& group) const {
    if (settings_.is_batch()) return group.threads;
    return settings_.transfer == TransferType::cpu_async_gpu ? kAsyncCopies : 1;
  }

  // Checks before anything is touched that memory is enough: no machine may run out of memory without warning.
  void check_memory() const {
    const std::uint64_t memory = machinery_.memory_bytes(settings_.groups[0].gpu);
    std::uint64_t wanted = 0;
    for (const Share& share : shares_) wanted += slot_size_for(settings_.io.largest) * depth_of(*share.group);
    if (wanted <= memory / 2) return;
    throw Failure(
        fmt::format("-w and -i take {}, more than half of the memory ({}); use fewer threads or smaller sizes",
                    format_size(wanted), format_size(memory)),
        kUsage);
  }

  ThreadSetup setup_of(const Share& share, bool is_write) const {
    ThreadSetup setup;
    setup.file = share.file;
    setup.session = machinery_.session();
    setup.cuda = machinery_.cuda(share.group->gpu);
    setup.gpu = share.group->gpu;
    setup.transfer = settings_.transfer;
    setup.memory = settings_.memory;
    setup.is_write = is_write;
    setup.skip_register = settings_.skip_register;
    setup.depth = depth_of(*share.group);
    setup.slot_size = slot_size_for(settings_.io.largest);
    return setup;
  }

  // Gives the same extents to a write and to the read that verifies it.
  std::unique_ptr<ExtentSource> extents_of(const Share& share, std::size_t index) const {
    IoPattern pattern;
    pattern.range = {settings_.offset, share.size};
    pattern.sizes = settings_.io;
    pattern.is_random = settings_.is_random;
    pattern.is_unaligned = settings_.is_unaligned;
    pattern.is_endless = settings_.seconds > 0;
    pattern.seed = settings_.seed + index;
    pattern.thread = share.thread;
    pattern.threads = share.threads;
    return std::make_unique<IoExtents>(pattern);
  }

  std::vector<Part> parts(bool is_write) const {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      const Share& share = shares_[i];
      const ThreadSetup setup = setup_of(share, is_write);
      parts.push_back({{share.file->path()},
                       settings_.io.largest,
                       setup.depth,
                       extents_of(share, i),
                       [setup, node = share.group->numa_node] {
                         if (node) run_on_numa_node(*node);
                         if (setup.cuda != nullptr) setup.cuda->enter();
                         return open_transport(setup);
                       }});
    }
    return parts;
  }

  const GdsioSettings& settings_;
  Machinery machinery_;
  CreatedFiles created_;
  std::deque<CufileFile> files_;  // A deque, because their addresses must not change.
  std::vector<Share> shares_;
  std::uint64_t data_bytes_ = 0;
  bool has_reported_overwriting_ = false;
};

void report_what_does_not_count(const GdsioSettings& settings) {
  if (settings.wants_nvlinks) print_error("gdsio: -p is without effect: there are no copies between GPUs\n");
  if (settings.verify && settings.seconds > 0) print_error("gdsio: -V is ignored with -T\n");
}

// Says which path served a request for -x 0: users take the number for that of the GPU's path, and -x 1 for the CPU's.
void report_what_served(const GdsioSettings& settings, const std::vector<GdsioOutcome>& outcomes) {
  if (settings.transfer != TransferType::gpu_direct || settings.on_host()) return;
  for (const GdsioOutcome& outcome : outcomes) {
    for (const Counter& row : outcome.ways) {
      if (facts::is_direct_path(row.path)) return;
    }
  }
  print_error(
      "gdsio: -x 0 asks cuFile for the GPU's direct path, and none served (see Path); "
      "the CPU's path is -x 2, without a GPU -x 1\n");
}

std::string device_text(const GdsioSettings& settings, const Machinery& machinery) {
  if (machinery.session() == nullptr) return "memory: host; no device takes part\n";
  std::string text;
  for (const GdsioGroup& group : settings.groups) {
    const std::string line = device_line(machinery.session(), group.gpu) + "\n";
    if (text.find(line) == std::string::npos) text += line;
  }
  return text;
}

void print_outcome(const GdsioSettings& settings, const GdsioOutcome& outcome) {
  if (outcome.result.was_interrupted) print("interrupted; up to then:\n");
  print("{}{}", Text(result_line(settings, outcome)), Text(path_lines(settings, outcome)));
  flush_output();
}

int run_gdsio(const GdsioSettings& settings) {
  report_what_does_not_count(settings);
  Run run(settings);
  std::vector<GdsioOutcome> outcomes;
  std::vector<bool> directions(1, settings.is_write);
  if (settings.is_write && run.verifies()) directions.push_back(false);
  for (const bool is_write : directions) {
    if (!settings.json && run.verifies() && !is_write) print("Verifying data\n");
    outcomes.push_back(run.pass(is_write));
    if (!settings.json) print_outcome(settings, outcomes.back());
    if (outcomes.back().result.was_interrupted) return kFailed;
  }
  run.keep_files();
  report_what_served(settings, outcomes);
  if (!settings.json) {
    print("{}", Text(device_text(settings, run.machinery())));
    return kSuccess;
  }
  Json json = {{"results", Json::array()}, {"verified", run.verifies()}, {"devices", Json::array()}};
  for (const GdsioOutcome& outcome : outcomes) json["results"].push_back(outcome_json(settings, outcome));
  for (const GdsioGroup& group : settings.groups) {
    if (run.machinery().session() != nullptr)
      json["devices"].push_back(device_json(run.machinery().session(), group.gpu));
  }
  print_json(json);
  return kSuccess;
}

}  // namespace

void add_gdsio(CommandLine& command) {
  command.runs_on_words([](const std::vector<std::string>& words) {
    bool wants_help = false;
    const GdsioSettings settings = parse_gdsio(words, wants_help);
    if (!wants_help) return run_gdsio(settings);
    print("{}", Text(gdsio_help()));
    return kSuccess;
  });
}

}  // namespace penstock::tools
