// SPDX-License-Identifier: Apache-2.0

#include "tools/doctor/examine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/machine_use.h"
#include "tools/common/progress.h"
#include "tools/common/units.h"
#include "tools/doctor/attempt.h"

namespace penstock::tools {
namespace {

// The most that is read into the page cache if nothing of the files is cached.
constexpr std::uint64_t kWarmedMost = std::uint64_t{512} << 20;
constexpr unsigned kManyThreads = 4;

// Opens a session to measure a part of the way at the machine's own speed, whatever the environment sets.
Session open_part(const char* direct_io) { return Attempt{.trial = {}, .without = speed_settings()}.open(direct_io); }

// Quotes a word for a shell.
std::string quoted(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+,:=@%*?[]";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string command_to_read(const std::vector<std::string>& words, const Survey& survey) {
  std::string files, folders;
  for (const std::string& word : words) {
    const auto is_it = [&](const Shard& shard) { return shard.path == word && !shard.members.empty(); };
    const auto object = std::find_if(survey.shards.begin(), survey.shards.end(), is_it);
    if (object != survey.shards.end()) {
      for (const std::string& member : object->members) files += " " + quoted(member);
      continue;
    }
    std::error_code ignored;
    (std::filesystem::is_directory(word, ignored) ? folders : files) += " " + quoted(word);
  }
  if (folders.empty()) return fmt::format("cat{} > /dev/null", files);
  return fmt::format("find{}{} -type f -exec cat {{}} + > /dev/null", folders, files);
}

// Brings some pieces of which nothing was cached into the page cache for a moment.
class Warmed {
 public:
  explicit Warmed(const Survey& survey) : survey_(survey) {}
  Warmed(const Warmed&) = delete;
  Warmed& operator=(const Warmed&) = delete;
  ~Warmed() { restore_page_cache(survey_, pieces_.size()); }

  const std::vector<Piece>& read() {
    std::uint64_t bytes = 0;
    for (const Piece& piece : survey_.uncached) {
      if (bytes + piece.size > kWarmedMost && !pieces_.empty()) break;
      pieces_.push_back(piece);
      Source(survey_.shards[piece.shard].path).warm(piece.offset, piece.size);
      bytes += piece.size;
    }
    return pieces_;
  }

 private:
  const Survey& survey_;
  std::vector<Piece> pieces_;
};

// Carries out the measurements, one after another. Each variant has a session of its own, as a program has: the library
// adapts to a slow drive in a way that is wrong for the page cache, and to one thread in a way that is wrong for four.
class Diagnosis {
 public:
  Diagnosis(const ExamineSettings& settings, Examination& found, const Session& session)
      : found_(found), meter_(found.survey, session, settings.gpu, settings.seconds) {
    // With fewer pieces than threads, some threads would have no work.
    if (found.survey.cached.size() + found.survey.uncached.size() < kManyThreads) return;
    attempts_.insert(attempts_.begin(), {.trial = {"have four requests under way at a time",
                                                   "read from 4 threads, or by a queue, in requests of 64 MiB"},
                                         .threads = kManyThreads});
  }

  void run() {
    if (can_be_direct()) measure_cold();
    else found_.notes.push_back("the file system has no direct I/O: the drive by itself was not measured");
    measure_warm();
    for (const Attempt& each : attempts_) found_.trials.push_back(each.trial);
    add("host_copy", "copied within host memory, by one thread", meter_.measure_host_copy());
    if (auto link = meter_.measure_link(Into::device)) {
      if (const Rate* const warm = found_.rate("warm")) raise_to(*link, *warm);
      add("link", "from pinned host memory into the GPU", *link);
    } else found_.notes.push_back("no GPU was seen: host memory stands in for its, and there is no link to measure");
    bound_paths();
    bound_drives();
  }

 private:
  // One source of bytes: the drive, or the page cache.
  struct Source {
    const std::vector<Piece>& pieces;
    const char* direct_io;               // The setting for the part of the way up to host memory.
    std::string whole_direct_io;         // The setting for the whole way.
    double Trial::*speed;                // Points to the member that has the speed from this source.
    std::optional<Ratio> Trial::*doubt;  // Points to the member that has the doubt about it, if any.
    bool is_cold = false;                // None of the pieces is cached.
    bool is_as_programs_read_it = true;  // True if read(2) would get the bytes from the same source.
  };
  struct Rates {
    Rate part, whole, plain;
  };

  const Survey& survey() const { return found_.survey; }

  bool can_be_direct() const {
    const auto& places = survey().places;
    return std::all_of(places.begin(), places.end(),
                       [](const Place& place) { return place.told.info.direct_offset_align > 0; });
  }

  void add(const char* name, const char* what, const Rate& rate) { found_.stages.push_back({name, what, rate}); }

  static void keep(const Gain& gain, const Source& source, Trial& trial) {
    trial.*source.speed = gain.speed;
    trial.*source.doubt = gain.doubt;
  }

  // Measures the first part of the way, the whole way, the whole way with each attempt, and a program that reads
  // without the library.
  Rates measure(const Source& source) {
    std::vector<Session> sessions;
    sessions.reserve(attempts_.size() + 2);  // Reserved because variants point to the sessions.
    std::vector<Variant> variants;
    const auto add_variant = [&](Session session, Into into, unsigned threads) {
      variants.push_back({&sessions.emplace_back(std::move(session)), into, threads});
    };
    add_variant(open_part(source.direct_io), Into::host, 1);
    add_variant(Attempt{}.open(source.whole_direct_io), Into::device, 1);
    for (const Attempt& each : attempts_) add_variant(each.open(source.whole_direct_io), Into::device, each.threads);
    if (source.is_as_programs_read_it) variants.push_back({nullptr});
    const double all = 2.0 * static_cast<double>(variants.size()) * kTurns;
    std::vector<Rate> rates = meter_.measure(variants, source.pieces, source.is_cold,
                                             [&] { progress_.update(0, std::min(1.0, ++turns_ / all)); });
    for (std::size_t i = 0; i < attempts_.size(); ++i) keep(gained(rates[2 + i], rates[1]), source, attempts_[i].trial);
    raise_to(rates[0], rates[1]);
    return {rates[0], rates[1], source.is_as_programs_read_it ? rates.back() : Rate{}};
  }

  // Reads from the drive. If there are only cached pieces, they are read past the page cache.
  void measure_cold() {
    const bool is_cold = !survey().uncached.empty();
    const std::vector<Piece>& pieces = is_cold ? survey().uncached : survey().cached;
    if (pieces.empty()) return;
    const Rates rates =
        measure({pieces, "always", is_cold ? "" : "always", &Trial::cold, &Trial::cold_doubt, is_cold, is_cold});
    add("drive", found_.is_decoded ? "drive to host memory, decoded by the CPUs" : "drive to host memory, O_DIRECT",
        rates.part);
    add("cold", "drive to device memory, by Penstock", rates.whole);
    if (is_cold) add("plain_cold", "drive to device memory, read(2) by one thread", rates.plain);
  }

  void measure_warm() {
    Warmed warmed(survey());
    const std::vector<Piece>& pieces = survey().cached.empty() ? warmed.read() : survey().cached;
    if (pieces.empty()) return;
    const Rates rates = measure({pieces, "never", "", &Trial::warm, &Trial::warm_doubt});
    add("page_cache", "page cache to host memory", rates.part);
    add("warm", "page cache to device memory, by Penstock", rates.whole);
    add("plain_warm", "page cache to device memory, read(2) by one thread", rates.plain);
  }

  double speed(const char* name) const { return found_.speed(name); }

  // Bounds the gain of each better path: it cannot be faster than the parts of the way that it would still use.
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

  // Bounds the gain of making a drive's link as fast as both of its ends allow.
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

  std::vector<Attempt> attempts_ = attempts_on_settings();
  Examination& found_;
  Probe meter_;
  Progress progress_{"explain --measure"};
  unsigned turns_ = 0;
};

Speeds speeds_of(const Examination& found) {
  return {found.speed("drive"), found.speed("page_cache"), found.speed("host_copy"),  found.speed("link"),
          found.speed("cold"),  found.speed("warm"),       found.speed("plain_cold"), found.speed("plain_warm")};
}

std::optional<Ratio> ratio_of(const Examination& found, const char* of, const char* to) {
  const Rate *const a = found.rate(of), *const b = found.rate(to);
  return a == nullptr || b == nullptr ? std::nullopt : std::optional(paired_ratio(a->turns, b->turns));
}

Load load_of(const Examination& found, const ExamineSettings& settings) {
  const Survey& survey = found.survey;
  Load load{.bytes = survey.bytes,
            .cached = survey.cached_bytes,
            .memory_available = survey.memory_available,
            .cpus = survey.cpu_limit,
            .read_all = command_to_read(settings.words, survey),
            .cpus_there = static_cast<double>(survey.cpus)};
  if (found.rate("cold") == nullptr) load.cached = load.bytes;  // All of it came through the page cache.
  const bool is_cold = load.cached < load.bytes / 2;
  if (const Rate* const rate = found.rate(is_cold ? "cold" : "warm")) load.cpus_busy = rate->cpus_busy;
  load.caching = ratio_of(found, "cold", "warm");
  load.of_part = is_cold ? ratio_of(found, "drive", "cold") : ratio_of(found, "page_cache", "warm");
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
      if (!finding.has_cpu_move_bytes()) continue;
      const char* const others = survey.shards.size() > 1 ? " and perhaps others: " : ": ";
      // Otherwise the sentence names it.
      const std::string where = finding.subject.empty() ? place.file + others : "";
      found.causes.push_back(fmt::format("{}{}; {}", where, finding.sentence(), finding.remedy()));
      found.is_decoded = found.is_decoded || finding.obstacle == core::Obstacle::compressed ||
                         finding.obstacle == core::Obstacle::encrypted;
    }
  }
}

Examination examine_load(const ExamineSettings& settings) {
  const Session session = open_session({});
  check_gpu(session.raw(), settings.gpu);
  Examination found;
  found.survey = look_over(files_of(settings.words), session, settings.gpu);
  if (const std::string other = other_for_cufile(); !other.empty()) found.notes.push_back(other);
  if (!found.survey.is_residency_known) {
    found.notes.push_back(
        "the kernel does not report how much of these files is cached: they count as not cached, and bytes read for "
        "the measurement stay in the page cache");
  }
  if (found.survey.allocated < found.survey.bytes / 10 * 9) {
    found.notes.push_back(
        fmt::format("{} of {} are holes, or compressed: the drive does not read them, and seems quicker than it is",
                    format_size(found.survey.bytes - found.survey.allocated), format_size(found.survey.bytes)));
  }
  find_causes(found);
  const OtherPrograms others;
  Diagnosis(settings, found, session).run();
  found.others = others.share();
  found.forecast = predict(load_of(found, settings), speeds_of(found), found.trials, found.bounds);
  return found;
}

}  // namespace penstock::tools
