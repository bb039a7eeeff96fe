// SPDX-License-Identifier: Apache-2.0

#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/paths.h"
#include "facts/cuda.h"
#include "facts/machine.h"
#include "facts/needs.h"

namespace penstock::facts {
namespace {

// Makes a small ring. Returns the errno with which that failed, or 0.
int try_io_uring() {
  io_uring_params parameters{};
  const long fd = ::syscall(SYS_io_uring_setup, 2, &parameters);
  if (fd < 0) return errno;
  ::close(static_cast<int>(fd));
  return 0;
}

// Exports memory of the first GPU, and looks for NICs that may register it.
std::optional<DmaBufProbe> probe_dma_buf(const Probe& probe, const std::vector<core::RdmaDevice>& rdma) {
  const auto is_cuda = [](const DeviceInfo& device) { return std::string_view(device.kind) == "cuda"; };
  const auto gpu = std::find_if(probe.devices.begin(), probe.devices.end(), is_cuda);
  if (gpu == probe.devices.end()) return std::nullopt;
  DmaBufProbe found{dma_buf_refusal(gpu->uuid), {}};
  for (const core::RdmaDevice& device : rdma) {
    if (!device.pci_address.empty()) found.rdma_adapters.push_back(device.name);
  }
  return found;
}

}  // namespace

Probe probe_machine(Process& process, const std::vector<core::RdmaDevice>& rdma) {
  Probe probe;
  probe.io_uring_error = try_io_uring();
  probe.cuda = cuda_version();
  // Only the process's own settings show why no session opens. The probe itself opens one with all devices that there
  // are.
  if (auto as_set = Session::open(); !as_set) process.error = as_set.error().message();
  Config config;
  config.set("device", "auto");
  auto session = Session::open(config);
  const auto info = session ? session->info() : Result<SessionInfo>(session.error());
  if (!info) {
    probe.device_reason = info.error().message();
    return probe;
  }
  probe.device_kind = info->device_kinds;
  probe.device_reason = why_stand_in_here(info->device_reason).sentence;
  for (unsigned ordinal = 0; ordinal < info->device_count; ++ordinal) {
    if (auto device = session->device(ordinal)) probe.devices.push_back(*device);
  }
  probe.dma_buf = probe_dma_buf(probe, rdma);
  for (const core::PathRow& row : core::kPaths) {
    if (auto verdict = session->outlook(static_cast<int>(row.id))) probe.verdicts.push_back(*verdict);
  }
  return probe;
}

}  // namespace penstock::facts
