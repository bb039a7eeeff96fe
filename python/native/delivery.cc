// SPDX-License-Identifier: Apache-2.0

#include "python/native/delivery.h"

#include <cstring>

namespace penstock::python {

penstock_status deliver(const SessionHandle& session, const Memory& memory, void* into, const std::byte* from,
                        std::uint64_t bytes) {
  if (memory.is_device()) {
    const penstock_status status = session.engine().device_upload(session.raw(), into, from, bytes);
    const bool is_host =
        memory.is_bare() && status.domain == PENSTOCK_DOMAIN_PENSTOCK && status.code == PENSTOCK_BAD_POINTER;
    if (!is_host) return status;
  }
  std::memcpy(into, from, bytes);
  return {};
}

}  // namespace penstock::python
