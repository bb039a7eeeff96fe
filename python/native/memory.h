// SPDX-License-Identifier: Apache-2.0

// The memory behind a Python object: its address and size, whether it is writable, and the stream after which its bytes
// are valid. Torch tensors are read by their own attributes, which is ten times faster than DLPack; then the buffer
// protocol, __cuda_array_interface__ and DLPack are tried. Always contiguous.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace penstock::python {

// An unchecked address from the caller: penstock.Pointer.
struct Pointer {
  std::uint64_t address = 0;
  std::uint64_t nbytes = 0;
  nanobind::object owner;
};

// The stream whose work must end before the memory is used.
struct StreamOrder {
  bool is_given = false;
  std::uint64_t stream = 0;
};

// Reads a caller's `stream`, which is not None. Raises TypeError.
StreamOrder order_of(nanobind::handle stream);

class Memory {
 public:
  enum class Access : std::uint8_t { read_only, writable };

  // Raises TypeError or ValueError with a sentence. `stream`: None for the object's own stream (torch's current one),
  // -1 for none, a number, or an object with `cuda_stream` or `__cuda_stream__`. Call it with the GIL held.
  Memory(nanobind::handle object, Access access, nanobind::handle stream);
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&&) = delete;
  ~Memory();  // Call it with the GIL held.

  std::byte* data() const { return data_; }
  std::uint64_t size() const { return size_; }
  bool is_device() const { return is_device_; }
  // True for an unchecked address from the caller: it counts as is_device(), but may be host memory.
  bool is_bare() const { return is_bare_; }
  const StreamOrder& order() const { return order_; }

 private:
  bool take_buffer(nanobind::handle object, Access access);
  bool take_pointer(nanobind::handle object);
  bool take_torch(nanobind::handle object, nanobind::handle stream);
  bool take_cuda_array(nanobind::handle object, Access access, nanobind::handle stream);
  bool take_dlpack(nanobind::handle object, Access access);

  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  bool is_device_ = false;
  bool is_bare_ = false;
  StreamOrder order_;
  nanobind::object owner_;
  std::optional<Py_buffer> view_;
};

// Waits until the memory may be used. Call it without the GIL; on an error it takes the GIL and raises.
void wait_for_order(const Memory& memory);
void wait_for_order(const StreamOrder& order, const void* memory);

}  // namespace penstock::python
