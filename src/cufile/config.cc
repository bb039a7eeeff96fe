// SPDX-License-Identifier: Apache-2.0

#include "cufile/config.h"

#include <algorithm>

#include "path/paths.h"
#include "session/session.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kKib = 1024;

unsigned bit(bool on, unsigned position) { return on ? 1u << position : 0u; }

// The number if the user chose it, else `otherwise`. NVIDIA's own defaults, built in or in the file that a package
// installs, say nothing about good values here.
std::uint64_t number_or(const Settings& settings, Setting setting, std::uint64_t otherwise) {
  const Settings defaults;
  const Origin origin = settings.origin(setting);
  const bool is_default = settings.number(setting) == defaults.number(setting);
  if (origin == Origin::built_in || (origin == Origin::installed && is_default)) return otherwise;
  return static_cast<std::uint64_t>(settings.number(setting));
}

bool is_posix_alone(const Settings& settings) {
  return settings.is_on("properties.force_compat_mode") || settings.is_on("properties.vanilla_posix_io_mode");
}

bool allows_posix(const Settings& settings) {
  return settings.is_on("properties.force_compat_mode") || settings.is_on("properties.allow_compat_mode");
}

// True if the machine's facts allow a path that moves bytes to or from a device's memory.
bool has_gpu_path(const Config& config) {
  PathSettings paths = path_settings(config);
  paths.explains = false;
  const auto serves_gpus = [&](PathId path) { return outlook_of(path, paths) == Reason::none; };
  return std::any_of(config.paths.begin(), config.paths.end(), serves_gpus);
}

bool is_allowed(const PathTraits& path, const Settings& settings) {
  if (path.pretends) return true;  // The user named it.
  if (path.host_memory) return settings.is_on("properties.allow_system_memory");
  if (path.posix) return allows_posix(settings);
  return !is_posix_alone(settings) && (!path.compat || allows_posix(settings));
}

bool is_parallel(const Settings& settings) {
  return settings.is_on("execution.parallel_io") && settings.number("execution.max_io_threads") > 0;
}

}  // namespace

Result<Config> config_from(const Settings& settings) {
  Result<Config> config = make_config(settings);
  if (!settings.was_set("penstock.workers") && settings.number("execution.max_io_threads") > 0) {
    config->workers = static_cast<unsigned>(number_or(settings, "execution.max_io_threads", config->workers));
  }
  if (!settings.was_set("penstock.direct_io") && settings.is_on("properties.force_odirect_mode")) {
    config->direct_io = DirectIo::always;
  }
  std::erase_if(config->paths, [&](PathId path) { return !is_allowed(traits_of(path), settings); });
  if (!allows_posix(settings) && !has_gpu_path(*config)) {
    return failure(Code::no_direct_path, "open the driver without compatibility mode");
  }
  const std::uint64_t threads = number_or(settings, "execution.max_request_parallelism", UINT_MAX);
  config->threads_max = is_parallel(settings) ? static_cast<unsigned>(std::max<std::uint64_t>(threads, 1)) : 1;
  config->share_min = number_or(settings, "execution.min_io_threshold_size_kb", 0) * kKib;
  config->operation_max = number_or(settings, "properties.max_direct_io_size_kb", UINT64_MAX / kKib) * kKib;
  config->cached_unaligned_writes = settings.is_on("fs.generic.posix_unaligned_writes");
  config->streams = allows_streams(settings);
  config->stream_words = !settings.is_on("miscellaneous.stream_memops_bypass");
  config->denylist = {.drivers = settings.texts("denylist.drivers"),
                      .devices = settings.texts("denylist.devices"),
                      .mounts = settings.texts("denylist.mounts"),
                      .file_systems = settings.texts("denylist.filesystems")};
  return config;
}

bool allows_streams(const Settings& settings) { return is_parallel(settings); }

bool follows_1_20(const Settings& settings) { return settings.text("penstock.cufile_version") == "1.20"; }

CUfileDrvProps_t properties_from(const Settings& settings) {
  const auto size = [&](Setting setting) { return static_cast<std::size_t>(settings.number(setting)); };
  const auto narrow = [&](Setting setting) {
    return static_cast<unsigned>(std::min<std::size_t>(size(setting), UINT_MAX));
  };
  CUfileDrvProps_t properties{};  // There is no nvidia-fs: its version is 0.0, and it serves no file system.
  properties.nvfs.poll_thresh_size = size("properties.poll_mode_max_size_kb");
  properties.nvfs.max_direct_io_size = size("properties.max_direct_io_size_kb");
  properties.nvfs.dcontrolflags = bit(settings.is_on("properties.use_poll_mode"), CU_FILE_USE_POLL_MODE) |
                                  bit(settings.is_on("properties.allow_compat_mode"), CU_FILE_ALLOW_COMPAT_MODE);
  properties.fflags = bit(true, CU_FILE_BATCH_IO_SUPPORTED) | bit(allows_streams(settings), CU_FILE_STREAMS_SUPPORTED) |
                      bit(is_parallel(settings), CU_FILE_PARALLEL_IO_SUPPORTED);
  properties.max_device_cache_size = narrow("properties.max_device_cache_size_kb");
  if (follows_1_20(settings)) {
    properties.nvfs.dcontrolflags |=
        bit(settings.is_on("properties.vanilla_posix_io_mode"), CU_FILE_VANILLA_POSIX_IO_MODE) |
        bit(settings.is_on("properties.gds_fallback_io"), CU_FILE_FALLBACK_IO_MODE);
    properties.per_buffer_cache_size = narrow("properties.per_buffer_cache_size_kb");
  }
  properties.max_device_pinned_mem_size = narrow("properties.max_device_pinned_mem_size_kb");
  properties.max_batch_io_size = narrow("properties.io_batchsize");
  properties.max_batch_io_timeout_msecs = narrow("properties.max_batch_io_timeout_msecs");
  return properties;
}

}  // namespace penstock::core
