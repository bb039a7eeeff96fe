// SPDX-License-Identifier: Apache-2.0

#include "tools/doctor/save.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>

#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/interrupt.h"
#include "tools/common/new_file.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kWriteSize = std::uint64_t{16} << 20;  // Of write(2).
constexpr std::uint64_t kTurnMost = std::uint64_t{512} << 20;
constexpr std::uint64_t kRoomPart = 8;  // A turn takes an eighth of what is free at most, and two files are there.

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

void write_all(const NewFile& file, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(file.fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_errno(file.path(), "write the file");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

// One way, and what outlasts its turns.
class Writer {
 public:
  Writer(const SaveWay& way, std::string name, Arena arena)
      : way_(way), name_(std::move(name)), arena_(std::move(arena)), bounce_(kWriteSize, std::byte{1}) {
    for (std::uint64_t at = 0; at < arena_.size(); at += kWriteSize)
      arena_.upload(at, std::span(bounce_).first(std::min(kWriteSize, arena_.size() - at)));
  }

  // So that writes up to there find blocks that were written before, where the way wants that.
  void prepare(std::uint64_t size) {
    if (!way_.is_prepared) return;
    prepared_ = std::make_unique<NewFile>(name_, 0);
    const std::vector<std::byte> zeros(kWriteSize);
    for (std::uint64_t at = 0; at < size; at += kWriteSize) {
      throw_if_interrupted();
      write_all(*prepared_, zeros, at);
    }
    if (fsync(prepared_->fd()) != 0) fail_errno(name_, "flush the file");
    posix_fadvise(prepared_->fd(), 0, 0, POSIX_FADV_DONTNEED);
  }

  // Seconds for so many bytes, the flush included; what is prepared for them is not.
  double write(std::uint64_t size, Tally& tally) {
    std::unique_ptr<NewFile> fresh;
    if (!way_.is_prepared) fresh = std::make_unique<NewFile>(name_, 0);
    const NewFile& target = way_.is_prepared ? *prepared_ : *fresh;
    const Clock::time_point start = Clock::now();
    if (way_.session == nullptr) write_by_itself(target, size);
    else write_by_library(target, size, tally);
    return seconds_since(start);
  }

 private:
  void write_by_library(const NewFile& target, std::uint64_t size, Tally& tally) {
    const File file = require(way_.session->file(target.fd()), name_);
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
      write_all(target, bytes, at);
    }
    if (fsync(target.fd()) != 0) fail_errno(name_, "flush the file");
  }

  const SaveWay way_;
  const std::string name_;
  Arena arena_;
  std::vector<std::byte> bounce_;
  std::unique_ptr<NewFile> prepared_;
};

}  // namespace

SaveMeter::SaveMeter(std::string folder, std::uint64_t size, const Session& session, unsigned gpu, double seconds)
    : folder_(std::move(folder)), size_(size), session_(session), gpu_(gpu), seconds_(seconds) {
  const std::uint64_t least = kPieceSize * kRoomPart;
  if (const std::uint64_t room = room_in(folder_); room < least) {
    throw Failure(fmt::format("{}: {} are free, and to measure a save takes {}; free some, or name another folder",
                              folder_, format_size(room), format_size(least)));
  }
}

std::vector<Rate> SaveMeter::measure(const std::vector<SaveWay>& ways, const std::function<void()>& told) {
  std::uint64_t most = std::min({size_, kTurnMost, room_in(folder_) / kRoomPart});
  std::vector<std::unique_ptr<Writer>> writers;
  std::vector<Rate> rates(ways.size());
  std::vector<std::uint64_t> sizes;
  for (const SaveWay& way : ways) {
    writers.push_back(
        std::make_unique<Writer>(way, folder_ + "/penstock-doctor", memory_of(way.session, session_, way.from, gpu_)));
    // Warms up, and tells how much fits into a turn.
    Tally ignored;
    writers.back()->prepare(most);
    const std::uint64_t first = std::min(most, kPieceSize);
    const double seconds = writers.back()->write(first, ignored);
    const double fits =
        static_cast<double>(first) * seconds_each(seconds_, ways.size()) / kTurns / std::max(seconds, 1e-6);
    sizes.push_back(std::clamp(static_cast<std::uint64_t>(fits) / kPieceSize * kPieceSize, first, most));
    most = std::min(most, 2 * sizes[0]);  // A slow drive is not to be filled with zeros for long.
  }
  for (unsigned turn = 0; turn < kTurns; ++turn) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
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

}  // namespace penstock::tools
