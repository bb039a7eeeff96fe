// SPDX-License-Identifier: Apache-2.0

#include "python/native/pieces.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>

#include "python/native/dlpack.h"
#include "python/native/failure.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

using core::Dtype;
using core::SafetensorsTensor;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kGapBytes = 64 << 10;  // The most that is read along,
constexpr std::uint64_t kGapShare = 32;        // and the part of what was wanted before it.

nb::str text(std::string_view given) { return nb::str(given.data(), given.size()); }

// True if 64 bits count the elements, as arrays do, also if one of the dimensions is 0.
bool is_countable(const std::vector<std::uint64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t size : shape) {
    if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return false;
    if (__builtin_mul_overflow(count, std::max<std::uint64_t>(size, 1), &count)) return false;
  }
  return count <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / 16;
}

bool is_near(const Neighbours& run, std::uint64_t begin, std::uint64_t page) {
  const std::uint64_t gap = begin > run.end ? begin - run.end : 0;
  return gap <= page || gap <= std::min(kGapBytes, (run.end - run.begin) / kGapShare);
}

}  // namespace

nb::list Header::names() const {
  nb::list all;
  for (const SafetensorsTensor& tensor : found_.tensors) all.append(text(tensor.name));
  return all;
}

std::optional<nb::dict> Header::metadata() const {
  if (found_.metadata.empty() && !found_.has_empty_metadata) return std::nullopt;
  nb::dict all;
  for (const auto& [key, value] : found_.metadata) all[text(key)] = text(value);
  return all;
}

nb::tuple Header::described(std::size_t index) const {
  if (index >= size()) raise_value_error("the header has no such tensor");
  const SafetensorsTensor& tensor = at(index);
  nb::list shape;
  for (const std::uint64_t extent : tensor.shape) shape.append(extent);
  return nb::make_tuple(text(tensor.name), text(core::name_of(tensor.dtype)), nb::tuple(shape),
                        data_begin_ + tensor.begin, data_begin_ + tensor.end);
}

std::int64_t Header::find(const std::string& name) const {
  if (by_name_.size() != size()) {
    by_name_.resize(size());
    std::iota(by_name_.begin(), by_name_.end(), 0);
    std::sort(by_name_.begin(), by_name_.end(), [&](auto one, auto other) { return at(one).name < at(other).name; });
  }
  const auto place =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](std::uint32_t index, const std::string& wanted) { return at(index).name < wanted; });
  return place != by_name_.end() && at(*place).name == name ? static_cast<std::int64_t>(*place) : -1;
}

nb::object shared_name(const std::vector<const Header*>& headers) {
  std::vector<std::string_view> all;
  for (const Header* header : headers) {
    for (std::size_t i = 0; i < header->size(); ++i) all.emplace_back(header->at(i).name);
  }
  const std::optional<std::string_view> twice = core::repeated_name(std::move(all));
  return twice ? nb::object(text(*twice)) : nb::none();
}

std::vector<Neighbours> neighbours(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges,
                                   std::uint64_t run_bytes, std::uint64_t page) {
  std::vector<Neighbours> runs;
  for (const auto& [begin, end] : ranges) {
    if (!runs.empty() && is_near(runs.back(), begin, page) &&
        (end <= runs.back().end || end - runs.back().begin <= run_bytes)) {
      runs.back().end = std::max(runs.back().end, end);
      ++runs.back().count;
    } else {
      runs.push_back({begin, end, 1});
    }
  }
  return runs;
}

Pieces::Pieces(std::shared_ptr<const Header> header, nb::object picks, std::uint64_t run_bytes)
    : header_(std::move(header)) {
  const std::uint64_t data = header_->data_begin();
  if (picks.is_none()) {
    for (std::uint32_t i = 0; i < header_->size(); ++i) {
      pieces_.push_back({i, -1, data + header_->at(i).begin, data + header_->at(i).end});
    }
  } else {
    for (nb::handle pick : picks) pieces_.push_back(picked(pick));
    std::sort(pieces_.begin(), pieces_.end(), [](const Piece& one, const Piece& other) {
      return std::pair(one.begin, one.index) < std::pair(other.begin, other.index);
    });
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  ranges.reserve(pieces_.size());
  for (const Piece& piece : pieces_) {
    const SafetensorsTensor& tensor = header_->at(piece.index);
    is_plain_ = is_plain_ && dlpack_form(tensor.dtype).has_value() && is_countable(tensor.shape);
    ranges.emplace_back(piece.begin, piece.end);
  }
  runs_ = neighbours(ranges, run_bytes, kPage);
  std::size_t first = 0;
  for (const Neighbours& run : runs_) {
    firsts_.push_back(first);
    first += run.count;
  }
}

Pieces::Piece Pieces::picked(nb::handle pick) const {
  const auto index = nb::cast<std::uint32_t>(pick[0]);
  const auto start = nb::cast<std::int64_t>(pick[1]), stop = nb::cast<std::int64_t>(pick[2]);
  if (index >= header_->size()) raise_value_error("the header has no such tensor");
  const SafetensorsTensor& tensor = header_->at(index);
  const std::uint64_t begin = header_->data_begin() + tensor.begin;
  if (stop < 0) return {index, -1, begin, header_->data_begin() + tensor.end};
  const std::uint64_t count = tensor.shape.empty() ? 0 : tensor.shape[0];
  if (start < 0 || start > stop || static_cast<std::uint64_t>(stop) > count) raise_value_error("no such rows");
  const std::uint64_t row = count == 0 ? 0 : (tensor.end - tensor.begin) / count;
  if (row * count != tensor.end - tensor.begin) raise_value_error("a row is no whole number of bytes");
  return {index, stop - start, begin + row * static_cast<std::uint64_t>(start),
          begin + row * static_cast<std::uint64_t>(stop)};
}

std::vector<std::int64_t> Pieces::shape_of(const Piece& piece) const {
  const std::vector<std::uint64_t>& whole = header_->at(piece.index).shape;
  std::vector<std::int64_t> shape(whole.begin(), whole.end());
  if (piece.rows >= 0) shape[0] = piece.rows;
  return shape;
}

nb::list Pieces::dtypes() const {
  std::array<bool, core::kDtypeCount> seen{};
  nb::list all;
  for (const Piece& piece : pieces_) {
    const Dtype dtype = header_->at(piece.index).dtype;
    bool& is_known = seen.at(static_cast<std::size_t>(dtype));
    if (!is_known) all.append(nb::make_tuple(piece.index, text(core::name_of(dtype))));
    is_known = true;
  }
  return all;
}

nb::list Pieces::runs() const {
  nb::list all;
  for (const Neighbours& run : runs_) all.append(nb::make_tuple(run.begin, run.end, run.count));
  return all;
}

nb::list Pieces::names(std::size_t run) const {
  if (run >= runs_.size()) raise_value_error("there is no such run");
  nb::list all;
  for (std::size_t i = 0; i < runs_[run].count; ++i)
    all.append(text(header_->at(pieces_[firsts_[run] + i].index).name));
  return all;
}

nb::tuple Pieces::capsules(std::size_t run, std::uint64_t address, std::pair<int, int> device, nb::object owner) const {
  if (run >= runs_.size() || !is_plain_) raise_value_error("there is no such run");
  nb::list made, others;
  Slab* const slab = new Slab(std::move(owner), runs_[run].count, device);
  const SlabHold hold(slab);
  for (std::size_t i = 0; i < runs_[run].count; ++i) {
    const Piece& piece = pieces_[firsts_[run] + i];
    const Dtype dtype = header_->at(piece.index).dtype;
    const DlpackForm form = *dlpack_form(dtype);
    const std::uint64_t place = address + (piece.begin - runs_[run].begin);
    const std::uint64_t bytes = piece.end - piece.begin;
    std::vector<std::int64_t> shape = shape_of(piece);
    const bool is_askew = bytes > 0 && place % (core::bits_of(dtype) / 8) != 0;
    if (is_askew || form.is_other) {
      nb::object wanted = nb::none();
      if (is_askew) {
        nb::list sizes;
        for (const std::int64_t size : shape) sizes.append(size);
        wanted = nb::tuple(sizes);
      }
      others.append(nb::make_tuple(i, text(core::name_of(dtype)), wanted));
    }
    if (is_askew) shape = {static_cast<std::int64_t>(bytes)};
    made.append(slab->capsule(place, is_askew ? dlpack_form(Dtype::u8)->dtype : form.dtype, std::move(shape)));
  }
  return nb::make_tuple(made, others);
}

}  // namespace penstock::python
