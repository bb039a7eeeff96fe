// SPDX-License-Identifier: Apache-2.0

#include "python/native/checksum.h"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <vector>

#include "checksum/crc32c.h"
#include "python/native/failure.h"
#include "python/native/memory.h"
#include "python/native/no_gil.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

// Of each `piece_bytes` of the buffer, the last perhaps of fewer; of nothing there is none.
std::vector<std::uint32_t> crc32c(nb::handle buffer, std::uint64_t piece_bytes) {
  const Memory memory(buffer, Memory::Access::read_only, nb::int_(-1));
  if (memory.is_device() && !memory.is_bare()) raise_type_error("the memory is a device's: copy it to the host first");
  if (piece_bytes == 0) raise_value_error("piece_bytes is 0: expected the bytes that one checksum covers");
  std::vector<std::uint32_t> sums;
  const NoGil no_gil;
  for (std::uint64_t at = 0; at < memory.size(); at += piece_bytes) {
    sums.push_back(core::crc32c({memory.data() + at, std::min(piece_bytes, memory.size() - at)}));
  }
  return sums;
}

}  // namespace

void bind_checksum(nb::module_& module) {
  module.def("crc32c", &crc32c, nb::arg("buffer").none(), nb::arg("piece_bytes"));
}

}  // namespace penstock::python
