// SPDX-License-Identifier: Apache-2.0

#include "k8s/evidence.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/common/peer_pairs.h"
#include "topology/nvidia_fs_storage.h"

namespace penstock::tools::k8s {
namespace {

PathEvidence closed(const char* rule, std::string sentence, std::string remedy) {
  return {"nvidia-fs", Standing::closed, rule, std::move(sentence), std::move(remedy)};
}

PathEvidence without_hook(const core::GdsEvidence& evidence, const std::string& driver) {
  PathEvidence told =
      closed("gds_local_nvme",
             fmt::format("nvidia-fs is loaded, and the kernel's driver {} has none of its hooks: cuFile "
                         "copies in silence",
                         driver),
             "boot a kernel whose driver has them (Ubuntu's linux-nvidia), or take p2pdma or bounce");
  if (evidence.has_symbols == core::Tristate::yes) return told;
  told.standing = Standing::unknown;
  told.sentence = fmt::format("{} is not registered with nvidia-fs, and the kernel's symbols cannot be read", driver);
  return told;
}

PathEvidence judge_nvidia_fs(const Machine& machine, const core::GdsEvidence& evidence,
                             const core::FileSystem& storage) {
  const std::string& type = storage.mount.type;
  if (!machine.nvidia_fs.is_loaded) {
    return closed("gds_not_loaded", "the module nvidia_fs is not loaded on the node",
                  "gds.enabled, where the node's system has an image; p2pdma and bounce need none");
  }
  const std::string driver(core::nvidia_fs_driver(storage));
  if (driver.empty() && type.starts_with("nfs")) {
    return closed("nfs_by_tcp", "NFS is mounted by TCP", "mount it with proto=rdma, or take bounce");
  }
  const auto& registered = machine.nvidia_fs.storage_drivers;
  const bool is_registered = std::find(registered.begin(), registered.end(), driver) != registered.end();
  const bool is_mapped = storage.stack && storage.stack->kind == core::BlockKind::dm;
  // Of SCSI's driver no kernel is known that has the hooks.
  if (driver.empty() || is_mapped || (driver == "scsi_mod" && !is_registered)) {
    return closed(is_mapped ? "storage_mapper" : "storage_no_direct",
                  fmt::format("under {} lies no drive that nvidia-fs knows", storage.mount.mount_point),
                  "put the data on an NVMe drive with XFS or ext4, or take bounce");
  }
  if (!is_registered) {
    if (!evidence.has_hook(driver)) return without_hook(evidence, driver);
    return {
        "nvidia-fs", Standing::unknown, "gds_local_nvme",
        fmt::format("the driver {} has nvidia-fs's hooks and is not registered with it: nothing has asked yet", driver),
        "run a program that uses cuFile, and look again"};
  }
  if (type == "ext4" && !storage.mount.has_super_option(core::kOrderedData)) {
    return closed("ext4_ordered", "ext4 does not show data=ordered, for which cuFile looks",
                  "mount it with data=ordered, also where that is the default");
  }
  if (!core::nvidia_fs_takes(storage)) {
    return closed("storage_no_direct", type + " is no file system that cuFile takes on this device", "XFS or ext4");
  }
  if (driver == "nvme" && machine.iommu.mode == core::IommuMode::translating &&
      machine.platform.architecture == "x86_64") {
    return closed("iommu_translates", "the IOMMU gives devices addresses of their own",
                  "boot with iommu=pt, or with it off");
  }
  return {"nvidia-fs", Standing::open, "", "", ""};
}

PathEvidence judge_p2pdma(const Machine& machine, const std::vector<PeerPair>& pairs, const core::FileSystem& storage) {
  const auto stop_of = [](const PeerPair& pair) { return core::first_stop(pair.findings); };
  const PeerPair* best = nullptr;
  for (const PeerPair& pair : pairs) {
    if (pair.file_system != &storage) continue;
    if (best == nullptr || (stop_of(*best) != nullptr && stop_of(pair) == nullptr)) best = &pair;
  }
  if (best == nullptr) {
    return {"p2pdma", Standing::closed, "peer_unseen", "the node has no device that offers memory to a drive",
            "run it on a node with a GPU"};
  }
  const core::Finding* const stop = stop_of(*best);
  if (stop == nullptr && machine.platform.is_virtual_machine) {
    return {"p2pdma", Standing::unknown, "p2pdma_needs",
            "the node is a virtual machine: what lies between its drives and GPUs is its host's affair",
            "penstock-k8s verify --read FILE"};
  }
  if (stop == nullptr) return {"p2pdma", Standing::open, "", "", ""};
  const auto& text = core::obstacle_text(stop->obstacle);
  const std::string subject = stop->subject.empty() ? "" : stop->subject + ": ";
  return {"p2pdma", Standing::closed, text.code, subject + text.sentence, text.remedy};
}

bool can_hold_data(const core::FileSystem& storage) {
  return storage.stack.has_value() || core::is_network_file_system(storage.mount.type);
}

}  // namespace

const char* standing_name(Standing standing) {
  constexpr const char* kNames[] = {"closed", "unknown", "open, not proven"};
  return kNames[static_cast<std::size_t>(standing)];
}

std::vector<StorageEvidence> judge_node(const Machine& machine, const core::GdsEvidence& evidence) {
  const std::vector<PeerPair> pairs = peer_pairs(machine);
  std::vector<StorageEvidence> all;
  for (const core::FileSystem& storage : machine.file_systems) {
    if (!can_hold_data(storage)) continue;
    all.push_back({storage.mount.mount_point,
                   storage.mount.type,
                   {judge_p2pdma(machine, pairs, storage), judge_nvidia_fs(machine, evidence, storage)}});
  }
  return all;
}

}  // namespace penstock::tools::k8s
