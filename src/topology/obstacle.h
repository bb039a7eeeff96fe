// SPDX-License-Identifier: Apache-2.0

// The obstacles between device memory and storage: each obstacle to p2pdma with its code, sentence and remedy, in one
// table. For the paths' verdicts, `penstock check` and `penstock explain`.
//
// A Finding is an obstacle met on a machine, a route or a file, with the name of the part that showed it. Findings come
// before any byte moves; their absence proves nothing, so a self-test follows. Numbers and codes are stable.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::core {

enum class Obstacle : std::uint8_t {
  none = 0,
  // The kernel.
  kernel_no_p2pdma = 1,
  kernel_too_old = 2,
  kernel_6_16 = 3,
  // The device that has the memory.
  peer_unseen = 10,
  peer_no_memory = 11,
  gpu_maker = 12,
  gpu_driver = 13,
  driver_no_export = 14,
  driver_too_old_for_kernel = 15,
  uvm_not_loaded = 16,
  static_bar1_off = 17,
  bar_write_combined = 18,
  no_large_bar = 19,
  architecture = 20,
  pointer_not_exportable = 21,  // Found by code that asks the driver about a piece of memory; never by topology/.
  gpu_node = 22,
  memory_plain = 23,  // Found like pointer_not_exportable, from the call that allocated the memory.
  memory_managed = 24,
  memory_pool = 25,
  memory_closed = 26,
  memory_not_rdma_capable = 27,
  memory_unregistered = 28,
  // The bus between device and drive.
  root_ports_apart = 30,
  acs_redirect = 31,
  iommu_translating = 32,
  route_unseen = 33,
  virtual_machine = 34,
  // Block devices.
  nvme_multipath = 40,
  nvme_rdma = 41,
  nvme_tcp = 42,
  nvme_fabrics = 43,
  md_raid = 44,
  md_level = 45,
  md_members_unknown = 46,
  device_mapper = 47,
  loop = 48,
  virtio = 49,
  scsi = 50,
  memory_device = 51,
  null_device = 52,
  other_device = 53,
  stack_unseen = 54,
  iscsi = 55,
  // File systems.
  memory = 60,
  nfs_tcp = 61,
  nfs_rdma = 62,
  network_file_system = 63,
  fuse = 64,
  data_journal = 65,
  checksums = 66,
  overlay = 67,
  no_direct_io = 68,
  file_system = 69,
  file_system_unknown = 70,
  several_devices = 71,
  // One file.
  compressed = 80,
  encrypted = 81,
  verity = 82,
  inline_data = 83,
  shared_extents = 84,
  holes = 85,
  unwritten_extents = 86,
  no_direct_descriptor = 87,
  block_map = 88,
  // One request.
  misaligned = 100,
  extending_write = 101,
};

// The effect of the obstacle on a transfer.
enum class Effect : std::uint8_t {
  refused,      // The kernel or the driver refuses: an error, nothing moved.
  copied,       // It succeeds, and the CPU has copied every byte.
  part_copied,  // It succeeds; the CPU moves some of the bytes, the drive the rest.
  corrupted,    // It succeeds, and bytes may be wrong.
  slower,       // Direct, but it costs time.
};
const char* effect_name(Effect effect);

// certain: the obstacle is there, with its effect. possible: only a test transfer shows its effect.
enum class Certainty : std::uint8_t { possible, certain };
const char* certainty_name(Certainty certainty);

struct ObstacleText {
  Obstacle obstacle = Obstacle::none;
  const char* code = "";      // "device_mapper"
  const char* sentence = "";  // Begins in lower case, and has no full stop.
  const char* remedy = "";    // Begins in lower case, and has no full stop; never empty.
  Effect effect = Effect::refused;
};
// All of them, in the order of their numbers.
std::span<const ObstacleText> obstacle_texts();
// Returns "unknown" and empty texts for an unknown number.
const ObstacleText& obstacle_text(Obstacle obstacle);

struct Finding {
  Obstacle obstacle = Obstacle::none;
  Certainty certainty = Certainty::certain;
  std::string subject;  // The device or mount that has it: "nvme7n1", "0000:17:00.0", "/scratch"; may be empty.

  const char* code() const { return obstacle_text(obstacle).code; }
  std::string remedy() const;  // It names the subject in place of the words in brackets.
  Effect effect() const { return obstacle_text(obstacle).effect; }
  // "nvme7n1: NVMe over TCP moves bytes by the CPU"
  std::string sentence() const;
  // True if it is certain and no byte would go directly, so that a test is pointless.
  bool stops() const;
  // True if it is certain and the CPU moves bytes although O_DIRECT is asked for, also when they go to host memory.
  bool has_cpu_move_bytes() const;
  friend bool operator==(const Finding&, const Finding&) = default;
};
using Findings = std::vector<Finding>;
inline Finding certain(Obstacle obstacle, std::string subject = "") {
  return {obstacle, Certainty::certain, std::move(subject)};
}
inline Finding possible(Obstacle obstacle, std::string subject = "") {
  return {obstacle, Certainty::possible, std::move(subject)};
}

// The first finding that stops(); null if there is none.
const Finding* first_stop(std::span<const Finding> findings);
void append(Findings& findings, Findings more);

}  // namespace penstock::core
