// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"
#include "tools/common/machine_use.h"
#include "tools/common/new_file.h"
#include "tools/common/progress.h"
#include "tools/common/units.h"
#include "tools/doctor/attempt.h"
#include "tools/doctor/examine.h"
#include "tools/doctor/meter.h"

namespace penstock::tools {
namespace {

// One way to write a checkpoint into a folder. The ways are measured by turns, flush included, with files that nobody
// else sees and that are gone afterwards.
struct SaveVariant {
  const Session* session = nullptr;  // Null: a copy into host memory, and write(2) by one thread.
  Into from = Into::device;
  bool is_prepared = false;  // The file's blocks were all written before.
};

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kWriteSize = std::uint64_t{16} << 20;  // The size of each write(2).
constexpr std::uint64_t kTurnMost = std::uint64_t{512} << 20;
// A turn takes at most this fraction of the free space, and two files exist at a time.
constexpr std::uint64_t kRoomPart = 8;

double seconds_from(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// One variant, with everything that outlasts its turns.
class Writer {
 public:
  Writer(const SaveVariant& variant, std::string name, Arena arena)
      : variant_(variant), name_(std::move(name)), arena_(std::move(arena)), bounce_(kWriteSize, std::byte{1}) {
    for (std::uint64_t at = 0; at < arena_.size(); at += kWriteSize)
      arena_.upload(at, std::span(bounce_).first(std::min(kWriteSize, arena_.size() - at)));
  }

  // If the variant asks for it, writes the file once, so that writes up to `size` find blocks that were written before.
  void prepare(std::uint64_t size) {
    if (!variant_.is_prepared) return;
    prepared_ = std::make_unique<NewFile>(name_, 0);
    const std::vector<std::byte> zeros(kWriteSize);
    for (std::uint64_t at = 0; at < size; at += kWriteSize) {
      throw_if_interrupted();
      write_at(prepared_->fd(), name_, zeros, at);
    }
    if (fsync(prepared_->fd()) != 0) fail_errno(name_, "flush the file");
    posix_fadvise(prepared_->fd(), 0, 0, POSIX_FADV_DONTNEED);
  }

  // Writes so many bytes, and returns how many seconds that took: flushing is counted, preparing the file is not.
  double write(std::uint64_t size, Tally& tally) {
    std::unique_ptr<NewFile> fresh;
    if (!variant_.is_prepared) fresh = std::make_unique<NewFile>(name_, 0);
    const NewFile& target = variant_.is_prepared ? *prepared_ : *fresh;
    const Clock::time_point start = Clock::now();
    if (variant_.session == nullptr) write_by_itself(target, size);
    else write_by_library(target, size, tally);
    return seconds_from(start);
  }

 private:
  void write_by_library(const NewFile& target, std::uint64_t size, Tally& tally) {
    const File file = require(variant_.session->file(target.fd()), name_);
    for (std::uint64_t at = 0; at < size; at += kPieceSize) {
      throw_if_interrupted();
      const Outcome outcome = file.write(arena_.data(), std::min(kPieceSize, size - at), static_cast<std::int64_t>(at));
      require(outcome.status, name_);
      tally.add(outcome.report, 0);
    }
    require(file.sync(), name_);
  }

  void write_by_itself(const NewFile& target, std::uint64_t size) {
    for (std::uint64_t at = 0; at < size; at += kWriteSize) {
      throw_if_interrupted();
      const auto bytes = std::span(bounce_).first(static_cast<std::size_t>(std::min(kWriteSize, size - at)));
      arena_.download(at % arena_.size(), bytes);
      write_at(target.fd(), name_, bytes, at);
    }
    if (fsync(target.fd()) != 0) fail_errno(name_, "flush the file");
  }

  const SaveVariant variant_;
  const std::string name_;
  Arena arena_;
  std::vector<std::byte> bounce_;
  std::unique_ptr<NewFile> prepared_;
};

void check_room(const std::string& folder) {
  const std::uint64_t least = kPieceSize * kRoomPart;
  if (const std::uint64_t room = room_in(folder); room < least) {
    throw Failure(fmt::format("{}: {} are free, and to measure a save takes {}; free some, or name another folder",
                              folder, format_size(room), format_size(least)));
  }
}

// A rate for each way. After each turn `told` is called.
std::vector<Rate> measure_saves(const ExamineSettings& settings, const Session& session,
                                const std::vector<SaveVariant>& variants, const std::function<void()>& told) {
  const std::string& folder = settings.words[0];
  check_room(folder);
  std::uint64_t most = std::min({settings.save, kTurnMost, room_in(folder) / kRoomPart});
  std::vector<std::unique_ptr<Writer>> writers;
  std::vector<Rate> rates(variants.size());
  std::vector<std::uint64_t> sizes;
  for (const SaveVariant& variant : variants) {
    writers.push_back(std::make_unique<Writer>(variant, folder + "/penstock-doctor",
                                               memory_of(variant.session, session, variant.from, settings.gpu)));
    // Warms up, and finds out how much fits into a turn.
    Tally ignored;
    writers.back()->prepare(most);
    const std::uint64_t first = std::min(most, kPieceSize);
    const double seconds = writers.back()->write(first, ignored);
    const double fits =
        static_cast<double>(first) * seconds_each(settings.seconds, variants.size()) / kTurns / std::max(seconds, 1e-6);
    sizes.push_back(std::clamp(static_cast<std::uint64_t>(fits) / kPieceSize * kPieceSize, first, most));
    most = std::min(most, 2 * sizes[0]);  // A slow drive must not be filled with zeros for long.
  }
  for (unsigned turn = 0; turn < kTurns; ++turn) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      Rate& rate = rates[i];
      const double cpu_before = cpu_seconds();
      const double seconds = writers[i]->write(sizes[i], rate.tally);
      rate.cpus_busy += (cpu_seconds() - cpu_before) / std::max(seconds, 1e-9) / kTurns;
      rate.turns.push_back(static_cast<double>(sizes[i]) / std::max(seconds, 1e-9));
      rate.bytes += sizes[i];
      rate.seconds += seconds;
      told();
    }
  }
  for (Rate& rate : rates) rate.bytes_per_second = static_cast<double>(rate.bytes) / std::max(rate.seconds, 1e-9);
  return rates;
}

void check_folder(const ExamineSettings& settings) {
  struct stat facts {};
  const std::string& folder = settings.words[0];
  if (settings.words.size() != 1) throw Failure("--save takes one folder", kUsage);
  if (stat(folder.c_str(), &facts) != 0) fail_errno(folder, "look for the folder");
  if (!S_ISDIR(facts.st_mode)) throw Failure(folder + ": it is no folder; --save names where checkpoints go", kUsage);
}

std::vector<Attempt> attempts_on(const ExamineSettings& settings, bool can_be_direct) {
  std::vector<Attempt> attempts = attempts_on_settings();
  attempts.push_back(
      {.trial = {"write over blocks that exist: into a file that was prepared, or over an older checkpoint",
                 fmt::format("penstock explain --fix FILE --size {} --written", size_argument(settings.save))},
       .is_prepared = true});
  if (!can_be_direct) return attempts;
  attempts.push_back({.trial = {"write past the page cache", "export PENSTOCK_DIRECT_IO=always"},
                      .settings = {.direct_io = "always"}});
  return attempts;
}

// Each variant has a session of its own: the library adapts to new files in a way that is wrong for others.
void measure(Examination& found, const ExamineSettings& settings, const Session& session) {
  Progress progress("explain --measure");
  unsigned turns = 0;
  const bool can_be_direct = found.survey.places[0].told.info.direct_offset_align > 0;
  const std::vector<Attempt> attempts = attempts_on(settings, can_be_direct);
  const Session drive = Attempt{.trial = {}, .without = speed_settings()}.open("always");
  std::vector<Session> sessions;
  sessions.reserve(attempts.size());  // Reserved because variants point to the sessions.
  std::vector<SaveVariant> variants = {{&session}, {nullptr}};
  for (const Attempt& each : attempts)
    variants.push_back({&sessions.emplace_back(each.open()), Into::device, each.is_prepared});
  if (can_be_direct) variants.push_back({&drive, Into::host, true});
  const auto tell = [&] { progress.update(0, ++turns / static_cast<double>(variants.size() * kTurns + 1)); };
  std::vector<Rate> rates = measure_saves(settings, session, variants, tell);
  if (can_be_direct) {
    raise_to(rates.back(), rates[0]);
    found.of_part = paired_ratio(rates.back().turns, rates[0].turns);
    found.stages.push_back({"drive", "host memory to drive, O_DIRECT, over blocks in use", rates.back()});
  }
  found.stages.push_back({"cold", "device memory to a new file, by Penstock", rates[0]});
  found.stages.push_back({"plain_cold", "device memory to a new file, write(2) by one thread", rates[1]});
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    found.trials.push_back(attempts[i].trial);
    const Gain gain = gained(rates[2 + i], rates[0]);
    found.trials.back().cold = gain.speed;
    found.trials.back().cold_doubt = gain.doubt;
  }
}

}  // namespace

Examination examine_save(const ExamineSettings& settings) {
  check_folder(settings);
  const Session session = open_session({});
  check_gpu(session.raw(), settings.gpu);
  Examination found;
  found.saved = settings.save;
  found.survey = look_at_folder(settings.words[0], session, settings.gpu);
  found.survey.bytes = settings.save;
  find_causes(found);
  if (const std::uint64_t room = room_in(settings.words[0]); room < settings.save) {
    found.notes.push_back(fmt::format("only {} are free in {}: a checkpoint of {} does not fit", format_size(room),
                                      settings.words[0], format_size(settings.save)));
    print_error("{}\n", found.notes.back());  // Before it is measured, which takes a while.
  }
  const OtherPrograms others;
  measure(found, settings, session);
  Probe meter(found.survey, session, settings.gpu, settings.seconds);
  if (auto link = meter.measure_link(Into::host)) {
    raise_to(*link, *found.rate("cold"));
    found.stages.push_back({"link", "from the GPU into pinned host memory", *link});
  } else {
    found.notes.push_back("no GPU was seen: host memory stands in for its, and there is no link to measure");
  }
  found.others = others.share();
  const Load load{.bytes = settings.save,
                  .cpus_busy = found.rate("cold")->cpus_busy,
                  .cpus = found.survey.cpu_limit,
                  .cpus_there = static_cast<double>(found.survey.cpus),
                  .of_part = found.of_part};
  const Speeds speeds{found.speed("drive"),      0, 0, found.speed("link"), found.speed("cold"), 0,
                      found.speed("plain_cold"), 0};
  found.forecast = predict(load, speeds, found.trials, found.bounds);
  return found;
}

}  // namespace penstock::tools
