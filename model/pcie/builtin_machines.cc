// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/builtin_machines.h"

#include <fmt/format.h>

#include "model/pcie/machine_builder.h"

namespace penstock::model {
namespace {

constexpr const char* kSource = "built-in machine";

std::string numbered(const char* what, int number) { return fmt::format("{}{}", what, number); }

// 16 GPUs. Each of four root ports has a switch with two more below it; each of those has two GPUs, a 100 Gb/s NIC and
// a RAID card. Its maker states 50 GB/s from host memory, through four Gen3 x16 ports, and nearly 200 without it.
Machine dgx_2(const PcieConstants& constants) {
  MachineBuilder builder("dgx-2", kSource, constants);
  for (int socket = 0; socket < 2; ++socket) builder.root(numbered("socket", socket));
  for (int tree = 0; tree < 4; ++tree) {
    const int top = builder.pci_switch(numbered("switch", tree), tree / 2, 3, 16);
    for (int half = 0; half < 2; ++half) {
      const int pair = 2 * tree + half;
      const int below = builder.pci_switch(fmt::format("switch{}{}", tree, half == 0 ? "a" : "b"), top, 3, 16);
      builder.gpu(numbered("gpu", 2 * pair), below, 3, 16);
      builder.gpu(numbered("gpu", 2 * pair + 1), below, 3, 16);
      builder.nic(numbered("nic", pair), below, 3, 16, 12.5 * kGiga);
      const int raid = builder.drive(numbered("raid", pair), below, 3, 16);
      builder.node(raid).read_rate = builder.node(raid).write_rate = 14 * kGiga;
    }
  }
  return builder.take();
}

// Eight GPUs, four switches; under each two GPUs, two 400 Gb/s NICs and two drives.
Machine four_switches(const char* name, unsigned drive_generation, const PcieConstants& constants) {
  MachineBuilder builder(name, kSource, constants);
  for (int socket = 0; socket < 2; ++socket) builder.root(numbered("socket", socket));
  for (int tree = 0; tree < 4; ++tree) {
    const int below = builder.pci_switch(numbered("switch", tree), tree / 2, 5, 16);
    for (int i = 2 * tree; i < 2 * tree + 2; ++i) {
      builder.gpu(numbered("gpu", i), below, 5, 16);
      builder.nic(numbered("nic", i), below, 5, 16, 50 * kGiga);
      builder.drive(numbered("nvme", i), below, drive_generation, 4);
    }
  }
  return builder.take();
}

Machine dgx_h100(const PcieConstants& constants) { return four_switches("dgx-h100", 4, constants); }

// Eight GPUs, each at its own root port, as a guest sees them. Host memory as measured: four GPUs on both sockets at
// once get 177 GB/s.
Machine hgx_h200(const PcieConstants& constants) {
  MachineBuilder builder("hgx-h200", kSource, constants);
  for (int socket = 0; socket < 2; ++socket) {
    builder.root(numbered("socket", socket));
    builder.node(socket).memory_rate = 88.5 * kGiga;
  }
  for (int i = 0; i < 8; ++i) builder.gpu(numbered("gpu", i), i / 4, 5, 16);
  for (int i = 0; i < 4; ++i) builder.drive(numbered("nvme", i), i / 2, 5, 4);
  for (int i = 0; i < 8; ++i) builder.nic(numbered("nic", i), i / 4, 5, 16, 50 * kGiga);
  return builder.take();
}

// As published: eight GPUs and their drives behind two Gen5 switches whose crossbars lose time at every change of
// stream.
Machine two_switches(const PcieConstants& constants) {
  MachineBuilder builder("two-switch-server", kSource, constants);
  builder.root("socket0");
  builder.node(0).memory_rate = 63 * kGiga;
  for (int tree = 0; tree < 2; ++tree) {
    const int below = builder.pci_switch(numbered("switch", tree), 0, 5, 16);
    Node& crossbar = builder.node(below);
    crossbar.crossbar_up_rate = constants.crossbar_up_gigabytes_per_second * kGiga;
    crossbar.crossbar_down_rate = constants.crossbar_down_gigabytes_per_second * kGiga;
    crossbar.change_seconds = constants.stream_change_ns * 1e-9;
    crossbar.interleave_bytes = constants.interleave_bytes;
    for (int i = 4 * tree; i < 4 * tree + 4; ++i) {
      builder.gpu(numbered("gpu", i), below, 5, 16);
      builder.drive(numbered("nvme", i), below, 5, 4);
    }
    builder.nic(numbered("nic", tree), below, 5, 16, 100 * kGiga);
  }
  return builder.take();
}

// Four L40S with Gen4 x16 links and four Gen5 drives, all at root ports.
Machine four_l40s(const PcieConstants& constants) {
  MachineBuilder builder("four-l40s", kSource, constants);
  builder.root("socket0");
  for (int i = 0; i < 4; ++i) builder.gpu(numbered("gpu", i), 0, 4, 16);
  for (int i = 0; i < 4; ++i) builder.node(builder.drive(numbered("nvme", i), 0, 5, 4)).read_rate = 14.5 * kGiga;
  return builder.take();
}

// A compute tray of a GB300 NVL72, whose tree was shown at Hot Chips 2025: each of four NICs of 800 Gb/s has a switch
// of 48 Gen6 lanes in it, with a B300 at Gen6 x16, a Grace CPU at Gen5 x16 and a drive at Gen5 x4. NVLink between CPUs
// and GPUs is not modelled.
Machine gb300_tray(const PcieConstants& constants) {
  MachineBuilder builder("gb300-tray", kSource, constants);
  for (int socket = 0; socket < 2; ++socket) builder.root(numbered("grace", socket));
  for (int i = 0; i < 4; ++i) {
    const int below = builder.pci_switch(numbered("switch", i), i / 2, 5, 16);
    builder.gpu(numbered("gpu", i), below, 6, 16);
    builder.nic(numbered("nic", i), below, 6, 16, 100 * kGiga);
    builder.drive(numbered("nvme", i), below, 5, 4);
  }
  return builder.take();
}

Machine workstation(const PcieConstants& constants) {
  MachineBuilder builder("workstation", kSource, constants);
  builder.root("cpu");
  builder.node(0).memory_rate = 63 * kGiga;
  builder.node(0).copy_rate = 20 * kGiga;
  builder.gpu("gpu0", 0, 5, 16);
  builder.drive("nvme0", 0, 5, 4);
  builder.drive("nvme1", 0, 4, 4);
  builder.nic("nic0", 0, 3, 4, 1.25 * kGiga);
  return builder.take();
}

// 128 nodes of eight GPUs, each GPU with a NIC beside it; 16 nodes to a leaf, leaves to a spine with half the rate, and
// 64 storage servers on the spine: 3.2 TB/s in all.
Machine fleet(const PcieConstants& constants) {
  MachineBuilder builder("fleet", kSource, constants);
  const int spine = builder.fabric("spine", kNone, 0);
  for (int i = 0; i < 64; ++i)
    builder.server(numbered("storage", i), spine, constants.storage_server_gigabytes_per_second * kGiga);
  for (int host = 0; host < 128; ++host) {
    if (host % 16 == 0) builder.fabric(numbered("leaf", host / 16), spine, 8 * 16 * 50 * kGiga / 2);
    const int leaf = builder.machine().find(numbered("leaf", host / 16));
    const std::string name = numbered("node", host);
    const int root = builder.root(name, name);
    for (int tree = 0; tree < 4; ++tree) {
      const int below = builder.pci_switch(fmt::format("{}-switch{}", name, tree), root, 5, 16);
      for (int i = 2 * tree; i < 2 * tree + 2; ++i) {
        builder.gpu(fmt::format("{}-gpu{}", name, i), below, 5, 16);
        const int nic = builder.nic(fmt::format("{}-nic{}", name, i), below, 5, 16, 50 * kGiga);
        builder.node(nic).fabric = leaf;
      }
    }
  }
  return builder.take();
}

}  // namespace

const std::vector<BuiltinMachine>& builtin_machines() {
  static const std::vector<BuiltinMachine> machines = {
      {"dgx-2", "16 V100, PCIe Gen3, two levels of switches, 8 NICs of 100 Gb/s, 8 RAID cards", dgx_2},
      {"dgx-h100", "8 H100, 4 Gen5 switches, 8 NICs of 400 Gb/s, 8 Gen4 drives", dgx_h100},
      {"hgx-h200", "8 H200 at root ports of their own, 4 Gen5 drives, 8 NICs of 400 Gb/s", hgx_h200},
      {"two-switch-server", "8 GPUs and 8 Gen5 drives behind 2 switches that pay for changing streams", two_switches},
      {"four-l40s", "4 L40S on Gen4 x16, 4 Gen5 drives, no switch", four_l40s},
      {"gb300-tray", "4 B300 on Gen6 x16, each with a NIC of 800 Gb/s and a Gen5 drive at that NIC's switch; composed",
       gb300_tray},
      {"workstation", "one Gen5 GPU, a Gen5 and a Gen4 drive, two channels of DDR5", workstation},
      {"fleet", "128 nodes with 8 GPUs and 8 NICs each, 64 storage servers behind a fabric", fleet},
  };
  return machines;
}

Machine builtin_machine(std::string_view name, const PcieConstants& constants) {
  for (const BuiltinMachine& machine : builtin_machines()) {
    if (machine.name == name) return machine.make(constants);
  }
  throw InputError(fmt::format("there is no built-in machine '{}'; --list-machines names them", name));
}

}  // namespace penstock::model
