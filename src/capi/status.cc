// SPDX-License-Identifier: Apache-2.0

// The C API's names: versions, statuses, paths, reasons and kinds of devices.
#include "capi/conversions.h"
#include "device/providers.h"
#include "path/reasons.h"

namespace core = penstock::core;

// penstock.h is installed unchanged, so it repeats the version; it must match the project's.
static_assert(PENSTOCK_VERSION_MAJOR == PENSTOCK_PROJECT_MAJOR && PENSTOCK_VERSION_MINOR == PENSTOCK_PROJECT_MINOR &&
                  PENSTOCK_VERSION_PATCH == PENSTOCK_PROJECT_PATCH,
              "include/penstock/penstock.h has another version than project() in CMakeLists.txt: set it there, too");

#define TEXT_OF(number) #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

namespace {

core::Status to_core(const penstock_status& status) {
  return {status.step != nullptr ? status.step : "", status.code, static_cast<core::Domain>(status.domain),
          static_cast<std::uint8_t>(status.driver)};
}

bool is_path(std::int32_t path) { return path >= 0 && path < static_cast<int>(core::kPathCount); }
bool is_reason(std::int32_t reason) { return reason >= 0 && reason < static_cast<int>(core::kReasonCount); }

}  // namespace

extern "C" {

const char* penstock_version(void) {
  return VERSION_TEXT(PENSTOCK_VERSION_MAJOR, PENSTOCK_VERSION_MINOR, PENSTOCK_VERSION_PATCH);
}

size_t penstock_status_message(penstock_status status, char* text, size_t capacity) {
  const auto tell = [&] {
    const core::Status core_status = to_core(status);
    const std::string message = core::describe(core_status, core::driver_of(core_status));
    (void)core::copy_text(message, text, capacity);
    return message.size();
  };
  return core::boundary(tell, [&] { return core::copy_text("out of memory", text, capacity); });
}

const char* penstock_status_driver(penstock_status status) { return core::driver_of(to_core(status)); }

uint32_t penstock_path_count(void) { return core::kPathCount; }

const char* penstock_path_name(int32_t path) {
  return is_path(path) ? core::path_name(static_cast<core::PathId>(path)) : "unknown";
}

penstock_status penstock_path_by_name(const char* name, int32_t* path) {
  const std::optional<core::PathId> found = name != nullptr ? core::path_named(name) : std::nullopt;
  if (!found || path == nullptr) return core::to_public(core::failure(core::Code::invalid_argument, "find the path"));
  *path = static_cast<int32_t>(*found);
  return core::to_public(core::success());
}

uint32_t penstock_reason_count(void) { return core::kReasonCount; }

const char* penstock_reason_name(int32_t reason) {
  return is_reason(reason) ? core::reason_name(static_cast<core::Reason>(reason)) : "unknown";
}

const char* penstock_reason_sentence(int32_t reason) {
  return is_reason(reason) ? core::reason_sentence(static_cast<core::Reason>(reason)) : "";
}

const char* penstock_reason_remedy(int32_t reason) {
  return is_reason(reason) ? core::reason_remedy(static_cast<core::Reason>(reason)) : "";
}

uint32_t penstock_device_kind_count(void) { return static_cast<uint32_t>(core::providers().size()); }

const char* penstock_device_kind_name(uint32_t number) {
  return number < core::providers().size() ? core::providers()[number].name : nullptr;
}

const char* penstock_device_kind_sentence(uint32_t number) {
  return number < core::providers().size() ? core::providers()[number].what : nullptr;
}

}  // extern "C"

static_assert(PENSTOCK_PATH_NULL == static_cast<int>(core::PathId::null));
static_assert(PENSTOCK_PATH_USERSPACE == static_cast<int>(core::PathId::userspace));
static_assert(PENSTOCK_PATH_NVFS == static_cast<int>(core::PathId::nvfs));
static_assert(PENSTOCK_PATH_DMABUF == static_cast<int>(core::PathId::dmabuf));
static_assert(PENSTOCK_REASON_OBSTACLE == core::kFirstObstacle);
static_assert(PENSTOCK_REASON_USERSPACE_FILE == static_cast<int>(core::Reason::userspace_file));
static_assert(PENSTOCK_REASON_SELF_TEST_REFUSED == core::kFirstPipelineReason);
static_assert(PENSTOCK_REASON_EXTENT_NOT_REGISTERED == core::kFirstPagecacheReason);
static_assert(PENSTOCK_REASON_VENDOR_LIBRARY_MISSING == core::kFirstVendorReason);
static_assert(PENSTOCK_REASON_NVFS_MISSING == core::kFirstNvfsReason);
static_assert(PENSTOCK_DENIED == static_cast<int>(core::Code::denied));
static_assert(PENSTOCK_NO_DIRECT_PATH == static_cast<int>(core::Code::no_direct_path));
static_assert(PENSTOCK_DESCRIPTOR_LOST == static_cast<int>(core::Code::descriptor_lost));
