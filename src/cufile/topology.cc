// SPDX-License-Identifier: Apache-2.0

// cuFile's calls about the machine: P2P flags, the PCIe topology as a file, the size of a GPU's BAR.
#include <array>
#include <atomic>

#include "base/json_text.h"
#include "base/new_file.h"
#include "cufile.h"
#include "cufile/entry_points.h"
#include "topology/pci_device.h"

namespace core = penstock::core;

namespace {

using core::CufileDriver;
using core::entry_points::ok;
using core::entry_points::refuse;

constexpr int kTopologyFormat = 1;
#if defined(__aarch64__)
constexpr int kSettable = CU_FILE_P2P_FLAG_C2C;
#else
constexpr int kSettable = CU_FILE_P2P_FLAG_PCI_P2PDMA;
#endif

// Indexed by file system or device kind. Global: programs may set flags before the driver opens.
std::array<std::atomic<int>, CU_FILE_MAX_TARGET_TYPES> p2p_flags{};

bool is_target(CUfileDriverStatusFlags_t target) { return target >= 0 && target < CU_FILE_MAX_TARGET_TYPES; }

const char* kind_of(const core::PciDevice& device) {
  if (device.is_gpu()) return "gpu";
  if (device.is_nvme()) return "nvme";
  return device.is_nic() ? "network" : "";
}

void add(core::JsonText& json, const core::PciDevice& device, const std::vector<core::PciDevice>& all) {
  json.open("", '{').add("pci_address", device.address).add("kind", kind_of(device)).add("numa_node", device.numa_node);
  json.add("driver", device.driver).add("host_bridge", device.host_bridge).open("bridges", '[');
  for (const std::string& bridge : device.bridges) json.add("", bridge);
  json.close(']').open("gpus", '{');
  for (const core::PciDevice& gpu : all) {
    if (!gpu.is_gpu() || gpu.address == device.address) continue;
    json.add(gpu.address, core::pci_relation_name(core::pci_relation(device, gpu)));
  }
  json.close('}').close('}');
}

// Lists GPUs, drives and network cards, with their PCIe distance to each GPU.
std::string topology_text(const std::vector<core::PciDevice>& devices) {
  core::JsonText json;
  json.open("", '{').add("penstock_topology", kTopologyFormat).open("devices", '[');
  for (const core::PciDevice& device : devices) {
    if (kind_of(device)[0] != '\0') add(json, device, devices);
  }
  return json.close(']').close('}').text() + "\n";
}

}  // namespace

extern "C" {

CUfileError_t cuFileDriverSetP2PFlags(CUfileDriverStatusFlags_t status_flag, CUfileP2PFlags_t flags) {
  const int wanted = static_cast<int>(flags);
  if (!is_target(status_flag) || (wanted != 0 && wanted != kSettable)) return refuse(CU_FILE_INVALID_VALUE);
  p2p_flags[static_cast<unsigned>(status_flag)].fetch_or(wanted);
  return ok();
}

CUfileError_t cuFileDriverGetP2PFlags(CUfileDriverStatusFlags_t status_flag, CUfileP2PFlags_t* flags) {
  if (flags == nullptr || !is_target(status_flag)) return refuse(CU_FILE_INVALID_VALUE);
  *flags = static_cast<CUfileP2PFlags_t>(p2p_flags[static_cast<unsigned>(status_flag)].load());
  return ok();
}

CUfileError_t cuFileExportPCIeTopology(const char* filename) {
  if (filename == nullptr) return refuse(CU_FILE_INVALID_VALUE);
  return core::cufile_call([&] {
    const core::Result<core::Root> root = core::Root::open("/");
    if (!root.ok()) return core::cufile_error(root.status());
    const bool written = core::publish_file(filename, topology_text(core::read_pci_devices(*root))).ok();
    return written ? ok() : refuse(CU_FILE_INVALID_VALUE);
  });
}

CUfileError_t cuFileGetBARSizeInKB(int gpuIndex, size_t* barSize) {
  if (barSize == nullptr || gpuIndex < 0) return refuse(CU_FILE_INVALID_VALUE);
  return core::cufile_call([&] {
    const core::Result<CufileDriver::Use> use = CufileDriver::instance().open_and_use();
    if (!use.ok()) return core::cufile_error(use.status());
    const core::Result<core::Device*> device = use->session().devices().device(static_cast<unsigned>(gpuIndex));
    if (!device.ok()) return refuse(CU_FILE_INVALID_VALUE);
    const core::Result<core::Root> root = core::Root::open("/");
    *barSize = root.ok() ? core::read_pci_bars(*root, (*device)->facts().pci_address)[1] >> 10 : 0;
    return ok();
  });
}

}  // extern "C"
