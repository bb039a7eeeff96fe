// SPDX-License-Identifier: Apache-2.0

#include "python/native/device_memory.h"

#include "python/native/engine.h"
#include "python/native/failure.h"
#include "python/native/memory.h"
#include "python/native/no_gil.h"

namespace nb = nanobind;

namespace penstock::python {

DeviceMemory::DeviceMemory(std::shared_ptr<SessionHandle> session, std::uint32_t device, std::uint64_t size)
    : session_(std::move(session)), device_(device), size_(size) {
  check(engine().device_alloc(session_->raw(), device, size, &data_));
}

DeviceMemory::~DeviceMemory() {
  if (is_ending()) return;
  const NoGil no_gil;
  // Fails if the session is closed, which is harmless.
  (void)session_->engine().device_free(session_->raw(), device_, data_);
}

void DeviceMemory::check_range(std::uint64_t offset, std::uint64_t size) const {
  if (offset > size_ || size > size_ - offset) raise_value_error("the range runs past the end of the device memory");
}

void DeviceMemory::upload(nb::handle source, std::uint64_t offset) {
  const Memory memory(source, Memory::Access::read_only, nb::int_(-1));
  check_range(offset, memory.size());
  penstock_status status{};
  {
    const NoGil no_gil;
    status = session_->engine().device_upload(session_->raw(), static_cast<std::byte*>(data_) + offset, memory.data(),
                                              memory.size());
  }
  check(status);
}

nb::bytes DeviceMemory::download(std::uint64_t offset, std::int64_t size) {
  const std::uint64_t wanted = size < 0 ? size_ - std::min(offset, size_) : static_cast<std::uint64_t>(size);
  check_range(offset, wanted);
  PyObject* const made = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(wanted));
  if (made == nullptr) throw nb::python_error();
  const nb::bytes bytes = nb::steal<nb::bytes>(made);
  char* const place = PyBytes_AsString(made);
  penstock_status status{};
  {
    const NoGil no_gil;
    status =
        session_->engine().device_download(session_->raw(), place, static_cast<std::byte*>(data_) + offset, wanted);
  }
  check(status);
  return bytes;
}

}  // namespace penstock::python
