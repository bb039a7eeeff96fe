// SPDX-License-Identifier: Apache-2.0

// Hands out memory by DLPack: many arrays in one piece of memory, which is let go with the last of them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "weights/dtype.h"

namespace penstock::python {

struct DlpackForm {
  nanobind::dlpack::dtype dtype;
  bool is_other;  // Whole numbers of the same size: not every torch takes the type itself from DLPack.
};

// None for the types with less than a byte.
std::optional<DlpackForm> dlpack_form(core::Dtype dtype);

// The owner of some memory, and the arrays within. It goes with the last array and with what made it, in whichever
// thread that is.
class Slab {
 public:
  Slab(nanobind::object owner, std::size_t arrays, std::pair<int, int> device);
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // At most as many as were announced. Each has a capsule for one consumer.
  nanobind::object capsule(std::uint64_t address, nanobind::dlpack::dtype dtype, std::vector<std::int64_t> shape);
  void let_go();

 private:
  struct Array {  // It begins as DLPack's DLManagedTensor does.
    nanobind::dlpack::dltensor tensor;
    void* slab;
    void (*deleter)(Array*);
    std::vector<std::int64_t> shape;
  };

  ~Slab() = default;
  static void drop(Array* array);
  static void drop_unused(PyObject* capsule);

  PyObject* owner_;
  const std::pair<int, int> device_;
  std::vector<Array> arrays_;
  std::atomic<std::size_t> holds_{1};
};

class SlabHold {
 public:
  explicit SlabHold(Slab* slab) : slab_(slab) {}
  ~SlabHold() { slab_->let_go(); }
  SlabHold(const SlabHold&) = delete;
  SlabHold& operator=(const SlabHold&) = delete;

 private:
  Slab* const slab_;
};

}  // namespace penstock::python
