// SPDX-License-Identifier: Apache-2.0

#include "python/native/records.h"

#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>

#include "python/native/cuda.h"
#include "python/native/failure.h"
#include "python/native/library.h"
#include "python/native/no_gil.h"
#include "python/native/report.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

constexpr std::size_t kPiecesMost = 1024;  // The most pieces in one request to the library.
constexpr std::uint64_t kRequestMost = std::uint64_t{64} << 20;

struct Range {
  std::size_t file = 0;
  std::uint64_t offset = 0, bytes = 0, place = 0;
};

std::vector<std::int64_t> integers_in(const nb::bytes& bytes) {
  if (bytes.size() % sizeof(std::int64_t) != 0) raise_value_error("expected an array of int64");
  std::vector<std::int64_t> values(bytes.size() / sizeof(std::int64_t));
  std::memcpy(values.data(), bytes.c_str(), bytes.size());
  return values;
}

std::vector<Range> ranges_of(const nb::bytes& numbers, const nb::bytes& offsets, const nb::bytes& lengths,
                             const nb::bytes& places, std::size_t files, std::uint64_t room) {
  const auto number = integers_in(numbers), offset = integers_in(offsets), length = integers_in(lengths),
             place = integers_in(places);
  if (offset.size() != number.size() || length.size() != number.size() || place.size() != number.size()) {
    raise_value_error("expected as many offsets, lengths and places as numbers of files");
  }
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < number.size(); ++i) {
    if (number[i] < 0 || static_cast<std::size_t>(number[i]) >= files) raise_value_error("there is no such file");
    if (offset[i] < 0 || length[i] < 0 || place[i] < 0) raise_value_error("a range is below 0");
    const Range range{static_cast<std::size_t>(number[i]), static_cast<std::uint64_t>(offset[i]),
                      static_cast<std::uint64_t>(length[i]), static_cast<std::uint64_t>(place[i])};
    if (range.place > room || range.bytes > room - range.place) raise_value_error("a range runs past the memory's end");
    if (range.bytes > 0) ranges.push_back(range);
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return std::pair(a.file, a.offset) < std::pair(b.file, b.offset); });
  return ranges;
}

// Adjacent or nearly adjacent ranges of one file, and their destinations.
struct Run {
  std::size_t file = 0;
  std::uint64_t offset = 0, bytes = 0;
  std::vector<iovec> pieces;

  bool takes(const Range& range, std::uint64_t gap) const {
    const std::uint64_t end = offset + bytes;
    return range.file == file && range.offset >= end && range.offset - end <= gap && pieces.size() + 2 <= kPiecesMost &&
           range.offset + range.bytes - offset <= kRequestMost;
  }
  void add(std::byte* into, std::uint64_t count) {
    if (!pieces.empty() && static_cast<std::byte*>(pieces.back().iov_base) + pieces.back().iov_len == into) {
      pieces.back().iov_len += count;
    } else {
      pieces.push_back({into, count});
    }
    bytes += count;
  }
};

std::deque<Run> runs_of(const std::vector<Range>& ranges, std::byte* memory, std::byte* hole, std::uint64_t gap) {
  std::deque<Run> runs;
  for (const Range& range : ranges) {
    if (runs.empty() || !runs.back().takes(range, gap)) runs.push_back({range.file, range.offset, 0, {}});
    Run& run = runs.back();
    if (const std::uint64_t end = run.offset + run.bytes; range.offset > end) run.add(hole, range.offset - end);
    run.add(memory + range.place, range.bytes);
  }
  return runs;
}

penstock_request request_of(const Run& run, penstock_file* file) {
  penstock_request request{};
  request.struct_size = sizeof request;
  request.op = PENSTOCK_READ;
  request.file = file;
  request.file_offset = static_cast<std::int64_t>(run.offset);
  if (run.pieces.size() == 1) {
    request.base = run.pieces[0].iov_base;
    request.size = run.pieces[0].iov_len;
  } else {
    request.pieces = run.pieces.data();
    request.piece_count = static_cast<std::uint32_t>(run.pieces.size());
  }
  return request;
}

}  // namespace

RecordReader::RecordReader(std::shared_ptr<SessionHandle> session, nb::list files) : session_(std::move(session)) {
  for (nb::handle file : files) files_.push_back(nb::cast<const File&>(file).use());
  queues_ = std::make_unique<kv::QueuePool>(library_of(session_->engine()), session_->raw());
}

RecordReader::~RecordReader() {
  if (!is_ending() && ::getpid() == process_) return;
  static_cast<void>(queues_.release());
  new std::vector<std::shared_ptr<FileHandle>>(std::move(files_));
  new std::shared_ptr<SessionHandle>(std::move(session_));
}

nb::tuple RecordReader::read(const nb::bytes& numbers, const nb::bytes& offsets, const nb::bytes& lengths,
                             const nb::bytes& places, nb::handle memory, std::uint64_t gap, nb::handle stream) {
  if (::getpid() != process_) raise(exception_of(own_status(PENSTOCK_CLOSED, "read records of the parent's")));
  const Memory into(memory, Memory::Access::writable, stream);
  if (gap > into.size()) raise_value_error("expected memory for what is between ranges");
  const std::uint64_t room = into.size() - gap;
  const std::vector<Range> ranges = ranges_of(numbers, offsets, lengths, places, files_.size(), room);
  const std::deque<Run> runs = runs_of(ranges, into.data(), into.data() + room, gap);
  std::vector<penstock_request> requests;
  for (const Run& run : runs) requests.push_back(request_of(run, files_[run.file]->raw()));
  const kv::Library library = library_of(session_->engine());
  kv::MovedBytes moved(library);
  penstock_status failure{};
  bool is_short = false;
  {
    const NoGil no_gil;
    wait_for_order(into);
    const core::Status begun = queues_->transfer_all(requests, [&](std::span<const penstock_completion> ended) {
      for (const auto& [size, reserved, i, status, report] : ended) {
        if (failure.code == 0) failure = status;
        is_short = is_short || (status.code == 0 && report.bytes != runs[i].bytes);
        moved.count(library, report);
      }
    });
    if (!begun.ok()) failure = raw(begun);
  }
  check(failure);
  if (is_short) raise_value_error("a file ended before a record did: it was cut since the index was made");
  return nb::make_tuple(by_path_name(moved), by_reason_name(moved));
}

void bind_records(nb::module_& module) {
  nb::class_<RecordReader>(module, "RecordReader")
      .def(nb::init<std::shared_ptr<SessionHandle>, nb::list>(), nb::arg("session"), nb::arg("files"))
      .def("read", &RecordReader::read, nb::arg("numbers"), nb::arg("offsets"), nb::arg("lengths"), nb::arg("places"),
           nb::arg("memory"), nb::arg("gap"), nb::arg("stream").none());
}

}  // namespace penstock::python
