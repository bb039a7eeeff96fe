// SPDX-License-Identifier: Apache-2.0

#include "python/native/dlpack.h"

#include "python/native/no_gil.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

using core::Dtype;

constexpr std::uint8_t kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kComplex = 5;  // DLPack's DLDataTypeCode.

DlpackForm form(std::uint8_t code, std::uint32_t bits, bool is_other = false) {
  return {{code, static_cast<std::uint8_t>(bits), 1}, is_other};
}

}  // namespace

std::optional<DlpackForm> dlpack_form(Dtype dtype) {
  const std::uint32_t bits = core::bits_of(dtype);
  if (bits % 8 != 0) return std::nullopt;
  switch (dtype) {
    case Dtype::u8: return form(kUint, bits);
    case Dtype::i8:
    case Dtype::i16:
    case Dtype::i32:
    case Dtype::i64: return form(kInt, bits);
    case Dtype::f16:
    case Dtype::f32:
    case Dtype::f64: return form(kFloat, bits);
    case Dtype::bf16: return form(kBfloat, bits);
    case Dtype::c64: return form(kComplex, bits);
    default: return form(bits == 8 ? kUint : kInt, bits, true);
  }
}

Slab::Slab(nb::object owner, std::size_t arrays, std::pair<int, int> device)
    : owner_(owner.release().ptr()), device_(device) {
  arrays_.reserve(arrays);  // Consumers keep their addresses.
}

nb::object Slab::capsule(std::uint64_t address, nb::dlpack::dtype dtype, std::vector<std::int64_t> shape) {
  Array& array = arrays_.emplace_back();
  array.shape = std::move(shape);
  array.tensor.data = reinterpret_cast<void*>(address);
  array.tensor.device = {device_.first, device_.second};
  array.tensor.ndim = static_cast<std::int32_t>(array.shape.size());
  array.tensor.dtype = dtype;
  array.tensor.shape = array.shape.data();
  array.tensor.strides = nullptr;  // Row by row.
  array.tensor.byte_offset = 0;
  array.slab = this;
  array.deleter = drop;
  PyObject* const made = PyCapsule_New(&array, "dltensor", drop_unused);
  if (made == nullptr) throw nb::python_error();
  ++holds_;
  return nb::steal(made);
}

void Slab::drop(Array* array) { static_cast<Slab*>(array->slab)->let_go(); }

// Consumers rename the capsules of which they take the memory.
void Slab::drop_unused(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;
  drop(static_cast<Array*>(PyCapsule_GetPointer(capsule, "dltensor")));
}

void Slab::let_go() {
  if (--holds_ > 0) return;
  // Torch lets go of memory with or without the GIL. At the process' end the memory stays.
  if (may_take_gil()) {
    const PyGILState_STATE state = PyGILState_Ensure();
    took_gil();
    Py_DECREF(owner_);
    PyGILState_Release(state);
  }
  delete this;
}

}  // namespace penstock::python
