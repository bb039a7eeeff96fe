// SPDX-License-Identifier: Apache-2.0

#include "tools/doctor/examine.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include "tools/common/context.h"
#include "tools/common/environment.h"
#include "tools/common/file_list.h"
#include "tools/common/files.h"
#include "tools/common/progress.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kWarmedMost = std::uint64_t{512} << 20;  // Of files of which nothing is cached.
constexpr unsigned kManyThreads = 4;
constexpr const char* kOtherPolicy = "throughput";  // After speed alone; where it is in force already it gains nothing.

Session open_with(const char* setting, const char* value) {
  Config config;
  config.set(setting, value);
  return require(Session::open(config), "session");
}

// What the environment sets of how fast bytes travel, and not of whether and into what.
Variables speed_settings() {
  constexpr std::string_view kOfSpeed[] = {"bounce_mib", "chunk_kib", "direct_io",
                                           "io_uring",   "paths",     "policy",
                                           "vendor",     "workers",   "registration_cache_mib"};
  Variables found = environment_settings().known;
  std::erase_if(found, [&](const auto& variable) {
    return std::find(std::begin(kOfSpeed), std::end(kOfSpeed), library_setting(variable.first)) == std::end(kOfSpeed);
  });
  return found;
}

std::string names_of(const Variables& variables) {
  std::string names;
  for (const auto& [name, value] : variables) names += " " + name;
  return names;
}

std::optional<Session> open_without(const Variables& variables) {
  if (variables.empty()) return std::nullopt;
  const WithoutVariables without(variables);
  return open_session({});
}

// For a part of the way: what the machine gives, whatever the environment sets.
Session open_part(const char* direct_io) {
  const WithoutVariables without(speed_settings());
  return open_with("direct_io", direct_io);
}

// As a shell takes it.
std::string quoted(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+,:=@%*?[]";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string command_to_read(const std::vector<std::string>& words) {
  std::string files, folders;
  for (const std::string& word : words) {
    std::error_code ignored;
    (std::filesystem::is_directory(word, ignored) ? folders : files) += " " + quoted(word);
  }
  if (folders.empty()) return fmt::format("cat{} > /dev/null", files);
  return fmt::format("find{}{} -type f -exec cat {{}} + > /dev/null", folders, files);
}

// Pieces of which nothing was cached, brought into the page cache for a moment.
class Warmed {
 public:
  explicit Warmed(const Survey& survey) : survey_(survey) {
    std::uint64_t bytes = 0;
    for (const Piece& piece : survey.uncached) {
      if (bytes + piece.size > kWarmedMost && !pieces_.empty()) break;
      warm_cache(survey.shards[piece.shard].path, piece.offset, piece.size);
      pieces_.push_back(piece);
      bytes += piece.size;
    }
  }
  Warmed(const Warmed&) = delete;
  Warmed& operator=(const Warmed&) = delete;
  ~Warmed() {
    if (!survey_.is_residency_known) return;
    for (const Piece& piece : pieces_) {
      const UniqueFd fd(open(survey_.shards[piece.shard].path.c_str(), O_RDONLY | O_CLOEXEC));
      if (!fd.valid()) continue;
      posix_fadvise(fd.get(), static_cast<off_t>(piece.offset), static_cast<off_t>(piece.size), POSIX_FADV_DONTNEED);
    }
  }
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  const Survey& survey_;
  std::vector<Piece> pieces_;
};

// Carries the measurements out, one after another. Each way has a session of its own, as a program would that goes that
// way: what a session has learnt of a slow drive is wrong for the page cache, and what it has learnt of one thread for
// four.
class Examiner {
 public:
  Examiner(const ExamineSettings& settings, Examination& found, const Session& session)
      : found_(found), meter_(found.survey, session, settings.gpu, settings.seconds) {}

  void run() {
    found_.trials = {
        {"have four requests under way at a time", "read from 4 threads, or by a queue, in requests of 64 MiB"},
        {"spend more CPU time on it", fmt::format("export PENSTOCK_POLICY={}", kOtherPolicy), 0, 0,
         Trial::Kind::more_cpu}};
    if (!set_.empty()) {
      found_.trials.push_back(
          {"leave the settings to the library", "unset" + names_of(set_), 0, 0, Trial::Kind::no_settings});
    }
    if (can_be_direct()) measure_cold();
    else found_.notes.push_back("the file system has no direct I/O: the drive by itself was not measured");
    measure_warm();
    add("host_copy", "copied within host memory, by one thread", meter_.measure_host_copy());
    if (const auto link = meter_.measure_link(Into::device)) add("link", "from pinned host memory into the GPU", *link);
    else found_.notes.push_back("no GPU was seen: host memory stands in for its, and there is no link to measure");
    bound_paths();
    bound_drives();
  }

 private:
  const Survey& survey() const { return found_.survey; }

  bool can_be_direct() const {
    const auto& places = survey().places;
    return std::all_of(places.begin(), places.end(),
                       [](const Place& place) { return place.told.info.direct_offset_align > 0; });
  }

  void add(const char* name, const char* what, const Rate& rate) { found_.stages.push_back({name, what, rate}); }

  std::vector<Rate> measure(const std::vector<Way>& ways, const std::vector<Piece>& pieces, bool is_cold) {
    return meter_.measure(ways, pieces, is_cold, [&] {
      ++turns_;
      progress_.update(0, std::min(1.0, turns_ / kTurnsAbout));
    });
  }

  // What is cached is read past the page cache where there is nothing else.
  void measure_cold() {
    const bool is_cold = !survey().uncached.empty();
    const std::vector<Piece>& pieces = is_cold ? survey().uncached : survey().cached;
    if (pieces.empty()) return;
    const auto as_it_is = [&] { return is_cold ? open_session({}) : open_with("direct_io", "always"); };
    const Session direct = open_part("always"), alone = as_it_is(), together = as_it_is();
    const Session other = open_with("policy", kOtherPolicy);
    const std::optional<Session> unset = open_without(set_);
    std::vector<Way> ways = {{&direct, Into::host}, {&alone}, {&together, Into::device, kManyThreads}};
    if (is_cold) ways.insert(ways.end(), {{nullptr}, {&other}});
    if (is_cold && unset) ways.push_back({&*unset});
    const std::vector<Rate> rates = measure(ways, pieces, is_cold);
    add("drive", found_.is_decoded ? "drive to host memory, decoded by the CPUs" : "drive to host memory, O_DIRECT",
        rates[0]);
    add("cold", "drive to device memory, by Penstock", rates[1]);
    found_.trials[0].cold = gained(rates[2], rates[1]);
    if (!is_cold) return;
    add("plain_cold", "drive to device memory, read(2) by one thread", rates[3]);
    found_.trials[1].cold = gained(rates[4], rates[1]);
    if (!set_.empty()) found_.trials[2].cold = gained(rates[5], rates[1]);
  }

  void measure_warm() {
    std::optional<Warmed> warmed;
    if (survey().cached.empty()) warmed.emplace(survey());
    const std::vector<Piece>& pieces = warmed ? warmed->pieces() : survey().cached;
    if (pieces.empty()) return;
    const Session buffered = open_part("never"), alone = open_session({}), together = open_session({});
    const Session other = open_with("policy", kOtherPolicy);
    const std::optional<Session> unset = open_without(set_);
    std::vector<Way> ways = {
        {&buffered, Into::host}, {&alone}, {&together, Into::device, kManyThreads}, {nullptr}, {&other}};
    if (unset) ways.push_back({&*unset});
    const std::vector<Rate> rates = measure(ways, pieces, false);
    add("page_cache", "page cache to host memory", rates[0]);
    add("warm", "page cache to device memory, by Penstock", rates[1]);
    add("plain_warm", "page cache to device memory, read(2) by one thread", rates[3]);
    found_.trials[0].warm = gained(rates[2], rates[1]);
    found_.trials[1].warm = gained(rates[4], rates[1]);
    if (!set_.empty()) found_.trials[2].warm = gained(rates[5], rates[1]);
  }

  // More than its turns differ.
  static double gained(const Rate& with, const Rate& without) {
    const bool is_clear = with.slowest() > without.bytes_per_second && with.bytes_per_second > without.fastest();
    return is_quicker(with, without) && is_clear ? with.bytes_per_second : 0;
  }

  double speed(const char* name) const { return found_.speed(name); }

  // A better path cannot be faster than the parts that it is left with.
  void bound_paths() {
    if (!survey().has_gpu) return;
    for (const Verdict& verdict : survey().places[0].told.verdicts) {
      if (verdict.usable != 0) return;
      const std::string remedy = verdict.remedy();
      if (remedy.empty() || speed("link") <= 0) continue;
      const std::string what = fmt::format("make {} possible [{}]", verdict.path_name(), verdict.reason_name());
      if (verdict.path == PENSTOCK_PATH_P2PDMA && speed("drive") > 0) {
        found_.bounds.push_back({what, remedy, std::min(speed("drive"), speed("link")), 0});
      } else if (verdict.path == PENSTOCK_PATH_PAGECACHE) {
        found_.bounds.push_back({what, remedy, 0, speed("link")});
      }
    }
  }

  // A link that runs below what both ends can do.
  void bound_drives() {
    for (const Bus& bus : survey().buses) {
      const core::PciLink &now = bus.device.current_link, &most = bus.device.max_link;
      const double share =
          now.gigatransfers_per_second * now.width / std::max(1e-9, most.gigatransfers_per_second * most.width);
      if (share <= 0 || share > 0.99 || !bus.device.is_nvme() || speed("cold") <= 0) continue;
      found_.bounds.push_back(
          {fmt::format("let {} run at its full link: PCIe {:g} GT/s x{}, now {:g} GT/s x{}", bus.name,
                       most.gigatransfers_per_second, most.width, now.gigatransfers_per_second, now.width),
           "move the drive to a slot with that many lanes, or look for the reason in 'lspci -vv'",
           speed("cold") / share, 0});
    }
  }

  static constexpr double kTurnsAbout = 10 * kTurns;
  const Variables set_ = speed_settings();
  Examination& found_;
  Meter meter_;
  Progress progress_{"doctor"};
  unsigned turns_ = 0;
};

// What nobody would look for, and slows everything down.
void find_causes(Examination& found) {
  const Survey& survey = found.survey;
  if (survey.cpu_limit < survey.cpus) {
    found.causes.push_back(fmt::format("this process may use {:.2g} of the machine's {} CPUs, by {}", survey.cpu_limit,
                                       survey.cpus, survey.is_quota ? "its container's quota" : "its CPU set"));
  }
  std::string values;
  for (const auto& [name, value] : speed_settings())
    values += fmt::format("{}{}={}", values.empty() ? "" : ", ", name, value);
  if (!values.empty()) found.causes.push_back("the environment sets " + values);
  for (const Place& place : survey.places) {
    for (const core::Finding& finding : place.told.direct.report.findings) {
      found.causes.push_back(fmt::format("{}{}: {}; {}", place.file,
                                         survey.shards.size() > 1 ? " and perhaps others" : "", finding.sentence(),
                                         finding.remedy()));
      found.is_decoded = found.is_decoded || finding.obstacle == core::Obstacle::compressed ||
                         finding.obstacle == core::Obstacle::encrypted;
    }
  }
}

Speeds speeds_of(const Examination& found) {
  return {found.speed("drive"), found.speed("page_cache"), found.speed("host_copy"),  found.speed("link"),
          found.speed("cold"),  found.speed("warm"),       found.speed("plain_cold"), found.speed("plain_warm")};
}

Load load_of(const Examination& found, const ExamineSettings& settings) {
  const Survey& survey = found.survey;
  Load load{.bytes = survey.bytes,
            .cached = survey.cached_bytes,
            .memory_available = survey.memory_available,
            .cpus = survey.cpu_limit,
            .read_all = command_to_read(settings.words),
            .cpus_there = static_cast<double>(survey.cpus)};
  if (found.rate("cold") == nullptr) load.cached = load.bytes;  // There is no other way than through the page cache.
  const bool is_cold = load.cached < load.bytes / 2;
  if (const Rate* const rate = found.rate(is_cold ? "cold" : "warm")) load.cpus_busy = rate->cpus_busy;
  return load;
}

}  // namespace

const Rate* Examination::rate(const char* name) const {
  const auto is_it = [&](const Stage& stage) { return std::strcmp(stage.name, name) == 0; };
  const auto found = std::find_if(stages.begin(), stages.end(), is_it);
  return found == stages.end() ? nullptr : &found->rate;
}

double Examination::speed(const char* name) const {
  const Rate* const found = rate(name);
  return found == nullptr ? 0 : found->bytes_per_second;
}

Examination examine_load(const ExamineSettings& settings) {
  const Session session = open_session({});
  check_gpu(session.raw(), settings.gpu);
  Examination found;
  found.survey = look_over(files_of(settings.words), session, settings.gpu);
  if (!found.survey.is_residency_known) {
    found.notes.push_back(
        "the kernel does not tell what of these files is cached: they count as not cached, and what was read to "
        "measure "
        "stays in the page cache");
  }
  if (found.survey.allocated < found.survey.bytes / 10 * 9) {
    found.notes.push_back(
        fmt::format("{} of {} are holes, or compressed: the drive does not read them, and seems quicker than it is",
                    format_size(found.survey.bytes - found.survey.allocated), format_size(found.survey.bytes)));
  }
  find_causes(found);
  Examiner(settings, found, session).run();
  found.prognosis = predict(load_of(found, settings), speeds_of(found), found.trials, found.bounds);
  return found;
}

}  // namespace penstock::tools
