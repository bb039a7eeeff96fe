// SPDX-License-Identifier: Apache-2.0

#include "topology/peer_route.h"

#include <algorithm>
#include <array>
#include <utility>

#include "topology/block_layer.h"
#include "topology/rdma_device.h"

namespace penstock::core {
namespace {

constexpr KernelVersion kKernelOfStacks{7, 2};      // md and NVMe multipath were seen to pass device pages on.
constexpr KernelVersion kKernelOfBridgeList{7, 3};  // The newest kernel whose list of host bridges stands below.
constexpr std::uint64_t kLargeBarMin = std::uint64_t{1} << 30;

// ---- The device

// "nvidia0", not "nvidiactl" nor "nvidia-uvm".
bool is_gpu_node(const std::string& name) { return name.size() > 6 && name[6] >= '0' && name[6] <= '9'; }

Findings driver_findings(const PeerMachine& machine, const PciDevice& gpu) {
  const NvidiaDriver& driver = machine.nvidia;
  if (!driver.is_loaded || gpu.driver != "nvidia") return {certain(Obstacle::gpu_driver, gpu.address)};
  Findings findings;
  const std::string subject = "driver " + driver.version_text;
  const bool is_known = driver.version.major != 0;
  if (is_known && driver.version < kP2pdmaDriver) {
    findings.push_back(certain(Obstacle::driver_no_export, subject));
  } else if (is_known && driver.version < kP2pdmaDriverOfNewPages &&
             machine.platform.kernel >= kP2pdmaKernelOfNewPages) {
    findings.push_back(certain(Obstacle::driver_too_old_for_kernel, subject));
  }
  const auto& nodes = driver.device_nodes;
  if (std::none_of(nodes.begin(), nodes.end(), is_gpu_node)) {
    // Outside a container they are created when a program first uses the GPU.
    const bool is_shut_out = !machine.platform.container.empty();
    findings.push_back({Obstacle::gpu_node, is_shut_out ? Certainty::certain : Certainty::possible, ""});
  }
  if (!driver.has_uvm && std::find(nodes.begin(), nodes.end(), "nvidia-uvm") == nodes.end()) {
    findings.push_back(possible(Obstacle::uvm_not_loaded));
  }
  return findings;
}

// A GPU's p2pmem proves that the kernel has its pages, so that the settings were right, whatever they are now. It
// appears only after a program has used the GPU, so its absence says nothing.
Findings bar_findings(const PeerMachine& machine, const PciDevice& gpu) {
  Findings findings;
  if (gpu.bar_bytes[1] != 0 && gpu.bar_bytes[1] < kLargeBarMin) {
    findings.push_back(certain(Obstacle::no_large_bar, gpu.address));
  }
  if (gpu.has_peer_memory) return findings;
  const NvidiaDriver& driver = machine.nvidia;
  // If unset, the driver decides, and may use it on some GPUs.
  if (driver.static_bar1.value_or(-1) <= 0) {
    const bool is_off = driver.static_bar1 == 0;
    findings.push_back({Obstacle::static_bar1_off, is_off ? Certainty::certain : Certainty::possible, gpu.address});
  }
  if (driver.write_combining_off.value_or(0) <= 0) {
    const Certainty certainty = driver.has_parameters ? Certainty::certain : Certainty::possible;
    findings.push_back({Obstacle::bar_write_combined, certainty, gpu.address});
  }
  return findings;
}

Findings nvidia_findings(const PeerMachine& machine, const PciDevice& gpu) {
  Findings findings = driver_findings(machine, gpu);
  append(findings, bar_findings(machine, gpu));
  const std::string& architecture = machine.platform.architecture;
  if (!architecture.empty() && architecture != "x86_64") {
    findings.push_back(possible(Obstacle::architecture, architecture));
  }
  return findings;
}

// ---- Storage

Findings nvme_findings(const PeerMachine& machine, const BlockDevice& device) {
  switch (device.transport) {
    case NvmeTransport::pcie:
      if (device.is_multipath && machine.platform.kernel < kKernelOfStacks) {
        return {possible(Obstacle::nvme_multipath, device.name)};
      }
      return {};
    case NvmeTransport::rdma: {
      const Certainty certainty = machine.has_rdma_of_software_alone ? Certainty::certain : Certainty::possible;
      return {{Obstacle::nvme_rdma, certainty, device.name}};
    }
    case NvmeTransport::tcp: return {certain(Obstacle::nvme_tcp, device.name)};
    default: return {certain(Obstacle::nvme_fabrics, device.name)};
  }
}

// At the levels that copy nothing, md accepts device pages if all its members do.
Findings md_findings(const PeerMachine& machine, const BlockDevice& device) {
  if (device.md_level != "raid0" && device.md_level != "raid1" && device.md_level != "raid10") {
    return {certain(Obstacle::md_level, device.name)};
  }
  if (device.slaves.empty()) return {certain(Obstacle::md_members_unknown, device.name)};
  Findings findings;
  if (machine.platform.kernel < kKernelOfStacks) findings.push_back(possible(Obstacle::md_raid, device.name));
  for (const BlockDevice& slave : device.slaves) append(findings, storage_findings(machine, slave));
  return findings;
}

// ---- The way between

// The drives below a stack, also below layers that refuse device pages: data that is moved to one of them needs its
// way.
void collect_legs(const BlockDevice& device, std::vector<const BlockDevice*>& legs) {
  if (device.kind == BlockKind::nvme) legs.push_back(&device);
  for (const BlockDevice& slave : device.slaves) collect_legs(slave, legs);
}

struct AllowedBridge {
  std::uint16_t device;
  bool same_bridge_only;
};
// Intel's entries in the kernel's list of host bridges that route peer traffic between their root ports.
constexpr std::array<AllowedBridge, 10> kAllowedIntel = {{{0x2020, false},
                                                          {0x2030, false},
                                                          {0x2031, false},
                                                          {0x2032, false},
                                                          {0x2033, false},
                                                          {0x09a2, false},
                                                          {0x2f00, true},
                                                          {0x2f01, true},
                                                          {0x3c00, true},
                                                          {0x3c01, true}}};

// The kernel identifies a host bridge by the first device on its bus.
const PciDevice* first_on(const PeerMachine& machine, const std::string& host_bridge) {
  const auto found = std::find_if(machine.pci.begin(), machine.pci.end(), [&](const PciDevice& device) {
    return device.bridges.empty() && device.host_bridge == host_bridge;
  });
  return found == machine.pci.end() ? nullptr : &*found;
}

Tristate routes_between(const PeerMachine& machine, const std::string& host_bridge, bool is_same) {
  constexpr std::uint16_t kIntel = 0x8086, kGoogle = 0x1ae0, kNvidia = 0x10de;
  const PciDevice* first = host_bridge.empty() ? nullptr : first_on(machine, host_bridge);
  if (first == nullptr) return Tristate::unknown;
  if (!first->address.ends_with(":00.0") && !first->is_bridge()) return Tristate::no;
  // Kernels differ on whether these bridges are allowed.
  if (first->vendor == kGoogle || first->vendor == kNvidia) return Tristate::unknown;
  for (const AllowedBridge& allowed : kAllowedIntel) {
    if (first->vendor != kIntel || allowed.device != first->device) continue;
    return !allowed.same_bridge_only || is_same ? Tristate::yes : Tristate::no;
  }
  return machine.platform.kernel > kKernelOfBridgeList ? Tristate::unknown : Tristate::no;
}

Tristate processor_routes(const PeerMachine& machine, const PciDevice& peer, const PciDevice& drive) {
  constexpr int kZenFamily = 0x17;
  const Platform& platform = machine.platform;
  if (platform.cpu_vendor == "AuthenticAMD" && platform.cpu_family >= kZenFamily) return Tristate::yes;
  const bool is_same = peer.host_bridge == drive.host_bridge;
  const Tristate one = routes_between(machine, peer.host_bridge, is_same);
  const Tristate other = is_same ? one : routes_between(machine, drive.host_bridge, is_same);
  if (one == Tristate::no || other == Tristate::no) return Tristate::no;
  return one == Tristate::yes && other == Tristate::yes ? Tristate::yes : Tristate::unknown;
}

// Counts the bridges, from the root port down, that two devices have in common above them.
std::size_t shared_bridges(const PciDevice& one, const PciDevice& other) {
  if (one.host_bridge != other.host_bridge) return 0;
  const auto [mine, theirs] =
      std::mismatch(one.bridges.begin(), one.bridges.end(), other.bridges.begin(), other.bridges.end());
  return static_cast<std::size_t>(mine - one.bridges.begin());
}

struct Redirect {
  Tristate state = Tristate::no;
  std::string bridge;  // The first bridge that redirects, or may.
};

// The bridge right above a device, if its IOMMU group shows that the kernel made it redirect: only then do device and
// bridge have different groups. The setting may have changed since.
const PciDevice* isolating_bridge(const PeerMachine& machine, const PciDevice& device) {
  const PciDevice* above = device.bridges.empty() ? nullptr : machine.device(device.bridges.back());
  if (above == nullptr || above->iommu_group < 0 || device.iommu_group < 0) return nullptr;
  const bool is_isolating =
      above->redirects_peer_traffic == Tristate::unknown && above->iommu_group != device.iommu_group;
  return is_isolating ? above : nullptr;
}

// Checks the bridges between the two, and the one above both.
Redirect redirect_between(const PeerMachine& machine, const PciDevice& peer, const PciDevice& drive,
                          std::size_t shared) {
  std::vector<std::string> between(peer.bridges.begin() + static_cast<std::ptrdiff_t>(shared) - 1, peer.bridges.end());
  between.insert(between.end(), drive.bridges.begin() + static_cast<std::ptrdiff_t>(shared), drive.bridges.end());
  for (const std::string& address : between) {
    const PciDevice* bridge = machine.device(address);
    if (bridge != nullptr && bridge->redirects_peer_traffic == Tristate::yes) return {Tristate::yes, address};
  }
  for (const PciDevice* device : {&peer, &drive}) {
    const PciDevice* bridge = isolating_bridge(machine, *device);
    if (bridge != nullptr) return {Tristate::unknown, bridge->address};
  }
  return {};
}

// Addresses in an identity group are not translated, even if those of other groups are.
bool is_translated(const Iommu& iommu, const PciDevice& drive) {
  if (iommu.mode == IommuMode::off || iommu.mode == IommuMode::passthrough) return false;
  const auto& identity = iommu.identity_group_numbers;
  return !std::binary_search(identity.begin(), identity.end(), drive.iommu_group);
}

Findings way_findings(const PeerMachine& machine, const PciDevice& peer, const PciDevice& drive,
                      const std::string& disk) {
  const std::size_t shared = shared_bridges(peer, drive);
  const Redirect redirect = shared == 0 ? Redirect{} : redirect_between(machine, peer, drive, shared);
  if (shared != 0 && redirect.state == Tristate::no) return {};
  const Tristate routes = processor_routes(machine, peer, drive);
  // If the processor routes peer traffic, a redirect only delays it, and is told only if it is certain.
  if (routes == Tristate::yes && redirect.state != Tristate::yes) return {};
  const bool is_certain = routes == Tristate::no && redirect.state != Tristate::unknown;
  const Certainty certainty = is_certain ? Certainty::certain : Certainty::possible;
  if (shared == 0) return {{Obstacle::root_ports_apart, certainty, disk + " at " + drive.address}};
  return {{Obstacle::acs_redirect, certainty, redirect.bridge}};
}

Findings leg_findings(const PeerMachine& machine, const PciDevice& peer, const BlockDevice& leg) {
  if (leg.transport != NvmeTransport::pcie && leg.transport != NvmeTransport::rdma) return {};
  const PciDevice* drive = machine.device(leg.pci_address);
  if (drive == nullptr) return {possible(Obstacle::route_unseen, leg.name)};
  if (drive == &peer) return {};
  Findings findings = way_findings(machine, peer, *drive, leg.disk);
  if (is_translated(machine.iommu, *drive)) findings.push_back(possible(Obstacle::iommu_translating, leg.disk));
  return findings;
}

}  // namespace

const PciDevice* PeerMachine::device(std::string_view pci_address) const {
  const auto found =
      std::lower_bound(pci.begin(), pci.end(), pci_address,
                       [](const PciDevice& one, std::string_view address) { return one.address < address; });
  return found == pci.end() || found->address != pci_address ? nullptr : &*found;
}

std::vector<const PciDevice*> PeerMachine::peers() const {
  std::vector<const PciDevice*> found;
  for (const PciDevice& one : pci) {
    if (one.is_gpu() || one.has_peer_memory) found.push_back(&one);
  }
  return found;
}

PeerMachine read_peer_machine(const Root& root) { return read_peer_machine(root, kernel_has_p2pdma(root)); }

PeerMachine read_peer_machine(const Root& root, Tristate p2pdma) {
  return {read_platform(root),
          p2pdma,
          read_nvidia_driver(root),
          read_iommu(root),
          read_pci_devices(root),
          MountTable::read(root),
          has_rdma_of_software_alone(root)};
}

Findings kernel_findings(const PeerMachine& machine) {
  Findings findings;
  if (machine.p2pdma != Tristate::yes) {
    const bool is_known = machine.p2pdma == Tristate::no;
    findings.push_back({Obstacle::kernel_no_p2pdma, is_known ? Certainty::certain : Certainty::possible, ""});
  }
  const KernelVersion kernel = machine.platform.kernel;
  const std::string subject = "Linux " + machine.platform.kernel_release;
  if (kernel.major != 0 && kernel < kP2pdmaKernel) findings.push_back(certain(Obstacle::kernel_too_old, subject));
  if (kernel == kP2pdmaKernelFaulty) findings.push_back(certain(Obstacle::kernel_6_16, subject));
  return findings;
}

Findings peer_findings(const PeerMachine& machine, std::string_view peer) {
  const PciDevice* device = machine.device(peer);
  if (device == nullptr) return {certain(Obstacle::peer_unseen, std::string(peer))};
  if (device->is_nvidia_gpu()) return nvidia_findings(machine, *device);
  if (device->is_gpu() || device->is_display()) return {certain(Obstacle::gpu_maker, device->address)};
  if (device->has_peer_memory && device->peer_memory_bytes > 0) return {};
  return {certain(Obstacle::peer_no_memory, device->address)};
}

namespace {

// The device's name, with its kind if the obstacle's sentence does not name that.
std::string subject_of(const BlockDevice& storage) {
  const BlockLayer* const layer = block_layer(storage);
  return layer == nullptr || layer->is_told_apart ? storage.name : storage.name + ", " + layer->what;
}

}  // namespace

Findings storage_findings(const PeerMachine& machine, const BlockDevice& storage) {
  switch (storage.kind) {
    case BlockKind::nvme: return nvme_findings(machine, storage);
    case BlockKind::md: return md_findings(machine, storage);
    case BlockKind::dm: return {certain(Obstacle::device_mapper, subject_of(storage))};
    case BlockKind::loop: return {certain(Obstacle::loop, storage.name)};
    case BlockKind::virtio: return {certain(Obstacle::virtio, storage.name)};
    case BlockKind::scsi: return {certain(storage.is_iscsi() ? Obstacle::iscsi : Obstacle::scsi, storage.name)};
    case BlockKind::zram:
    case BlockKind::ram:
    case BlockKind::pmem: return {certain(Obstacle::memory_device, storage.name)};
    case BlockKind::null_block: return {certain(Obstacle::null_device, storage.name)};
    default: return {certain(Obstacle::other_device, subject_of(storage))};
  }
}

Findings bus_findings(const PeerMachine& machine, std::string_view peer, const BlockDevice& storage) {
  const PciDevice* device = machine.device(peer);
  std::vector<const BlockDevice*> legs;
  collect_legs(storage, legs);
  if (device == nullptr || legs.empty()) return {};
  Findings findings;
  for (const BlockDevice* leg : legs) append(findings, leg_findings(machine, *device, *leg));
  if (machine.platform.is_virtual_machine) findings.push_back(possible(Obstacle::virtual_machine));
  return findings;
}

bool has_no_way_to_drives(const PeerMachine& machine, std::string_view peer) {
  const PciDevice* const device = machine.device(peer);
  if (device == nullptr) return false;
  std::size_t drives = 0;
  for (const PciDevice& one : machine.pci) {
    if (!one.is_nvme() || &one == device) continue;
    ++drives;
    const Findings way = way_findings(machine, *device, one, "");
    if (way.empty() || way[0].obstacle != Obstacle::root_ports_apart || !way[0].stops()) return false;
  }
  return drives > 0;
}

PeerRoute peer_route(const Root& root, const PeerMachine& machine, std::string_view peer, DeviceNumber storage) {
  PeerRoute route;
  route.peer = std::string(peer);
  route.stack = read_block_device(root, machine.mounts, storage);
  route.findings = kernel_findings(machine);
  append(route.findings, peer_findings(machine, peer));
  if (!route.stack) {
    route.findings.push_back(possible(Obstacle::stack_unseen));
    return route;
  }
  append(route.findings, storage_findings(machine, *route.stack));
  append(route.findings, bus_findings(machine, peer, *route.stack));
  return route;
}

}  // namespace penstock::core
