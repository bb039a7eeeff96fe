// SPDX-License-Identifier: Apache-2.0

#include "capi/session_handle.h"

#include <utility>

#include "storage/posix_storage.h"

namespace penstock::core {

Result<std::unique_ptr<penstock_session>> open_session(const Staged& staged) {
  const LoadedSettings loaded = load_session_settings(process_environment, staged, process_variables());
  if (loaded.must_refuse) return refusal_of(loaded);
  return open_session(make_config(loaded.settings), loaded.settings);
}

Result<std::unique_ptr<penstock_session>> open_session(const Config& config, const Settings& settings) {
  auto handle = std::make_unique<penstock_session>();
  handle->settings = settings;
  Result<OpenedDevices> opened = open_devices(config.devices, config.nvidia_export);
  if (!opened.ok()) return opened.status();
  handle->device_kind = std::move(opened->kinds);
  handle->device_reason = std::move(opened->why_no_gpu);
  handle->session =
      std::make_unique<Session>(config, std::make_unique<PosixStorage>(config.io_uring), std::move(opened->devices));
  handle->frontends = std::make_unique<Frontends>(*handle->session);
  return handle;
}

penstock_status to_public(const Status& status) {
  return {static_cast<std::int16_t>(status.domain), status.driver, status.code, status.step};
}

penstock_report to_public(const Report& report) {
  penstock_report out{};
  out.bytes = report.bytes;
  out.bytes_by_path[static_cast<unsigned>(report.path)] = report.bytes - report.bounced_bytes;
  out.bytes_by_path[PENSTOCK_PATH_BOUNCE] += report.bounced_bytes;
  out.direct_bytes = report.direct_bytes;
  out.cached_bytes = traits_of(report.path).pretends ? 0 : report.bytes - report.direct_bytes;
  out.path = static_cast<std::int32_t>(report.path);
  out.reason = static_cast<std::int32_t>(report.reason);
  out.refused_path = report.refused;
  out.path_reason = static_cast<std::int32_t>(report.path_reason);
  out.bounced_reason = static_cast<std::int32_t>(report.bounced_reason);
  return out;
}

}  // namespace penstock::core
