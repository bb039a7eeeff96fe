// SPDX-License-Identifier: Apache-2.0

#include "tools/cp/copier.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/interrupt.h"
#include "tools/common/progress.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kHalfAlign = 4096;
constexpr std::uint64_t kCompareSize = std::uint64_t{8} << 20;

std::uint64_t half_of(std::uint64_t window, std::uint64_t size) {
  const std::uint64_t half = std::max(kHalfAlign, window / 2 / kHalfAlign * kHalfAlign);
  return std::min(half, (size / kHalfAlign + 1) * kHalfAlign);
}

// Returns the next range in which either file has data.
std::optional<Extent> next_data_of_both(int a, int b, std::uint64_t from, std::uint64_t size) {
  const auto first = next_data(a, from, size), second = next_data(b, from, size);
  if (!first || !second) return first ? first : second;
  const std::uint64_t begin = std::min(first->offset, second->offset);
  const Extent& earlier = first->offset == begin ? *first : *second;
  return earlier;
}

double part(std::uint64_t done, std::uint64_t size) {
  return size > 0 ? static_cast<double>(done) / static_cast<double>(size) : 1;
}

}  // namespace

std::optional<Extent> next_data(int fd, std::uint64_t from, std::uint64_t size) {
  if (from >= size) return std::nullopt;
  const off_t data = lseek(fd, static_cast<off_t>(from), SEEK_DATA);
  if (data < 0 && errno == ENXIO) return std::nullopt;
  if (data < 0) return Extent{from, size - from};
  const auto begin = static_cast<std::uint64_t>(data);
  if (begin >= size) return std::nullopt;
  const off_t hole = lseek(fd, data, SEEK_HOLE);
  const std::uint64_t end = hole > data ? std::min(static_cast<std::uint64_t>(hole), size) : size;
  return Extent{begin, end - begin};
}

Copier::Copier(Session& session, unsigned gpu, CopyEnd& source, CopyEnd& destination, std::uint64_t size,
               std::uint64_t window)
    : session_(session), gpu_(gpu), source_(source), destination_(destination), size_(size),
      half_(half_of(window, size)), arena_(Arena::on_device(session.raw(), gpu, 2 * half_)) {}

// A copy must have real bytes, so the path 'null', which moves none and which a configuration can name, is refused.
static void require_bytes(const penstock_report& report, const std::string& path) {
  if (report.path != PENSTOCK_PATH_NULL) return;
  throw Failure(
      fmt::format("{}: could not copy: PENSTOCK_PATHS names the path 'null', which moves no bytes; unset it", path),
      kUsage);
}

void Copier::require_done(const Status& status, const CopyEnd& end, bool is_write) const {
  if (status.is(PENSTOCK_PATH_REFUSED)) {
    if (const std::string why = refusal_text(session_, *end.file, gpu_, is_write); !why.empty()) {
      throw Failure(fmt::format("{}: could not copy: {}", end.path, why));
    }
  }
  require(status, end.path);
}

void Copier::read(CopyEnd& end, std::uint64_t half, const Extent& extent) {
  const Outcome outcome = end.file->read(arena_.data(), extent.size, static_cast<std::int64_t>(extent.offset),
                                         static_cast<std::int64_t>(half * half_));
  require_done(outcome.status, end, false);
  require_bytes(outcome.report, end.path);
  if (outcome.report.bytes != extent.size) {
    throw Failure(fmt::format("{}: it became shorter while it was read: it ends at byte {} instead of {}", end.path,
                              extent.offset + outcome.report.bytes, size_));
  }
  end.tally.add(outcome.report, 0);
}

void Copier::write(std::uint64_t half, const Extent& extent) {
  const Outcome outcome = destination_.file->write(arena_.data(), extent.size, static_cast<std::int64_t>(extent.offset),
                                                   static_cast<std::int64_t>(half * half_));
  require_done(outcome.status, destination_, true);
  require_bytes(outcome.report, destination_.path);
  if (outcome.report.bytes != extent.size) {
    throw Failure(fmt::format("{}: only {} of {} bytes were written at offset {}", destination_.path,
                              outcome.report.bytes, extent.size, extent.offset));
  }
  destination_.tally.add(outcome.report, 0);
}

std::future<void> Copier::start_writing(std::uint64_t half, const Extent& extent) try {
  return std::async(std::launch::async, [this, half, extent] { write(half, extent); });
} catch (const std::system_error&) {
  write(half, extent);
  return {};
}

std::uint64_t Copier::copy() {
  Progress progress("copy");
  std::future<void> writing;
  std::uint64_t half = 0, position = 0, data_bytes = 0;
  while (const auto data = next_data(source_.fd, position, size_)) {
    for (position = data->offset; position < data->offset + data->size;) {
      const Extent extent{position, std::min(half_, data->offset + data->size - position)};
      read(source_, half, extent);
      if (writing.valid()) writing.get();
      throw_if_interrupted();
      writing = start_writing(half, extent);
      half ^= 1;
      position += extent.size;
      data_bytes += extent.size;
      progress.update(data_bytes, part(position, size_));
    }
  }
  if (writing.valid()) writing.get();
  return data_bytes;
}

void Copier::compare() {
  Progress progress("verify");
  std::uint64_t position = 0, compared = 0;
  while (const auto data = next_data_of_both(source_.fd, destination_.fd, position, size_)) {
    const Extent extent{data->offset, std::min(half_, data->size)};
    compare_window(extent);
    throw_if_interrupted();
    position = extent.offset + extent.size;
    compared += extent.size;
    progress.update(compared, part(position, size_));
  }
}

void Copier::compare_window(const Extent& extent) {
  read(source_, 0, extent);
  read(destination_, 1, extent);
  std::vector<std::byte> wanted(std::min(kCompareSize, extent.size)), found(wanted.size());
  for (std::uint64_t at = 0; at < extent.size; at += wanted.size()) {
    const std::size_t size = std::min<std::uint64_t>(wanted.size(), extent.size - at);
    arena_.download(at, std::span(wanted).first(size));
    arena_.download(half_ + at, std::span(found).first(size));
    const auto end = wanted.begin() + static_cast<std::ptrdiff_t>(size);
    const auto difference = std::mismatch(wanted.begin(), end, found.begin());
    if (difference.first == end) continue;
    throw Failure(fmt::format("verify: {} differs from {} at byte {}; it was not put in place", destination_.path,
                              source_.path,
                              extent.offset + at + static_cast<std::uint64_t>(difference.first - wanted.begin())));
  }
}

}  // namespace penstock::tools
