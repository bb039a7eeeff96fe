// SPDX-License-Identifier: Apache-2.0

// Headers of safetensors files, and what is wanted of one, for penstock.weights: nothing of Python is made for a tensor
// until its name or the tensor itself is asked for. Tensors are handed out by DLPack, each as memory of its own that
// keeps the run alive that it was read with.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weights/safetensors.h"

namespace penstock::python {

// A parsed header. Read-only, so that threads share it.
class Header {
 public:
  explicit Header(int fd);  // Raises OSError, or ValueError for a file that is no safetensors.

  std::size_t size() const { return found_.tensors.size(); }
  std::uint64_t data_begin() const { return data_begin_; }
  const core::SafetensorsTensor& at(std::size_t index) const { return found_.tensors[index]; }

  nanobind::list names() const;
  std::optional<nanobind::dict> metadata() const;
  nanobind::tuple described(std::size_t index) const;  // (name, dtype, shape, begin, end), offsets in the file.
  std::int64_t find(const std::string& name) const;    // -1 if there is none.

 private:
  std::uint64_t data_begin_ = 0;
  core::SafetensorsHeader found_;
  mutable std::vector<std::uint32_t> by_name_;  // Sorted when a name is first asked for, with the GIL held.
};

// The name that two headers share, or None.
nanobind::object shared_name(const std::vector<const Header*>& headers);

// Neighbours in a file that one request reads, and how many they are.
struct Neighbours {
  std::uint64_t begin;
  std::uint64_t end;
  std::size_t count;
};

// ranges: sorted by their begin. A run is as large as run_bytes at most, unless one range is larger. A gap between two
// ranges is read along if it is one page at most or a small share of the run.
std::vector<Neighbours> neighbours(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges,
                                   std::uint64_t run_bytes, std::uint64_t page);

// Tensors of a file that are wanted, or rows of them, in the file's order.
class Pieces {
 public:
  // picks: [(index, start, stop)], rows `start` to `stop` of each, all if `stop` is -1. None for all tensors.
  Pieces(std::shared_ptr<const Header> header, nanobind::object picks, std::uint64_t run_bytes);

  bool is_plain() const { return is_plain_; }  // False if DLPack cannot hand some of them out.
  nanobind::list dtypes() const;               // [(index, dtype)], of each dtype the first tensor.
  nanobind::list runs() const;                 // [(begin, end, count)]
  nanobind::list names(std::size_t run) const;
  // ([capsule], [(place, dtype, shape)]) of a run that lies at `address`. device: DLPack's type and number. `owner` is
  // kept alive by each capsule, and by what is made of it. The second list has those that DLPack gives in another form:
  // with a shape as bytes that must be copied first, without one as whole numbers of the dtype's size.
  nanobind::tuple capsules(std::size_t run, std::uint64_t address, std::pair<int, int> device,
                           nanobind::object owner) const;

 private:
  struct Piece {
    std::uint32_t index;
    std::int64_t rows;  // -1 for all.
    std::uint64_t begin, end;
  };

  Piece picked(nanobind::handle pick) const;
  std::vector<std::int64_t> shape_of(const Piece& piece) const;

  std::shared_ptr<const Header> header_;
  std::vector<Piece> pieces_;
  std::vector<Neighbours> runs_;
  std::vector<std::size_t> firsts_;  // The first piece of each run.
  bool is_plain_ = true;
};

}  // namespace penstock::python
