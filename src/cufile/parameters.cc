// SPDX-License-Identifier: Apache-2.0

// cuFile's parameters: settings by number. They are set while the driver is closed and apply at its next opening; a get
// returns the current value, or that of the next opening.
#include <climits>
#include <cstring>

#include "cufile/entry_points.h"

namespace core = penstock::core;

namespace {

using core::Setting;
using core::SettingKind;
using core::entry_points::driver;
using core::entry_points::ok;

CUfileError_t invalid() { return core::cufile_error(CU_FILE_INVALID_VALUE); }

CUfileError_t set(std::optional<Setting> setting, core::Value value) {
  if (!setting) return invalid();
  return driver().set_pending_parameters({{*setting, std::move(value)}})
             ? ok()
             : core::cufile_error(CU_FILE_DRIVER_ALREADY_OPEN);
}

template <typename Held, typename Out>
CUfileError_t get(std::optional<Setting> setting, Out* out) {
  if (!setting || out == nullptr) return invalid();
  *out = static_cast<Out>(std::get<Held>(driver().parameter(*setting)));
  return ok();
}

// NVIDIA's result for a number that was never set, before the first opening: only some have values from the start.
std::size_t unread(Setting setting) {
  if (setting == Setting("execution.max_io_threads")) return core::by_version<std::size_t>(0, 8);
  if (setting == Setting("execution.max_request_parallelism")) return core::by_version<std::size_t>(0, 4);
  if (setting == Setting("execution.max_io_queue_depth")) return 128;
  return setting == Setting("execution.min_io_threshold_size_kb") ? 1024 : 0;
}

struct SlabArrays {
  Setting sizes;
  Setting counts;
};
constexpr SlabArrays kPosixPool = {"properties.posix_pool_slab_size_kb", "properties.posix_pool_slab_count"};
constexpr SlabArrays kGpuBounce = {"properties.gpu_bounce_buffer_slab_config.slab_size_kb",
                                   "properties.gpu_bounce_buffer_slab_config.slab_count"};
constexpr int kSlabsMax = 1024;

CUfileError_t set_slabs(const SlabArrays& slabs, const size_t* sizes, const size_t* counts, int len) {
  if (sizes == nullptr || counts == nullptr || len <= 0 || len > kSlabsMax) return invalid();
  const bool is_taken = driver().set_pending_parameters(
      {{slabs.sizes, core::Numbers(sizes, sizes + len)}, {slabs.counts, core::Numbers(counts, counts + len)}});
  return is_taken ? ok() : core::cufile_error(CU_FILE_DRIVER_ALREADY_OPEN);
}

CUfileError_t get_slabs(const SlabArrays& slabs, size_t* sizes, size_t* counts, int len) {
  if (sizes == nullptr || counts == nullptr || len <= 0) return invalid();
  const core::Value held_sizes = driver().parameter(slabs.sizes);
  const core::Value held_counts = driver().parameter(slabs.counts);
  const core::Numbers& from_sizes = std::get<core::Numbers>(held_sizes);
  const core::Numbers& from_counts = std::get<core::Numbers>(held_counts);
  const auto length = static_cast<std::size_t>(len);
  if (from_sizes.size() != length || from_counts.size() != length) return invalid();
  for (std::size_t i = 0; i < length; ++i) {
    sizes[i] = static_cast<size_t>(from_sizes[i]);
    counts[i] = static_cast<size_t>(from_counts[i]);
  }
  return ok();
}

}  // namespace

extern "C" {

// ---- Numbers -------------------------------------------------------------------------------------------------------

CUfileError_t cuFileGetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t* value) {
  return core::cufile_call([&] {
    const std::optional<Setting> setting = Setting::of_parameter(SettingKind::number, param);
    if (!setting || value == nullptr || driver().is_known(*setting)) return get<std::int64_t>(setting, value);
    *value = unread(*setting);
    return ok();
  });
}

// Any number is taken; one that is out of range is noted, and passed over, when the driver opens.
CUfileError_t cuFileSetParameterSizeT(CUFileSizeTConfigParameter_t param, size_t value) {
  return core::cufile_call(
      [&] { return set(Setting::of_parameter(SettingKind::number, param), static_cast<std::int64_t>(value)); });
}

CUfileError_t cuFileGetParameterMinMaxValue(CUFileSizeTConfigParameter_t param, size_t* min_value, size_t* max_value) {
  const std::optional<Setting> setting = Setting::of_parameter(SettingKind::number, param);
  if (!setting || param == CUFILE_PARAM_PROFILE_STATS || min_value == nullptr || max_value == nullptr) return invalid();
  *min_value = static_cast<size_t>(setting->row().low);
  *max_value = static_cast<size_t>(setting->row().high);
  return ok();
}

// ---- Switches ------------------------------------------------------------------------------------------------------

CUfileError_t cuFileGetParameterBool(CUFileBoolConfigParameter_t param, bool* value) {
  return core::cufile_call([&] { return get<bool>(Setting::of_parameter(SettingKind::boolean, param), value); });
}

CUfileError_t cuFileSetParameterBool(CUFileBoolConfigParameter_t param, bool value) {
  return core::cufile_call([&] { return set(Setting::of_parameter(SettingKind::boolean, param), value); });
}

// ---- Texts ---------------------------------------------------------------------------------------------------------

CUfileError_t cuFileGetParameterString(CUFileStringConfigParameter_t param, char* desc_str, int len) {
  return core::cufile_call([&] {
    const std::optional<Setting> setting = Setting::of_parameter(SettingKind::text, param);
    if (!setting || desc_str == nullptr || len <= 0) return invalid();
    const core::Value held = driver().parameter(*setting);
    const std::string& text = std::get<std::string>(held);
    // Only the log's path may be missing. An empty variable counts as missing.
    const bool is_path = param == CUFILE_PARAM_ENV_LOGFILE_PATH;
    if (is_path && text.empty() && core::process_environment("CUFILE_LOGFILE_PATH") == nullptr) return invalid();
    if (text.size() + 1 > static_cast<std::size_t>(len)) return invalid();
    std::memcpy(desc_str, text.c_str(), text.size() + 1);
    return ok();
  });
}

CUfileError_t cuFileSetParameterString(CUFileStringConfigParameter_t param, const char* desc_str) {
  return core::cufile_call([&] {
    if (desc_str == nullptr || desc_str[0] == '\0' || ::strnlen(desc_str, PATH_MAX) == PATH_MAX) return invalid();
    const std::optional<Setting> setting = Setting::of_parameter(SettingKind::text, param);
    if (param == CUFILE_PARAM_RDMA_TRANSPORT && setting->row().words != desc_str) return invalid();
    return set(setting, std::string(desc_str));
  });
}

// ---- Slabs ---------------------------------------------------------------------------------------------------------

CUfileError_t cuFileSetParameterPosixPoolSlabArray(const size_t* size_values, const size_t* count_values, int len) {
  return core::cufile_call([&] { return set_slabs(kPosixPool, size_values, count_values, len); });
}

// Unknown before the driver opens, unless it was set.
CUfileError_t cuFileGetParameterPosixPoolSlabArray(size_t* size_values, size_t* count_values, int len) {
  return core::cufile_call([&] {
    if (!driver().is_known(kPosixPool.sizes)) return invalid();
    return get_slabs(kPosixPool, size_values, count_values, len);
  });
}

CUfileError_t cuFileSetParameterGpuBounceBufferSlabArray(const size_t* size_values, const size_t* count_values,
                                                         int len) {
  return core::cufile_call([&] { return set_slabs(kGpuBounce, size_values, count_values, len); });
}

// Unknown unless it was set.
CUfileError_t cuFileGetParameterGpuBounceBufferSlabArray(size_t* size_values, size_t* count_values, int len) {
  return core::cufile_call([&] {
    if (!driver().was_set(kGpuBounce.sizes)) return invalid();
    return get_slabs(kGpuBounce, size_values, count_values, len);
  });
}

}  // extern "C"
