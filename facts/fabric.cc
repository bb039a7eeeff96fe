// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "facts/examination.h"
#include "facts/judgement.h"
#include "facts/matrix.h"
#include "facts/network_notes.h"

namespace penstock::facts {
namespace {

using core::NvmeTransport;
using core::RdmaDevice;
using core::RdmaPort;

Judgement judge(Findings& rows, const char* code, std::string subject = "") {
  return {rows, code, std::move(subject), Layer::fabric};
}

std::string name_of(const RdmaDevice& device, const RdmaPort& port) {
  return fmt::format("{} port {}", device.name, port.number);
}

// ---- RDMA

// One of a port's interfaces, to name in a command; "DEV" stands in for it if none is known.
std::string interface_of(const RdmaPort& port) { return port.interfaces.empty() ? "DEV" : port.interfaces[0].name; }

void judge_port(const RdmaDevice& device, const RdmaPort& port, Findings& rows) {
  Judgement row = judge(rows, "rdma_port", name_of(device, port));
  if (!port.interfaces.empty()) row.at(port.interfaces.front().name);
  if (port.state.empty()) return row.unknown("the port's state is unknown");
  const std::string link = fmt::format("{}{}{}", port.link_layer, port.rate.empty() ? "" : ", ", port.rate);
  const char* const by_whom = device.is_software ? "; made by software: the CPU does all of its work" : "";
  if (port.is_active()) return row.pass(fmt::format("active: {}{}", link, by_whom));
  const std::string remedy =
      port.is_ethernet() ? fmt::format("Connect it and bring its interface up: ip link set {} up.", interface_of(port))
                         : "Connect it, and make sure that a subnet manager runs in its network.";
  row.fail(fmt::format("the port is not active but {} ({})", port.state, link), remedy);
}

void judge_gids(const RdmaDevice& device, const RdmaPort& port, Findings& rows) {
  Judgement row = judge(rows, "roce_v2_gid", name_of(device, port));
  row.by("Linux, Documentation/ABI/stable/sysfs-class-infiniband: gid_attrs/types");
  if (port.routed_gids > 0) {
    return row.pass(fmt::format("{} GID{} of RoCE v2, {} of an IP address", port.roce_v2_gids,
                                port.roce_v2_gids == 1 ? "" : "s", port.routed_gids));
  }
  if (port.roce_v2_gids > 0) {
    return row.fail("the port's GIDs of RoCE v2 are link-local: it has no IP address at which others could reach it",
                    fmt::format("Give its interface one: ip addr add ADDRESS/LENGTH dev {}.", interface_of(port)));
  }
  if (port.gids > 0 && port.typed_gids == 0) return row.unknown("the port has GIDs, but their types are unknown");
  row.fail(port.gids == 0 ? "the port has no GID: no other host can be reached through it"
                          : "the port has no GID of RoCE v2: it cannot be reached through a router",
           "Give its interface an IP address, and set RoCE v2 as its mode (cma_roce_mode -m 2).");
}

void judge_mtu(const RdmaDevice& device, const RdmaPort& port, Findings& rows) {
  const std::string subject = name_of(device, port);
  if (port.interfaces.empty()) {
    return judge(rows, "rdma_mtu", subject)
        .unknown("the port's network interface is unknown", "Ask the device: ibv_devinfo -v.");
  }
  for (const core::NetworkInterface& interface : port.interfaces) {
    Judgement row = judge(rows, "rdma_mtu", subject);
    row.by("Linux, include/rdma/ib_addr.h: the MTU of RoCE follows from the interface's");
    const unsigned mtu = core::rdma_mtu_on(interface.mtu);
    if (interface.mtu == 0) {
      row.unknown(fmt::format("the MTU of {} is unknown", interface.name), "Ask the device: ibv_devinfo -v.");
    } else if (mtu < core::kRdmaMtuMost) {
      row.fail(fmt::format("RDMA packets carry {} bytes and could carry {}: {} has an MTU of {}", mtu,
                           core::kRdmaMtuMost, interface.name, interface.mtu),
               fmt::format("Set the MTU to 9000: ip link set {} mtu 9000, and the same on switch and target.",
                           interface.name));
    } else {
      row.pass(fmt::format("RDMA packets carry {} bytes on {} (MTU {}), the most that the device can", mtu,
                           interface.name, interface.mtu));
    }
  }
}

// Judges whether an Ethernet network is kept from dropping packets.
void judge_ecn(const core::NetworkInterface& interface, Judgement row) {
  row.by("NVIDIA MLNX_OFED documentation, Explicit Congestion Notification");
  if (!interface.ecn) {
    return row.unknown(
        fmt::format("the driver of {} shows no file for ECN, so it is unknown whether ECN is on", interface.name),
        "Ask the switch, and on the host: mlnx_qos -i " + interface.name + ".");
  }
  if (*interface.ecn) return row.pass("RoCE's congestion control is on for a priority of " + interface.name);
  row.fail("RoCE's congestion control is off for all priorities of " + interface.name,
           "Switch it on: echo 1 > /sys/class/net/" + interface.name + "/ecn/roce_rp/enable/3, and for roce_np.");
}

void judge_flow_control(const core::NetworkInterface& interface, Judgement row) {
  row.by("Linux, include/uapi/linux/dcbnl.h: DCB_CMD_IEEE_GET");
  const std::string& name = interface.name;
  const auto& priorities = interface.flow_control.priorities;
  if (!priorities) {
    return row.unknown(
        fmt::format("the priority flow control of {} is unknown: {}", name, interface.flow_control.why_unknown),
        fmt::format("Look at it: dcb pfc show dev {}, or mlnx_qos -i {}.", name, name));
  }
  std::vector<unsigned> on;
  for (unsigned priority = 0; priority < 8; ++priority) {
    if ((*priorities >> priority & 1) != 0) on.push_back(priority);
  }
  if (!on.empty()) {
    return row.pass(fmt::format("priority flow control is on for priorit{} {} of {}", on.size() == 1 ? "y" : "ies",
                                fmt::join(on, ", "), name));
  }
  const std::string remedy = fmt::format(
      "Switch it on for RoCE's priority: dcb pfc set dev {} prio-pfc 3:on, and the same on switch and target; a "
      "network "
      "with global pause (ethtool -a {}) needs none.",
      name, name);
  const std::string off = fmt::format("priority flow control is off for all priorities of {}", name);
  if (interface.ecn.value_or(false)) return row.pass(off + ", and congestion control works in its place");
  row.fail(off + ": its network may drop RDMA's packets under load", remedy);
}

void judge_devices(const Machine& machine, Findings& rows) {
  if (machine.rdma.empty()) return judge(rows, "rdma_port").not_applicable("this machine has no RDMA device");
  for (const RdmaDevice& device : machine.rdma) {
    if (device.ports.empty()) judge(rows, "rdma_port", device.name).unknown("the device shows no ports");
    for (const RdmaPort& port : device.ports) {
      judge_port(device, port, rows);
      if (!port.is_ethernet()) {
        judge(rows, "rdma_mtu", name_of(device, port))
            .unknown(
                "the MTU of an InfiniBand port is unknown: the kernel reports it through verbs only, in no file and "
                "not over netlink",
                fmt::format("Ask the device: ibv_devinfo -d {} -i {} (active_mtu should be 4096).", device.name,
                            port.number));
        continue;
      }
      judge_gids(device, port, rows);
      judge_mtu(device, port, rows);
      for (const core::NetworkInterface& interface : port.interfaces) {
        judge_ecn(interface, judge(rows, "ecn", name_of(device, port)));
        judge_flow_control(interface, judge(rows, "pfc", name_of(device, port)));
      }
    }
  }
}

bool is_of_software(const Machine& machine) {
  return !machine.rdma.empty() &&
         std::all_of(machine.rdma.begin(), machine.rdma.end(), [](const RdmaDevice& one) { return one.is_software; });
}

// Judges whether a NIC can register GPU memory.
void judge_registration(const Machine& machine, Findings& rows) {
  Judgement row = judge(rows, "gpu_memory_registration");
  if (!machine.has_gpu()) return row.not_applicable("there is no NVIDIA GPU");
  if (machine.rdma.empty()) return row.not_applicable("there is no RDMA device that could register GPU memory");
  if (is_of_software(machine))
    return row.not_applicable("RDMA is made by software here, which cannot register GPU memory");
  row.may_follow("nvidia_driver");
  row.may_follow("kernel_modules");
  const core::KernelModule* const peermem = machine.evidence.module("nvidia_peermem");
  if (peermem != nullptr && peermem->is_live) return row.pass("by nvidia-peermem, which is loaded");
  row.by(kDmaBufSource);
  const core::NvidiaDriver& driver = machine.nvidia;
  const auto version = version_of(driver.version_text);
  if (!driver.is_loaded || !version) return row.unknown("NVIDIA's driver is not loaded");
  const std::string remedy =
      "Install the driver's open kernel modules on Linux 5.12 or later, or load nvidia-peermem: modprobe "
      "nvidia-peermem.";
  if (driver.is_open && *version >= kDmaBufDriver && machine.platform.kernel >= kDmaBufKernel) {
    return row.pass("by dma-buf, which kernel and driver support; no registration was tried");
  }
  row.fail("nvidia-peermem is not loaded, and kernel and driver do not support dma-buf", remedy);
}

// ---- Remote storage

// The protocol whose packets the CPU handles: "TCP" for "tcp6"; "" for a transport that is neither TCP nor UDP.
std::string through_the_cpu(std::string_view transport) {
  if (transport == "tcp" || transport == "tcp6") return "TCP";
  return transport == "udp" || transport == "udp6" ? "UDP" : "";
}

constexpr const char* kConnectByRdma = "Connect it by RDMA: nvme disconnect, then nvme connect -t rdma.";
constexpr const char* kMountByRdma = "Mount it by RDMA: mount -o proto=rdma,port=20049.";
constexpr const char* kServeByNvme = "Serve it by NVMe over RDMA (nvme connect -t rdma): no direct path takes iSCSI.";

void judge_transport(const Machine& machine, Judgement row, const std::string& transport, const std::string& to,
                     const char* remedy) {
  if (transport == "rdma") {
    return row.pass("RDMA" + to + (is_of_software(machine) ? ", made by software: the CPU moves every byte" : ""));
  }
  if (transport == "fc") return row.pass("Fibre Channel" + to);
  if (transport == "virtio") return row.pass("virtio" + to + ": the host of this virtual machine serves it");
  const std::string by_cpu = through_the_cpu(transport);
  if (by_cpu.empty()) return row.unknown("the transport is unknown" + to);
  if (machine.rdma.empty()) {
    return row.warn(fmt::format("{}{}: the CPU moves every byte, and no direct path takes it", by_cpu, to),
                    fmt::format("Install an RDMA device first. {}", remedy));
  }
  row.fail(fmt::format("{}{}, although this machine has the RDMA device {}: no byte goes directly", by_cpu, to,
                       machine.rdma.front().name),
           remedy);
}

std::string to_target(const core::NvmeController& one) {
  std::string text;
  if (!one.address.empty()) text += " to " + one.address;
  if (!one.subsystem.empty()) text += " (" + one.subsystem + ")";
  return text;
}

bool has_active_port(const Machine& machine) {
  return std::any_of(machine.rdma.begin(), machine.rdma.end(), [](const RdmaDevice& device) {
    return std::any_of(device.ports.begin(), device.ports.end(), [](const RdmaPort& one) { return one.is_active(); });
  });
}

void judge_controllers(const Machine& machine, Findings& rows) {
  for (const core::NvmeController& one : machine.controllers) {
    if (!one.is_remote()) continue;
    if (!one.state.empty() && one.state != "live") {
      Judgement row = judge(rows, "nvme_target", one.name);
      if (one.transport == NvmeTransport::rdma && !has_active_port(machine)) row.may_follow("rdma_port");
      row.fail(fmt::format("the controller is not live but {}{}", one.state, to_target(one)),
               "Check that the target and the network answer: nvme list-subsys, dmesg | grep nvme.");
    }
    judge_transport(machine, judge(rows, "transport", one.name), core::nvme_transport_name(one.transport),
                    to_target(one), kConnectByRdma);
  }
}

// Judges a mount's drives: each transport that leads out of the machine is judged once.
void judge_stack(const Machine& machine, const core::BlockDevice& device, const std::string& mount_point,
                 Findings& rows) {
  for (const core::BlockDevice& below : device.slaves) judge_stack(machine, below, mount_point, rows);
  const std::string transport = device.remote_transport();
  if (!device.slaves.empty() || transport.empty()) return;
  Judgement row = judge(rows, "transport", mount_point);
  std::string to = fmt::format(" to {}", device.disk);
  if (device.is_iscsi()) {
    to += fmt::format(" (iSCSI{}{})", device.iscsi_target.empty() ? "" : ", ", device.iscsi_target);
    const bool has_engine = transport != "tcp" && transport != "rdma" && transport != "unknown";
    if (has_engine) return row.pass(fmt::format("TCP, carried out by the adapter ({}){}", transport, to));
  }
  for (const core::NvmeController& one : machine.controllers) {
    if (device.disk.starts_with(one.name + "n")) row.may_follow("transport", one.name);
  }
  judge_transport(machine, std::move(row), transport, to, device.is_iscsi() ? kServeByNvme : kConnectByRdma);
}

std::string ask_of_server(std::string_view type) {
  const std::string_view known = note_type(type);
  for (const NetworkNote& note : kNetworkNotes) {
    if (note.type == known && note.topic == std::string_view("server") && *note.ask != '\0') {
      return fmt::format("Ask: {}.", note.ask);
    }
  }
  return "";
}

void judge_mounts(const Machine& machine, Findings& rows) {
  for (std::size_t i = 0; i < machine.file_systems.size(); ++i) {
    const core::FileSystem& one = machine.file_systems[i];
    if (one.stack) judge_stack(machine, *one.stack, one.mount.mount_point, rows);
    if (!core::is_network_file_system(one.mount.type)) continue;
    Judgement row = judge(rows, "transport", one.mount.mount_point);
    const std::string &transport = machine.places[i].transport, &client = machine.places[i].client;
    if (transport == "tcp" && one.mount.super_option("proto") == "rdma") {
      row.fail("it was mounted for RDMA, and its bytes go over TCP",
               "Unmount all file systems of this server, and mount them again.");
      continue;
    }
    const std::string to =
        fmt::format(" ({} of {}{}{})", one.mount.type, one.mount.source, client.empty() ? "" : ", by ", client);
    if (transport.empty()) row.unknown("the transport is unknown" + to, ask_of_server(one.mount.type));
    else judge_transport(machine, row, transport, to, kMountByRdma);
  }
}

bool has_transport(const Findings& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const Finding& row) { return std::string_view(row.code) == "transport"; });
}

}  // namespace

void judge_fabric(const Machine& machine, Findings& rows) {
  judge_devices(machine, rows);
  judge_registration(machine, rows);
  judge_links(machine, rows);
  judge_controllers(machine, rows);
  judge_mounts(machine, rows);
  if (!has_transport(rows)) judge(rows, "transport").not_applicable("there is no remote storage here");
}

}  // namespace penstock::facts
