// SPDX-License-Identifier: Apache-2.0

#include "python/native/memory.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <string>
#include <utility>

#include "python/native/cuda.h"
#include "python/native/device_memory.h"
#include "python/native/failure.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

constexpr const char* kNotContiguous =
    "the memory is not contiguous: pass tensor.contiguous() or a copy, since one request moves one range of memory";
constexpr const char* kReadOnly = "the memory is read-only, and a read from a file writes to it: pass a writable one";

// The names of attributes that every call reads from torch's tensors: creating a name takes as long as reading it.
struct TorchNames {
  PyObject* data_ptr = PyUnicode_InternFromString("data_ptr");
  PyObject* is_conj = PyUnicode_InternFromString("is_conj");
  PyObject* is_contiguous = PyUnicode_InternFromString("is_contiguous");
  PyObject* is_cpu = PyUnicode_InternFromString("is_cpu");
  PyObject* is_cuda = PyUnicode_InternFromString("is_cuda");
  PyObject* is_neg = PyUnicode_InternFromString("is_neg");
  PyObject* nbytes = PyUnicode_InternFromString("nbytes");
};

const TorchNames& torch_names() {
  static const TorchNames names;
  return names;
}

// The attribute, or nothing if it is missing; other errors are raised.
nb::object found_or_missing(PyObject* found) {
  if (found != nullptr) return nb::steal(found);
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw nb::python_error();
  PyErr_Clear();
  return {};
}

nb::object attribute(nb::handle object, PyObject* name) {
  return found_or_missing(PyObject_GetAttr(object.ptr(), name));
}

nb::object attribute(nb::handle object, const char* name) {
  return found_or_missing(PyObject_GetAttrString(object.ptr(), name));
}

// Returns the result of a method without arguments.
nb::object call(nb::handle object, PyObject* name) {
  PyObject* const self = object.ptr();
  return found_or_missing(PyObject_VectorcallMethod(name, &self, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

std::uint64_t number_of(nb::handle object) {
  const std::uint64_t number = PyLong_AsUnsignedLongLong(object.ptr());
  if (number == static_cast<std::uint64_t>(-1) && PyErr_Occurred() != nullptr) throw nb::python_error();
  return number;
}

bool is_true(nb::handle object) {
  const int truth = PyObject_IsTrue(object.ptr());
  if (truth < 0) throw nb::python_error();
  return truth != 0;
}

// The number of bytes of a shape, with items of this size.
std::uint64_t bytes_of(nb::handle shape, std::uint64_t item) {
  std::uint64_t bytes = item;
  for (nb::handle extent : nb::iter(shape)) {
    if (__builtin_mul_overflow(bytes, number_of(extent), &bytes)) raise_value_error("the shape has too many bytes");
  }
  return bytes;
}

bool is_row_major(nb::handle shape, nb::handle strides, std::uint64_t item) {
  if (strides.is_none()) return true;
  std::uint64_t expected = item;
  for (Py_ssize_t i = PyObject_Length(shape.ptr()) - 1; i >= 0; --i) {
    const std::uint64_t extent = number_of(nb::object(shape[i]));
    const long long stride = PyLong_AsLongLong(nb::object(strides[i]).ptr());
    if (stride == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (extent > 1 && stride != static_cast<long long>(expected)) return false;
    expected *= extent;
  }
  return true;
}

}  // namespace

StreamOrder order_of(nb::handle stream) {
  if (PyLong_Check(stream.ptr())) {
    const long long number = PyLong_AsLongLong(stream.ptr());
    if (number == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (number == -1) return {};
    return {true, static_cast<std::uint64_t>(number)};
  }
  if (nb::object number = attribute(stream, "cuda_stream")) return {true, number_of(number)};
  if (nb::object protocol = attribute(stream, "__cuda_stream__")) {
    const nb::object pair = protocol();  // (version, number)
    return {true, number_of(nb::object(pair[1]))};
  }
  raise_type_error("stream is neither None, -1, a number nor an object with cuda_stream or __cuda_stream__");
}

Memory::Memory(nb::handle object, Access access, nb::handle stream) : owner_(nb::borrow(object)) {
  if (!take_buffer(object, access) && !take_pointer(object) && !take_torch(object, stream) &&
      !take_cuda_array(object, access, stream) && !take_dlpack(object, access)) {
    const auto type = nb::cast<std::string>(object.type().attr("__name__"));
    raise_type_error((type +
                      " is no memory: pass a tensor, an array, anything with DLPack, __cuda_array_interface__ or "
                      "the buffer protocol, or penstock.Pointer(address, nbytes)")
                         .c_str());
  }
  if (is_device_ && !stream.is_none()) order_ = order_of(stream);
  if (size_ > 0 || data_ != nullptr) return;
  static std::byte nothing;  // The address for an empty tensor, which has none; the library needs one.
  data_ = &nothing;
  is_device_ = false;
  order_ = {};
}

Memory::Memory(Memory&& other) noexcept
    : data_(other.data_), size_(other.size_), is_device_(other.is_device_), is_bare_(other.is_bare_),
      order_(other.order_), owner_(std::move(other.owner_)), view_(std::exchange(other.view_, std::nullopt)) {}

Memory::~Memory() {
  if (view_) PyBuffer_Release(&*view_);
}

bool Memory::take_buffer(nb::handle object, Access access) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
  Py_buffer view;
  const bool writable = access == Access::writable;
  const int flags = writable ? PyBUF_WRITABLE : PyBUF_SIMPLE;
  // Some dtypes have no format; dtypes that hold Python's objects do.
  bool has_view = PyObject_GetBuffer(object.ptr(), &view, flags | PyBUF_FORMAT) == 0;
  if (!has_view) {
    PyErr_Clear();
    has_view = PyObject_GetBuffer(object.ptr(), &view, flags) == 0;
  }
  if (!has_view) {
    PyErr_Clear();
    if (writable && PyObject_GetBuffer(object.ptr(), &view, PyBUF_SIMPLE) == 0) {
      PyBuffer_Release(&view);
      raise_value_error(kReadOnly);
    }
    PyErr_Clear();
    raise_value_error(kNotContiguous);
  }
  if (view.format != nullptr && std::strchr(view.format, 'O') != nullptr) {
    PyBuffer_Release(&view);
    raise_type_error("the array holds references to Python objects, which are no bytes of a file");
  }
  view_ = view;
  data_ = static_cast<std::byte*>(view.buf);
  size_ = static_cast<std::uint64_t>(view.len);
  return true;
}

bool Memory::take_pointer(nb::handle object) {
  if (const Pointer* pointer = nullptr; nb::try_cast<const Pointer*>(object, pointer) && pointer != nullptr) {
    data_ = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(pointer->address));
    size_ = pointer->nbytes;
    is_device_ = is_bare_ =
        // It may be device memory: only the driver knows, and a query costs more than a needless wait for a stream.
        true;
    return true;
  }
  if (const DeviceMemory* memory = nullptr; nb::try_cast<const DeviceMemory*>(object, memory) && memory != nullptr) {
    if (memory->is_closed()) raise(exception_of(own_status(PENSTOCK_CLOSED, "use device memory of a closed session")));
    data_ = static_cast<std::byte*>(memory->data());
    size_ = memory->size();
    is_device_ = true;
    return true;
  }
  return false;
}

bool Memory::take_torch(nb::handle object, nb::handle stream) {
  const TorchNames& names = torch_names();
  const nb::object is_cuda = attribute(object, names.is_cuda);
  if (!is_cuda) return false;
  const nb::object is_contiguous = call(object, names.is_contiguous), data_ptr = call(object, names.data_ptr);
  const nb::object is_conj = call(object, names.is_conj), is_neg = call(object, names.is_neg);
  if (!is_contiguous || !data_ptr || !is_conj || !is_neg) return false;
  if (!is_true(is_contiguous)) raise_value_error(kNotContiguous);
  if (is_true(is_conj) || is_true(is_neg)) {
    raise_value_error(
        "the tensor is conjugated or negated when it is looked at, which its bytes are not: pass "
        "tensor.resolve_conj().resolve_neg()");
  }
  const nb::object nbytes = attribute(object, names.nbytes);
  if (!nbytes) {
    raise_type_error(
        "the tensor has no nbytes, as those of torch 2.1 and later have: install that, or pass "
        "tensor.numpy()");
  }
  data_ = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(number_of(data_ptr)));
  size_ = number_of(nbytes);
  is_device_ = is_true(is_cuda);
  if (!is_device_ && !is_true(attribute(object, names.is_cpu))) {
    raise_type_error("the tensor is neither in the memory of the CPU nor in that of a CUDA device");
  }
  if (is_device_ && stream.is_none()) {
    const nb::module_ cuda = nb::module_::import_("torch.cuda");
    order_ = {true, number_of(cuda.attr("current_stream")(object.attr("device")).attr("cuda_stream"))};
  }
  return true;
}

bool Memory::take_cuda_array(nb::handle object, Access access, nb::handle stream) {
  const nb::object found = attribute(object, "__cuda_array_interface__");
  if (!found) return false;
  const auto interface = nb::cast<nb::dict>(found);
  const nb::object data = interface["data"], shape = interface["shape"];
  const auto typestr = nb::cast<std::string>(interface["typestr"]);
  if (typestr.size() < 3) raise_value_error("__cuda_array_interface__ has a typestr without a size");
  const std::uint64_t item = std::stoull(typestr.substr(2));
  if (access == Access::writable && is_true(nb::object(data[1]))) raise_value_error(kReadOnly);
  const nb::object strides = interface.contains("strides") ? nb::object(interface["strides"]) : nb::none();
  if (!is_row_major(shape, strides, item)) raise_value_error(kNotContiguous);
  data_ = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(number_of(nb::object(data[0]))));
  size_ = bytes_of(shape, item);
  is_device_ = true;
  const nb::object said = interface.contains("stream") ? nb::object(interface["stream"]) : nb::none();
  if (stream.is_none() && !said.is_none()) order_ = {true, number_of(said)};
  return true;
}

// A DLPack producer that gets no stream orders its bytes for the default one.
bool Memory::take_dlpack(nb::handle object, Access access) {
  if (!attribute(object, "__dlpack__")) return false;
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast<nb::ndarray<nb::ro>>(object, array, false)) return false;
  if (access == Access::writable) {
    nb::ndarray<> writable;
    if (!nb::try_cast<nb::ndarray<>>(object, writable, false)) raise_value_error(kReadOnly);
  }
  std::int64_t expected = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) > 1 && array.stride(i) != expected) raise_value_error(kNotContiguous);
    expected *= static_cast<std::int64_t>(array.shape(i));
  }
  data_ = static_cast<std::byte*>(const_cast<void*>(array.data()));
  size_ = array.nbytes();
  is_device_ = array.device_type() == nb::device::cuda::value || array.device_type() == nb::device::cuda_managed::value;
  if (!is_device_ && array.device_type() != nb::device::cpu::value &&
      array.device_type() != nb::device::cuda_host::value) {
    raise_type_error("the array is neither in the memory of the CPU nor in that of a CUDA device");
  }
  if (is_device_) order_ = {true, 0};
  owner_ = nb::make_tuple(owner_, nb::cast(array));
  return true;
}

void wait_for_order(const Memory& memory) { wait_for_order(memory.order(), memory.data()); }

void wait_for_order(const StreamOrder& order, const void* memory) {
  if (!order.is_given) return;
  const int result = wait_for_stream(order.stream, memory);
  if (result == 0) return;
  const nb::gil_scoped_acquire gil;
  raise(exception_of({PENSTOCK_DOMAIN_DRIVER, 0, result, "wait for the stream before a request"}));
}

}  // namespace penstock::python
