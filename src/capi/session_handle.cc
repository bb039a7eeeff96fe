// SPDX-License-Identifier: Apache-2.0

#include "capi/session_handle.h"

#include "device/cuda/cuda_device.h"
#include "device/host/host_device.h"
#include "device/p2pmem/peer_device.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

Result<std::unique_ptr<DeviceSet>> open_devices(const Config& config, std::string& why_not_cuda) {
  const DeviceChoice choice = config.device;
  if (choice == DeviceChoice::host) {
    why_not_cuda = "the configuration asks for host memory standing in for a GPU";
    return std::unique_ptr<DeviceSet>(std::make_unique<HostDeviceSet>());
  }
  if (choice == DeviceChoice::p2pmem) {
    why_not_cuda = "the configuration asks for memory that PCI devices offer";
    return PeerDeviceSet::open();
  }
  Result<std::unique_ptr<CudaDeviceSet>> cuda =
      CudaDeviceSet::open(&why_not_cuda, "libcuda.so.1", config.nvidia_export);
  if (cuda.ok()) return std::unique_ptr<DeviceSet>(std::move(*cuda));
  if (choice == DeviceChoice::cuda) return cuda.status();
  return std::unique_ptr<DeviceSet>(std::make_unique<HostDeviceSet>());
}

}  // namespace

Result<std::unique_ptr<penstock_session>> open_session(const ConfigWishes& wishes) {
  const Result<Config> config = make_config(wishes, process_environment);
  if (!config.ok()) return config.status();
  return open_session(*config);
}

Result<std::unique_ptr<penstock_session>> open_session(const Config& config) {
  if (const Status status = check_variables(process_variables()); !status.ok()) return status;
  auto handle = std::make_unique<penstock_session>();
  Result<std::unique_ptr<DeviceSet>> devices = open_devices(config, handle->device_reason);
  if (!devices.ok()) return devices.status();
  handle->device_kind = (*devices)->name();
  handle->session =
      std::make_unique<Session>(config, std::make_unique<PosixStorage>(config.io_uring), std::move(*devices));
  return handle;
}

penstock_status to_public(const Status& status) {
  return {static_cast<std::int32_t>(status.domain), status.code, status.step};
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
