// SPDX-License-Identifier: Apache-2.0

// Gives programs that know Penstock access to the session of cuFile's driver.
#include "penstock/cufile_session.h"

#include "capi/conversions.h"
#include "cufile/driver.h"

namespace core = penstock::core;

extern "C" {

penstock_status penstock_cufile_session(penstock_session** session) {
  constexpr const char* kStep = "find cuFile's session";
  return core::status_call(kStep, [&]() -> core::Status {
    if (session == nullptr) return core::failure(core::Code::invalid_argument, kStep);
    *session = nullptr;
    const core::CufileDriver::Use use(core::CufileDriver::instance());
    if (!use) return core::failure(core::Code::closed, kStep);
    *session = new penstock_session{use.guarded(), false};
    return core::success();
  });
}

penstock_status penstock_cufile_file(const void* cufile_handle, penstock_file** file) {
  constexpr const char* kStep = "find the file of cuFile's handle";
  return core::status_call(kStep, [&]() -> core::Status {
    if (file == nullptr) return core::failure(core::Code::invalid_argument, kStep);
    *file = nullptr;
    const core::CufileDriver::Use use(core::CufileDriver::instance());
    if (!use) return core::failure(core::Code::closed, kStep);
    const auto id = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(cufile_handle));
    if (!use->is_file(id)) return core::failure(core::Code::not_registered, kStep);
    *file = new penstock_file{use.guarded(), id, false};
    return core::success();
  });
}

}  // extern "C"
