// SPDX-License-Identifier: Apache-2.0

// Checks storage: whether volumes of a class support direct I/O, and transfers by a device, at all.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "facts/storage_kind.h"
#include "k8s/checks.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

// Identifies by a part of the provisioner's name what is between file system and drives.
struct Provisioner {
  std::string_view part;
  const char* rule;
  const char* what;
};
constexpr Provisioner kProvisioners[] = {
    {"topolvm", "storage_mapper", "LVM"},
    {"lvm", "storage_mapper", "LVM"},
    {"localdisk.csi.acstor", "storage_mapper", "a stripe of the device mapper"},
    {"zfs", "storage_no_direct", "ZFS"},
    {"rbd.csi.ceph", "storage_no_direct", "Ceph RBD"},
    {"kubernetes.io/rbd", "storage_no_direct", "Ceph RBD"},
    {"cephfs", "storage_no_direct", "CephFS"},
    {"ebs.csi.aws", "storage_no_direct", "a disk over the network"},
    {"pd.csi.storage.gke", "storage_no_direct", "a disk over the network"},
    {"disk.csi.azure", "storage_no_direct", "a disk over the network"},
    {"s3.csi", "storage_no_direct", "a file system in user space"},
    {"gcsfuse", "storage_no_direct", "a file system in user space"},
    {"juicefs", "storage_no_direct", "a file system in user space"},
    {"blob.csi.azure", "storage_no_direct", "a file system in user space"},
    {"longhorn", "storage_no_direct", "a disk over the network"},
};

const Value& options_of(const Object& object) {
  return object.kind == "StorageClass" ? object["mountOptions"] : object["spec.mountOptions"];
}

bool has_option(const Object& object, std::string_view wanted) {
  const auto& members = options_of(object).members;
  return std::any_of(members.begin(), members.end(), [&](const Member& option) {
    return has_part("," + option.value->text + ",", "," + std::string(wanted) + ",");
  });
}

std::string file_system_of(const Object& object) {
  for (const char* key : {"spec.local.fsType", "spec.csi.fsType"}) {
    if (object[key].is_text()) return object[key].text;
  }
  for (const Member& parameter : object["parameters"].members) {
    if (parameter.key == "csi.storage.k8s.io/fstype" || parameter.key == "fsType" || parameter.key == "fstype") {
      return parameter.value->text;
    }
  }
  return "";
}

std::string provisioner_of(const Object& object) {
  return object.kind == "StorageClass" ? object["provisioner"].text : object["spec.csi.driver"].text;
}

void check_ext4(const Object& object, Severity severity, Findings& findings) {
  if (has_option(object, "data=journal")) {
    findings.add("ext4_journal", object, options_of(object).place, {"ext4 with data=journal takes no direct I/O"});
    return;
  }
  if (file_system_of(object) != "ext4" || has_option(object, core::kOrderedData)) return;
  findings.add("ext4_ordered", object, options_of(object).is_there() ? options_of(object).place : object.root->place,
               {"cuFile wants ext4's mount to show data=ordered, which a default mount does not: it goes through the "
                "page cache then, and says nothing",
                "", severity});
}

void check_encryption(const Object& object, Severity severity, Findings& findings) {
  for (const Member& parameter : object["parameters"].members) {
    const bool is_on = parameter.value->is_true() || parameter.value->text == "true";
    const bool names_it = has_part(parameter.key, "encrypt") || has_part(parameter.key, "luks");
    if (!(names_it && is_on) && !has_part(parameter.value->text, "luks")) continue;
    findings.add("storage_encrypted", object, parameter.place,
                 {"encrypted volumes pass through the CPU: no drive can send to a GPU what it must decrypt first", "",
                  severity});
  }
}

void check_provisioner(const Object& object, Severity severity, Findings& findings) {
  const std::string provisioner = provisioner_of(object);
  const auto* found = std::find_if(std::begin(kProvisioners), std::end(kProvisioners),
                                   [&](const Provisioner& one) { return has_part(provisioner, one.part); });
  if (found == std::end(kProvisioners)) return;
  findings.add(found->rule, object, place_of(object, object.kind == "StorageClass" ? "provisioner" : "spec.csi.driver"),
               {fmt::format("{} is between the pod and the drives, and no direct path goes through it", found->what),
                "", severity});
}

void check_nfs_transport(const Object& object, Severity severity, Findings& findings) {
  if (storage_of(object) != "nfs") return;
  const Value& options = options_of(object);
  findings.add("nfs_by_tcp", object, options.is_there() ? options.place : object.root->place,
               {"NFS by TCP has no direct path into a GPU", "", severity});
}

// The claims that pods with GPUDirect Storage mount, with their volumes and classes.
class Used {
 public:
  explicit Used(const Cluster& cluster) {
    for (const Pod& pod : cluster.pods) {
      if (!pod.uses_gds()) continue;
      for (const Member& volume : (*pod.spec)["volumes"].members) {
        claims_.insert((*volume.value)["persistentVolumeClaim.claimName"].text);
        classes_.insert((*volume.value)["ephemeral.volumeClaimTemplate.spec.storageClassName"].text);
      }
      for (const Member& claim : (*pod.object)["spec.volumeClaimTemplates"].members) {
        classes_.insert((*claim.value)["spec.storageClassName"].text);
      }
    }
    for (const Object* claim : cluster.of_kind("PersistentVolumeClaim")) {
      if (!claims_.contains(claim->name)) continue;
      classes_.insert((*claim)["spec.storageClassName"].text);
      volumes_.insert((*claim)["spec.volumeName"].text);
    }
    classes_.erase("");
    volumes_.erase("");
  }

  bool has(const Object& object) const {
    if (has_part(object.name, "gds") || has_part(object.name, "gpudirect")) return true;
    if (object.kind == "StorageClass") return classes_.contains(object.name);
    return volumes_.contains(object.name) || claims_.contains(object["spec.claimRef.name"].text) ||
           classes_.contains(object["spec.storageClassName"].text);
  }

 private:
  std::set<std::string> claims_, classes_, volumes_;
};

}  // namespace

void check_storage(const Cluster& cluster, Findings& findings) {
  const Used used(cluster);
  const bool has_gds = cluster.has_gds();
  for (const Object& object : cluster.objects) {
    if (object.kind != "StorageClass" && object.kind != "PersistentVolume") continue;
    if (!used.has(object) && !has_gds) continue;
    // Storage that no pod here uses may have another purpose.
    const Severity severity = used.has(object) ? Severity::warning : Severity::note;
    check_volume(object, severity, findings);
  }
}

void check_volume(const Object& object, Severity severity, Findings& findings) {
  check_ext4(object, severity, findings);
  check_encryption(object, severity, findings);
  check_provisioner(object, severity, findings);
  check_nfs_transport(object, severity, findings);
}

std::string storage_of(const Object& object) {
  const bool is_nfs = object["spec.nfs"].is_there() || provisioner_of(object).starts_with("nfs.csi");
  if (!is_nfs) return file_system_of(object);
  return has_option(object, "proto=rdma") || has_option(object, "rdma") ? "nfs-rdma" : "nfs";
}

}  // namespace penstock::tools::k8s
