// SPDX-License-Identifier: Apache-2.0

// cuFile's driver properties: the settings in force, and the four setters that change them.
#include <limits>

#include "cufile/config.h"
#include "cufile/entry_points.h"

namespace core = penstock::core;

namespace {

using core::entry_points::driver;

core::Value number(std::size_t value) {
  constexpr std::size_t kMost = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(value < kMost ? value : kMost);
}

bool fits(core::Setting setting, const core::Value& value) { return core::range_fault(setting.row(), value).empty(); }

// Applies at once while the driver is open, else at its next opening; by 1.20's answers, only at its next opening.
CUfileError_t set(const core::PendingValues& values) {
  if (driver().follows_1_20()) {
    (void)driver().set_pending_parameters(values);
    return core::cufile_error(CU_FILE_SUCCESS);
  }
  const bool done = driver().change(values) || driver().set_pending_parameters(values) || driver().change(values);
  return core::cufile_error(done ? CU_FILE_SUCCESS : CU_FILE_DRIVER_NOT_INITIALIZED);
}

// The answer to a value that is no multiple of what it must be, or too small.
CUfileError_t unfit() {
  return core::cufile_error(core::by_version(CU_FILE_DRIVER_UNSUPPORTED_LIMIT, CU_FILE_INVALID_VALUE));
}

CUfileError_t set_checked(core::Setting setting, std::size_t size) {
  if (size > static_cast<std::size_t>(setting.row().high)) {
    return core::cufile_error(core::by_version(CU_FILE_INVALID_VALUE, CU_FILE_DRIVER_UNSUPPORTED_LIMIT));
  }
  const core::Value value = number(size);
  return fits(setting, value) ? set({{setting, value}}) : unfit();
}

// These two setters open the driver, as in NVIDIA's library up to 1.15.
CUfileError_t set_opening(core::Setting setting, std::size_t size) {
  if (driver().follows_1_20()) return set_checked(setting, size);
  // Leaves the gate before it sets the value: a thread that closes the driver holds its lock and waits for calls inside
  // the gate.
  if (const core::Status opened = driver().open_and_use().status(); !opened.ok()) return core::cufile_error(opened);
  return set_checked(setting, size);
}

}  // namespace

extern "C" {

CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* props) {
  return core::cufile_call([&] {
    if (props == nullptr) return core::cufile_error(CU_FILE_INVALID_VALUE);
    *props = core::properties_from(driver().settings_to_come());
    return core::cufile_error(CU_FILE_SUCCESS);
  });
}

CUfileError_t cuFileDriverSetPollMode(bool poll, size_t poll_threshold_size) {
  return core::cufile_call([&] {
    constexpr core::Setting kThreshold = "properties.poll_mode_max_size_kb";
    const core::Value threshold = number(poll_threshold_size);
    if (!fits(kThreshold, threshold)) return unfit();
    return set({{"properties.use_poll_mode", poll}, {kThreshold, threshold}});
  });
}

CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t max_direct_io_size) {
  return core::cufile_call([&] {
    constexpr core::Setting kSize = "properties.max_direct_io_size_kb";
    const core::Value size = number(max_direct_io_size);
    if (!fits(kSize, size)) return unfit();
    if (!driver().follows_1_20()) {
      if (const core::CufileDriver::Use use(driver()); use) use->engine().limit_operations(max_direct_io_size << 10);
    }
    return set({{kSize, size}});
  });
}

// These two limit a GPU cache and BAR mappings, which Penstock does not have: values are accepted and returned.
CUfileError_t cuFileDriverSetMaxCacheSize(size_t max_cache_size) {
  return core::cufile_call([&] { return set_opening("properties.max_device_cache_size_kb", max_cache_size); });
}

CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t max_pinned_size) {
  return core::cufile_call([&] { return set_opening("properties.max_device_pinned_mem_size_kb", max_pinned_size); });
}

}  // extern "C"
