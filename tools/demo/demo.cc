// SPDX-License-Identifier: Apache-2.0

// penstock bench --every-path: moves data like a model's weights from device memory to a file and back, and verifies
// it, by every path that this machine has.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "tools/common/arena.h"
#include "tools/common/command_line.h"
#include "tools/common/content.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"
#include "tools/common/job.h"
#include "tools/common/machine_use.h"
#include "tools/common/new_file.h"
#include "tools/common/progress.h"
#include "tools/common/residency.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"
#include "tools/demo/report.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kStep = std::uint64_t{256} << 20;    // One request of the transfer.
constexpr std::uint64_t kHostStep = std::uint64_t{8} << 20;  // Content is made and compared in pieces of this size.
constexpr std::uint64_t kSpare = std::uint64_t{16} << 20;    // Left free on the file system.
constexpr std::uint64_t kSmallBlock = 4096;
constexpr unsigned kRounds = 3;  // Their range says what a rate may be told by.
constexpr double kLatencySeconds = 0.25;

constexpr const char* kDemoExamples =
    "Examples:\n"
    "  penstock bench --every-path                             1 GiB in the current folder\n"
    "  penstock bench --every-path --dir /mnt/nvme --size 4G   on the drive that matters\n"
    "It writes and reads the data three times by each path: some three minutes for 1 GiB on a slow drive.\n"
    "Exit code: 0 every path gave the same bytes, 1 failed, 2 wrong usage, 77 if there is no such GPU.";

struct DemoSettings {
  std::string folder = ".";
  std::uint64_t size = std::uint64_t{1} << 30;
  unsigned gpu = 0;
  bool json = false;
};

struct DemoVariants {
  std::vector<DemoVariant> ways;
  std::vector<MissingVariant> missing;
};

class Finder {
 public:
  explicit Finder(const FileInfo& info) : has_direct_io_(info.direct_offset_align != 0) {
    if (!has_direct_io_) found_.missing.push_back({"O_DIRECT", "", "this file cannot do direct I/O", ""});
  }

  // `better` is the verdict that refuses a better path, if there is one.
  void add(const Verdict& read, const Verdict& write, const Verdict* better, bool host_memory) {
    if (read.usable == 0) return miss(read.path_name(), read);
    if (write.usable == 0) miss(std::string(read.path_name()) + " write", write);
    DemoVariant way;
    way.path = read.path_name();
    way.session.paths = way.session.require = way.path;
    way.host_memory = host_memory;
    way.can_write = write.usable != 0;
    if (better != nullptr) way.reason = better->reason;
    if (better != nullptr) way.refused_path = better->path;
    if (read.path == PENSTOCK_PATH_BOUNCE || read.path == PENSTOCK_PATH_HOST) return add_variants(way, read);
    found_.ways.push_back(way);
  }

  DemoVariants found() && { return std::move(found_); }

 private:
  void miss(const std::string& what, const Verdict& verdict) {
    found_.missing.push_back({what, verdict.reason_name(), verdict.sentence(), verdict.remedy()});
  }

  // Adds the path's variants: with and without io_uring, through the page cache and around it.
  void add_variants(DemoVariant way, const Verdict& verdict) {
    const bool has_ring =
        verdict.reason != PENSTOCK_REASON_IO_URING_FORBIDDEN && verdict.reason != PENSTOCK_REASON_IO_URING_OFF;
    if (!has_ring) miss(way.path + " with io_uring", verdict);
    for (const bool ring : {true, false}) {
      if (ring && !has_ring) continue;
      for (const bool direct : {true, false}) {
        if (direct && !has_direct_io_) continue;
        way.session.io_uring = ring ? "auto" : "off";
        way.session.direct_io = direct ? "always" : "never";
        way.how = std::string(ring ? "io_uring" : "preadv2") + (direct ? ", O_DIRECT" : ", buffered");
        found_.ways.push_back(way);
      }
    }
  }

  bool has_direct_io_;
  DemoVariants found_;
};

// Finds every path that the file and a device allow, to be forced one at a time, and the reasons why others are
// missing. Asks a session that has the library's own settings.
DemoVariants find_variants(const File& file, unsigned gpu) {
  Finder finder(require(file.info(), "demo file"));
  const Arena host = Arena::on_host(4096);
  for (const bool host_memory : {false, true}) {
    const void* base = host_memory ? host.data() : nullptr;
    const auto reads = require(file.explain({PENSTOCK_READ, gpu, base}), "explain");
    const auto writes = require(file.explain({PENSTOCK_WRITE, gpu, base}), "explain");
    const Verdict* better = nullptr;
    for (std::size_t i = 0; i < reads.size() && i < writes.size(); ++i) {
      // The verdict of the host path is that on host memory, those of all others are on device memory.
      if (reads[i].path != PENSTOCK_PATH_NULL && (reads[i].path == PENSTOCK_PATH_HOST) == host_memory) {
        finder.add(reads[i], writes[i], better, host_memory);
      }
      if (better == nullptr && reads[i].usable == 0) better = &reads[i];
    }
  }
  return std::move(finder).found();
}

void check_space(const DemoSettings& settings) {
  const std::uint64_t available = room_in(settings.folder);
  if (available >= settings.size + kSpare) return;
  throw Failure(fmt::format("{}: the demo needs {} of free space and there is {}; free some, or give --dir or --size",
                            settings.folder, format_size(settings.size + kSpare), format_size(available)));
}

// One variant, once to the file and back: fills device memory with content of its own, so that no earlier variant's
// bytes can pass for it, writes it out, overwrites the memory, reads it in and compares.
class Trip {
 public:
  Trip(const DemoSettings& settings, const DemoVariant& way, int fd, std::uint64_t seed)
      : settings_(settings), way_(way), fd_(fd), session_(open_session(way.session)),
        file_(require(session_.file(fd), way.path)),
        arena_(way.host_memory ? Arena::on_host(settings.size)
                               : Arena::on_device(session_.raw(), settings.gpu, settings.size)),
        content_(seed), scratch_(std::min(kHostStep, settings.size)) {}

  // Latencies of small requests are measured if the caller wants them.
  std::vector<DemoRow> run(bool with_latency) {
    std::vector<DemoRow> rows;
    // Every variant starts without cached pages of the one before.
    posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
    each_piece([&](std::uint64_t at, std::span<std::byte> bytes) {
      content_.fill(bytes, at);
      arena_.upload(at, bytes);
    });
    if (way_.can_write) rows.push_back(timed(true));
    else write_by_any_path();
    std::fill(scratch_.begin(), scratch_.end(), std::byte{0xa5});
    each_piece([&](std::uint64_t at, std::span<std::byte> bytes) { arena_.upload(at, bytes); });
    rows.push_back(timed(false));
    each_piece([&](std::uint64_t at, std::span<std::byte> bytes) { compare(at, bytes); });
    if (!with_latency) return rows;
    for (DemoRow& row : rows) row.latency_us = small_latency_us(row.operation == "write");
    return rows;
  }

 private:
  template <typename Visit>
  void each_piece(Visit visit) {
    for (std::uint64_t at = 0; at < settings_.size; at += scratch_.size()) {
      visit(at, std::span(scratch_).first(std::min<std::uint64_t>(scratch_.size(), settings_.size - at)));
      throw_if_interrupted();
    }
  }

  void compare(std::uint64_t at, std::span<std::byte> bytes) {
    arena_.download(at, bytes);
    const auto difference = content_.first_difference(bytes, at);
    if (difference) {
      throw Failure(fmt::format("{}: verify: the byte at offset {} is wrong", name(), at + *difference));
    }
  }

  void move(bool is_write, std::uint64_t at) {
    const std::uint64_t size = std::min(kStep, settings_.size - at);
    const auto offset = static_cast<std::int64_t>(at);
    const Outcome outcome =
        is_write ? file_.write(arena_.data(), size, offset, offset) : file_.read(arena_.data(), size, offset, offset);
    require(outcome.status, name());
    through_cache_ += outcome.report.cached_bytes;
    if (outcome.report.bytes != size) throw Failure(name() + ": fewer bytes moved than asked for");
    if (bytes_elsewhere(outcome.report) != 0) throw Failure(name() + ": bytes took another path than the one forced");
  }

  std::uint64_t bytes_elsewhere(const penstock_report& report) const {
    return report.bytes - penstock_report_bytes(&report, *path_by_name(way_.path));
  }

  std::string name() const { return way_.how.empty() ? way_.path : fmt::format("{} ({})", way_.path, way_.how); }

  DemoRow timed(bool is_write) {
    Progress progress(fmt::format("{} {}", name(), is_write ? "write" : "read"));
    DemoRow row{&way_, is_write ? "write" : "read", {}, {}};
    // Where the kernel does not tell what is cached, the write before has just filled the cache.
    const bool is_in_cache = !is_write && cached_bytes(fd_).value_or(settings_.size) > settings_.size / 2;
    through_cache_ = 0;
    const auto start = std::chrono::steady_clock::now();
    const double cpu_before = cpu_seconds();
    for (std::uint64_t at = 0; at < settings_.size; at += kStep) {
      move(is_write, at);
      throw_if_interrupted();
      progress.update(at, static_cast<double>(at) / static_cast<double>(settings_.size));
    }
    if (is_write && fsync(fd_) != 0) fail_errno("demo file", "flush the file");
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    row.gb_per_s = {gigabytes(settings_.size) / seconds};
    row.cpu_per_gb = {(cpu_seconds() - cpu_before) / gigabytes(settings_.size)};
    row.is_cached = is_in_cache && through_cache_ > settings_.size / 2;
    return row;
  }

  // Writes the content for a path that cannot write, so that it has something to read.
  void write_by_any_path() {
    Session session = open_session({});
    const File file = require(session.file(fd_), "demo file");
    each_piece([&](std::uint64_t at, std::span<std::byte> bytes) {
      content_.fill(bytes, at);
      const Outcome outcome = file.write(bytes.data(), bytes.size(), static_cast<std::int64_t>(at));
      require(outcome.status, "demo file");
    });
  }

  double small_latency_us(bool is_write) {
    Job job;
    job.session = &session_;
    job.files = {{&file_, "demo file", {0, settings_.size, std::min(kSmallBlock, settings_.size)}}};
    job.label = way_.path;
    job.is_write = is_write;
    job.is_random = true;
    job.seconds = kLatencySeconds;
    job.is_endless = true;
    job.gpu = settings_.gpu;
    job.host_memory = way_.host_memory;
    job.content = &content_;
    return static_cast<double>(run_job(job).tally.latency_ns.quantile(0.5)) / 1e3;
  }

  const DemoSettings& settings_;
  const DemoVariant& way_;
  int fd_;
  Session session_;
  File file_;
  Arena arena_;
  WeightsContent content_;
  std::vector<std::byte> scratch_;
  std::uint64_t through_cache_ = 0;  // The bytes of the operation that is timed which moved through the page cache.
};

// Measures each variant in each round; odd rounds go the other way round, so that a drift favours no variant.
std::vector<DemoRow> measure_in_rounds(const DemoSettings& settings, const std::vector<DemoVariant>& ways, int fd) {
  std::vector<DemoRow> rows;
  std::uint64_t seed = 1;
  for (unsigned round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const DemoVariant& way = ways[round % 2 == 0 ? i : ways.size() - 1 - i];
      for (const DemoRow& row : Trip(settings, way, fd, seed++).run(round == 0)) add_round(rows, row);
    }
  }
  return rows;
}

// Allocates the space first, so that the first variant does not pay for it.
void lay_out(const NewFile& file, std::uint64_t size) {
  if (ftruncate(file.fd(), static_cast<off_t>(size)) != 0) fail_errno(file.path(), "set the file's size");
  if (fallocate(file.fd(), 0, 0, static_cast<off_t>(size)) != 0 && errno != EOPNOTSUPP && errno != EINTR) {
    fail_errno(file.path(), "reserve space");
  }
}

int run_demo(const DemoSettings& settings) {
  if (settings.size == 0) throw Failure("--size must be above 0", kUsage);
  check_space(settings);
  Session session = open_session({});
  check_gpu(session.raw(), settings.gpu);
  const std::string path = settings.folder + "/penstock-demo";
  std::optional<NewFile> file(std::in_place, path, 0);
  if (nvidia_library_may_serve(require(session.file(file->fd()), "demo file"), settings.gpu)) {
    file.emplace(path, 0, true);
  }
  lay_out(*file, settings.size);
  const DemoVariants found = find_variants(require(session.file(file->fd()), "demo file"), settings.gpu);
  if (!settings.json) {
    print(
        "demo: {} of data like weights (bfloat16, normal) from device memory to a file in {} and back, by "
        "each path, {} rounds\n{}\n",
        format_size(settings.size), settings.folder, kRounds, device_line(session.raw(), settings.gpu));
    if (const std::string other = other_for_cufile(); !other.empty()) print("{}\n", other);
    flush_output();
  }
  const OtherPrograms others;
  DemoFound told{measure_in_rounds(settings, found.ways, file->fd()), found.missing};
  told.share_of_others = others.share();
  if (settings.json) print_json(demo_json(settings.size, device_json(session.raw(), settings.gpu), told));
  else print("{}", demo_text(told));
  return told.rows.empty() ? kFailed : kSuccess;
}

}  // namespace

void add_demo(CommandLine& command) {
  auto settings = std::make_shared<DemoSettings>();
  command.option("--dir", settings->folder, "Where the file is created, and removed at the end")
      .value_name("DIR")
      .default_shown();
  command.size("--size", settings->size, "Bytes of data [1G]");
  command.option("--gpu", settings->gpu, "The GPU whose memory takes part").default_shown();
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kDemoExamples);
  command.runs([settings] { return run_demo(*settings); });
}

}  // namespace penstock::tools
