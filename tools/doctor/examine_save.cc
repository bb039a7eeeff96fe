// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/machine_use.h"
#include "tools/common/progress.h"
#include "tools/common/units.h"
#include "tools/doctor/attempt.h"
#include "tools/doctor/examine.h"
#include "tools/doctor/save.h"

namespace penstock::tools {
namespace {

void check_folder(const ExamineSettings& settings) {
  struct stat facts {};
  const std::string& folder = settings.words[0];
  if (settings.words.size() != 1) throw Failure("--save takes one folder", kUsage);
  if (stat(folder.c_str(), &facts) != 0) fail_errno(folder, "look for the folder");
  if (!S_ISDIR(facts.st_mode)) throw Failure(folder + ": it is no folder; --save names where checkpoints go", kUsage);
}

std::vector<Attempt> attempts_on(const ExamineSettings& settings, bool can_be_direct) {
  std::vector<Attempt> attempts = attempts_on_settings();
  attempts.push_back({.trial = {"write into a file that was prepared, or over the last checkpoint but one",
                                fmt::format("penstock explain --fix FILE --size {} --written", settings.save)},
                      .is_prepared = true});
  if (!can_be_direct) return attempts;
  attempts.push_back({.trial = {"write past the page cache", "export PENSTOCK_DIRECT_IO=always"},
                      .settings = {.direct_io = "always"}});
  return attempts;
}

// Each way has a session of its own: what one has learnt of new files is wrong for others.
void measure(Examination& found, const ExamineSettings& settings, const Session& session) {
  Progress progress("doctor");
  unsigned turns = 0;
  const bool can_be_direct = found.survey.places[0].told.info.direct_offset_align > 0;
  const std::vector<Attempt> attempts = attempts_on(settings, can_be_direct);
  const Session drive = Attempt{.trial = {}, .without = speed_settings()}.open("always");
  std::vector<Session> sessions;
  sessions.reserve(attempts.size());  // Ways point to them.
  std::vector<SaveWay> ways = {{&session}, {nullptr}};
  for (const Attempt& each : attempts)
    ways.push_back({&sessions.emplace_back(each.open()), Into::device, each.is_prepared});
  if (can_be_direct) ways.push_back({&drive, Into::host, true});
  SaveMeter meter(settings.words[0], settings.save, session, settings.gpu, settings.seconds);
  const auto tell = [&] { progress.update(0, ++turns / static_cast<double>(ways.size() * kTurns + 1)); };
  std::vector<Rate> rates = meter.measure(ways, tell);
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
  const OtherPrograms others;
  measure(found, settings, session);
  Meter meter(found.survey, session, settings.gpu, settings.seconds);
  if (auto link = meter.measure_link(Into::host)) {
    raise_to(*link, *found.rate("cold"));
    found.stages.push_back({"link", "from the GPU into pinned host memory", *link});
  } else {
    found.notes.push_back("no GPU was seen: host memory stands in for its, and there is no link to measure");
  }
  if (const std::uint64_t room = room_in(settings.words[0]); room < settings.save) {
    found.notes.push_back(fmt::format("only {} are free in {}: a checkpoint of {} does not fit", format_size(room),
                                      settings.words[0], format_size(settings.save)));
  }
  found.others = others.share();
  const Load load{.bytes = settings.save,
                  .cpus_busy = found.rate("cold")->cpus_busy,
                  .cpus = found.survey.cpu_limit,
                  .cpus_there = static_cast<double>(found.survey.cpus),
                  .of_part = found.of_part};
  const Speeds speeds{found.speed("drive"),      0, 0, found.speed("link"), found.speed("cold"), 0,
                      found.speed("plain_cold"), 0};
  found.prognosis = predict(load, speeds, found.trials, found.bounds);
  return found;
}

}  // namespace penstock::tools
