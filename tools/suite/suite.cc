// SPDX-License-Identifier: Apache-2.0

// penstock bench --suite: the published table of saves and loads, measured here at a smaller scale, without Penstock
// and with it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "model/constants.h"
#include "tools/common/command_line.h"
#include "tools/common/context.h"
#include "tools/common/explanation.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"
#include "tools/common/new_file.h"
#include "tools/common/plots.h"
#include "tools/common/progress.h"
#include "tools/common/residency.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"
#include "tools/suite/report.h"
#include "tools/suite/ways.h"

namespace penstock::tools {
namespace {

constexpr double kRoom = 1.05;  // The bytes, and what the file system itself needs for them.
constexpr unsigned kTurnsMost = 100;

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock bench --suite /mnt/nvme                           the published table at a 500th of its size: 1.3 GB "
    "at most\n"
    "  penstock bench --suite /mnt/nvme --scale 0.1               at a tenth: 67 GB at most\n"
    "  penstock bench --suite /mnt/nvme --only save-70b --turns 5\n"
    "  penstock bench --suite /mnt/nvme --versus /usr/local/cuda/lib64/libcufile.so.0\n"
    "  penstock bench --suite /mnt/nvme --html suite.html         as a page, too\n"
    "It writes files named penstock-suite-... into DIR, and removes them, also when it is interrupted.\n"
    "Exit code: 0 measured, 1 failed, 2 wrong usage, 77 if there is no such GPU, or no --versus in this build.";

struct Options {
  std::string folder;
  double scale = 0.002;
  unsigned turns = 3;
  std::vector<std::string> only;
  unsigned gpu = 0;
  std::string versus;
  double price = model::facts_of(model::Constant::kGpuHourPrice).value;
  double saves = 1000;
  OutputOptions output;
};

// The files of one workload. They are removed with this object, or when a signal ends the program.
class Files {
 public:
  Files(const std::string& folder, const Workload& workload, double scale) {
    for (unsigned i = 0; i < workload.files; ++i)
      files_.push_back({fmt::format("{}/penstock-suite-{}-{}-{}", folder, getpid(), workload.name, i),
                        file_size_at(workload, scale)});
  }
  // Makes empty files in place of the earlier ones.
  void make() {
    made_.clear();
    for (const SuiteFile& file : files_) {
      (void)open_file(file.path, O_RDWR | O_CREAT | O_EXCL, 0600);
      made_.push_back(std::make_unique<Unfinished>(file.path));
    }
  }
  const std::vector<SuiteFile>& all() const { return files_; }

  void check_sizes() const {
    for (const SuiteFile& file : files_) {
      const std::uint64_t size = open_file(file.path, O_RDONLY).size;
      if (size != file.size)
        throw Failure(fmt::format("{}: {} bytes were saved, and it has {}", file.path, file.size, size));
    }
  }
  // Takes the files out of the page cache as far as the kernel obeys. Returns the part that is still cached.
  std::optional<double> forget() const {
    std::uint64_t cached = 0, bytes = 0;
    for (const SuiteFile& file : files_) {
      const OpenFile opened = open_file(file.path, O_RDONLY);
      drop_cache(opened);
      const std::optional<std::uint64_t> here = cached_bytes(opened.fd.get());
      if (!here) return std::nullopt;
      cached += *here;
      bytes += file.size;
    }
    return static_cast<double>(cached) / static_cast<double>(bytes);
  }

 private:
  std::vector<SuiteFile> files_;
  std::vector<std::unique_ptr<Unfinished>> made_;
};

std::vector<const Workload*> chosen(const Options& options) {
  std::vector<const Workload*> some;
  for (const Workload& each : workloads()) {
    const bool is_named = std::find(options.only.begin(), options.only.end(), each.name) != options.only.end();
    if (options.only.empty() || is_named) some.push_back(&each);
  }
  return some;
}

void check(const Options& options, const std::vector<const Workload*>& some) {
  struct stat facts {};
  if (!(options.scale > 0 && options.scale <= 1))
    throw Failure("--scale: expected a number above 0, and 1 at most", kUsage);
  if (options.turns < 1 || options.turns > kTurnsMost)
    throw Failure(fmt::format("--turns {}: expected 1 to {}", options.turns, kTurnsMost), kUsage);
  if (!(options.price >= 0 && options.price <= 1e6)) throw Failure("--price: expected dollars, 0 to a million", kUsage);
  if (!(options.saves >= 0 && options.saves <= 1e9)) throw Failure("--checkpoints: expected 0 to 10^9", kUsage);
  if (stat(options.folder.c_str(), &facts) != 0) fail_errno(options.folder, "look for the folder");
  if (!S_ISDIR(facts.st_mode))
    throw Failure(options.folder + ": it is no folder; name where files may be written", kUsage);
  std::uint64_t most = 0;
  double largest = 0;
  for (const Workload* each : some) {
    most = std::max(most, bytes_at(*each, options.scale));
    largest = std::max(largest, each->full_bytes);
  }
  const std::uint64_t room = room_in(options.folder);
  if (static_cast<double>(room) >= kRoom * static_cast<double>(most)) return;
  throw Failure(fmt::format(
      "{}: {} are free, and the largest workload writes {}; take --scale {:.1g} or less, or another "
      "folder",
      options.folder, format_size(room), format_size(most), 0.9 * static_cast<double>(room) / kRoom / largest));
}

class Suite {
 public:
  Suite(const Options& options, const std::vector<const Workload*>& some,
        const std::vector<std::unique_ptr<SuiteVariant>>& ways)
      : options_(options), ways_(ways) {
    for (const Workload* each : some)
      total_ +=
          static_cast<double>(bytes_at(*each, options.scale)) * (options.turns * static_cast<double>(ways.size()) + 1);
  }

  SuiteRow run(const Workload& workload) {
    SuiteRow row{&workload, bytes_at(workload, options_.scale)};
    for (const auto& way : ways_) row.ways.push_back({way->name(), {}});
    Files files(options_.folder, workload, options_.scale);
    files.make();
    // Warms up what several turns share, such as sessions, and makes the files that are to be loaded.
    (void)ways_[0]->move(files.all(), false, workload.threads);
    advance(row.bytes);
    row.cached = workload.is_load ? std::optional(0.0) : std::nullopt;
    const Tally before = *ways_[1]->tally();
    for (unsigned turn = 0; turn < options_.turns; ++turn) {
      for (std::size_t i = 0; i < ways_.size(); ++i) take_turn((i + turn) % ways_.size(), files, row);
    }
    row.tally = since(before, *ways_[1]->tally());
    return row;
  }

 private:
  void take_turn(std::size_t way, Files& files, SuiteRow& row) {
    throw_if_interrupted();
    const Workload& workload = *row.workload;
    if (workload.is_load) {
      const std::optional<double> cached = files.forget();
      row.cached = cached && row.cached ? std::optional(std::max(*cached, *row.cached)) : std::nullopt;
    } else {
      files.make();
    }
    row.ways[way].turns_s.push_back(std::max(1e-9, ways_[way]->move(files.all(), workload.is_load, workload.threads)));
    if (!workload.is_load) files.check_sizes();
    advance(row.bytes);
  }

  static Tally since(const Tally& before, const Tally& after) {
    Tally tally;
    tally.bytes = after.bytes - before.bytes;
    for (std::size_t i = 0; i < tally.bytes_by_path.size(); ++i)
      tally.bytes_by_path.at(i) = after.bytes_by_path.at(i) - before.bytes_by_path.at(i);
    return tally;
  }

  void advance(std::uint64_t bytes) {
    moved_ += bytes;
    progress_.update(moved_, static_cast<double>(moved_) / total_);
  }

  const Options& options_;
  const std::vector<std::unique_ptr<SuiteVariant>>& ways_;
  Progress progress_{"suite"};
  std::uint64_t moved_ = 0;
  double total_ = 0;
};

std::unique_ptr<SuiteVariant> baseline_of(const Options& options, const std::vector<const Workload*>& some) {
  if (options.versus.empty()) return nullptr;
  std::uint64_t largest = 0;
  unsigned threads = 1;
  for (const Workload* each : some) {
    largest = std::max(largest, file_size_at(*each, options.scale));
    threads = std::max(threads, each->threads);
  }
  const char* device = std::getenv("PENSTOCK_DEVICE");
  return baseline_variant(options.versus, device != nullptr && std::string_view(device) == "host", largest, threads);
}

std::string file_system_of(const Options& options, const Session& session) {
  const NewFile file(options.folder + "/penstock-suite", 0);
  const File known = require(session.file(file.fd()), options.folder);
  return require(known.info(), options.folder).file_system;
}

int run_suite(const Options& options) {
  const std::vector<const Workload*> some = chosen(options);
  check(options, some);
  Output output(options.output, suite_page());
  // Made before a session gives this process threads.
  std::unique_ptr<SuiteVariant> baseline = baseline_of(options, some);
  const Session session = open_session({});
  check_gpu(session.raw(), options.gpu);
  std::vector<std::unique_ptr<SuiteVariant>> ways;
  ways.push_back(plain_variant(session, options.gpu));
  ways.push_back(penstock_variant(session, options.gpu));
  if (baseline != nullptr) ways.push_back(std::move(baseline));
  SuiteFound found{options.folder,
                   file_system_of(options, session),
                   device_line(session.raw(), options.gpu),
                   device_json(session.raw(), options.gpu),
                   session.device(options.gpu)->stand_in == 0,
                   options.scale,
                   options.turns,
                   options.price,
                   options.saves,
                   {}};
  {
    Suite suite(options, some, ways);
    for (const Workload* each : some) found.rows.push_back(suite.run(*each));
  }
  output.show(suite_text(found), suite_json(found));
  return kSuccess;
}

}  // namespace

void add_suite(CommandLine& command) {
  auto options = std::make_shared<Options>();
  command.option("DIR", options->folder, "Where files may be written: on the drive that is to be measured").required();
  command.option("--scale", options->scale, "Scale of the published sizes, above 0 and up to 1").default_shown();
  command.option("--turns", options->turns, "Turns of each variant").default_shown();
  command.option("--only", options->only, "Only this workload; may be given several times")
      .one_of(workload_names())
      .one_value_each();
  command.option("--gpu", options->gpu, "The GPU whose memory takes part").default_shown();
  command.option("--versus", options->versus, "Also with another libcufile.so.0, in processes of its own")
      .value_name("LIBRARY");
  command.option("--price", options->price, "Dollars for a GPU and an hour").default_shown();
  command.option("--checkpoints", options->saves, "How many saves the hours and dollars are of").default_shown();
  add_output_options(command, options->output);
  command.footer(kExamples);
  command.runs([options] { return run_suite(*options); });
}

}  // namespace penstock::tools
