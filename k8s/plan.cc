// SPDX-License-Identifier: Apache-2.0

#include "k8s/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "facts/operator_versions.h"
#include "k8s/kernel_needs.h"
#include "k8s/plan_objects.h"
#include "penstock/penstock.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

facts::Version version_or_none(const std::string& text) { return facts::version_of(text).value_or(facts::Version{}); }

// The kernel's release, or that which the system was installed with; "" if unknown.
std::string kernel_of(const Answers& answers) {
  if (!answers.kernel.empty()) return answers.kernel;
  struct Release {
    const char* os;
    const char* kernel;
  };
  static constexpr Release kReleases[] = {{"ubuntu22.04", "5.15"}, {"ubuntu24.04", "6.8"}, {"debian12", "6.1"},
                                          {"debian13", "6.12"},    {"rhel8", "4.18"},      {"rhel9", "5.14"},
                                          {"rhel10", "6.12"},      {"rhcos", "5.14"}};
  for (const Release& release : kReleases) {
    if (answers.os.starts_with(release.os)) return release.kernel;
  }
  return "";
}

bool gpu_can(const std::string& gpu) {
  return std::any_of(facts::kP2pdmaGpus.begin(), facts::kP2pdmaGpus.end(), [&](const std::string& name) {
    const std::size_t at = gpu.find(name);
    const std::size_t end = at + name.size();
    // "L4" must not match "L40S", nor "A40" "A400".
    return at != std::string::npos && (end == gpu.size() || std::isalnum(static_cast<unsigned char>(gpu[end])) == 0);
  });
}

bool is_local(const std::string& storage) { return !storage.starts_with("nfs"); }

class Refusals {
 public:
  explicit Refusals(const Answers& answers, std::vector<Refusal>& list) : answers_(answers), list_(list) {}

  void judge() {
    judge_storage();
    if (answers_.path == "nvidia-fs") judge_nvidia_fs();
    if (answers_.path == "p2pdma") judge_p2pdma();
    if (answers_.path != "bounce" && is_local(answers_.storage)) judge_machine();
    if (answers_.path != "bounce" && answers_.strict_iommu && is_local(answers_.storage)) {
      refuse("iommu_translates",
             "drive and GPU speak past the processor, and a strict IOMMU forbids it or sends all through it",
             "boot the nodes with iommu=pt, or take --path bounce");
    }
  }

  void judge_storage() {
    if (answers_.path == "bounce") return;
    if (answers_.storage == "nfs-rdma" && answers_.path == "p2pdma") {
      refuse("p2pdma_needs", "peer-to-peer DMA needs an NVMe drive in the node, and NFS is none",
             "take --path nvidia-fs for NFS over RDMA, or --path bounce");
    }
    if (answers_.storage == "nfs") {
      refuse("nfs_by_tcp", "NFS over TCP has no direct path: the processor copies its bytes",
             "take --storage nfs-rdma with --path nvidia-fs, or --path bounce");
    }
    if (answers_.storage == "lvm" || answers_.storage == "luks") {
      const bool is_lvm = answers_.storage == "lvm";
      refuse(
          is_lvm ? "storage_mapper" : "storage_encrypted",
          fmt::format("{} puts the kernel's device mapper between file system and drive, which no direct path passes",
                      is_lvm ? "LVM" : "LUKS"),
          "put the file system on the drive or a partition of it, or take --path bounce");
    }
  }

 private:
  void refuse(const char* rule, const std::string& sentence, const std::string& remedy) {
    list_.push_back({rule, sentence, remedy});
  }

  void judge_nvidia_fs() {
    if (!answers_.has_host_driver) judge_image();
    const std::string kernel = kernel_of(answers_);
    if (const auto stop = kernel_stop(PENSTOCK_PATH_VENDOR, kernel)) {
      refuse("gds_versions", stop->sentence, stop->remedy + " Or take --path bounce.");
    } else if (!answers_.has_host_driver) {
      for (const facts::Finding& one : nvidia_fs_stops(gds_of(answers_), driver_of(answers_), kernel)) {
        if (one.state == facts::State::fail) refuse("gds_versions", one.sentence, one.remedy);
      }
    }
    const bool has_hooks = answers_.kernel.find("nvidia") != std::string::npos;
    if (is_local(answers_.storage) && !has_hooks) {
      refuse("gds_local_nvme",
             "an NVMe driver without NVIDIA's hooks, as kernels of distributions have it, makes cuFile copy in silence "
             "although nvidia-fs is loaded",
             "boot Ubuntu's linux-nvidia kernel and tell it (--kernel 6.8.0-1051-nvidia), or take --path p2pdma or "
             "bounce");
    }
    if (answers_.storage == "nfs-rdma" && answers_.nvme_in_use) {
      refuse(
          "nfsrdma_with_nvme",
          "the network operator's driver with ENABLE_NFSRDMA also brings an NVMe driver, and does not load where NVMe "
          "drives are in use",
          "use nodes whose system is on another drive, or install OFED on the host");
    }
  }

  void judge_image() {
    if (answers_.os.empty()) {
      refuse("gds_os", "--path nvidia-fs needs to know the nodes' system, since images of nvidia-fs exist for few",
             "--os NAME");
    } else if (!*facts::has_gds_image(answers_.os)) {
      refuse("gds_os",
             fmt::format(
                 "there is no image of nvidia-fs for {}: its container fails again and again, the driver's pod never "
                 "gets ready, and the node loses its GPUs",
                 answers_.os),
             "use nodes with Ubuntu 22.04, 24.04 or OpenShift; else take --path p2pdma or bounce");
    }
  }

  // Of a direct path to drives in the node.
  void judge_machine() {
    if (answers_.cloud.empty()) return;
    const std::string page = answers_.cloud_page;
    refuse(
        answers_.path == "p2pdma" ? "p2pdma_needs" : "gds_local_nvme",
        fmt::format("a node of {} is a virtual machine: nobody is known to have seen one whose drives reach the "
                    "GPU's memory",
                    answers_.cloud),
        (page.empty() ? "" : page + " says what there is; ") + std::string("else take a physical machine, or bounce"));
  }

  void judge_p2pdma() {
    const facts::Version kernel = version_or_none(kernel_of(answers_));
    const facts::Version driver = version_or_none(driver_of(answers_));
    if (!answers_.gpu.empty() && !gpu_can(answers_.gpu)) {
      refuse("p2pdma_needs", fmt::format("{} is none of the GPUs that NVIDIA names for it", answers_.gpu),
             "take another node, or another path");
    }
    if (answers_.os.empty() && answers_.kernel.empty()) {
      refuse("p2pdma_needs", "--path p2pdma needs to know the nodes' kernel", "give --os NAME or --kernel RELEASE");
    } else if (kernel == facts::Version{}) {
      refuse(
          "p2pdma_needs",
          answers_.kernel.empty()
              ? fmt::format("--path p2pdma needs to know the nodes' kernel, and none is known of {}", answers_.os)
              : fmt::format("--path p2pdma needs to know the nodes' kernel, and '{}' is no release", answers_.kernel),
          "give --kernel RELEASE, as uname -r prints it on a node, such as 6.8.0-51-generic");
    } else if (const auto stop = kernel_stop(PENSTOCK_PATH_P2PDMA, kernel_of(answers_))) {
      refuse("p2pdma_needs", stop->sentence, stop->remedy + " Tell it by --kernel RELEASE, or take --path bounce.");
    }
    if (driver == facts::Version{}) {
      refuse("p2pdma_needs", fmt::format("'{}' is no release of NVIDIA's driver", driver_of(answers_)),
             "take --driver-version 580.126.20 or later, or --path bounce");
    } else if (driver < facts::kP2pdmaDriver) {
      refuse("p2pdma_needs",
             fmt::format("driver {} has no P2PDMA: {} is the first", driver_of(answers_),
                         facts::version_text(facts::kP2pdmaDriver)),
             "take --driver-version 580.126.20 or later, or --path bounce");
    } else if (kernel >= facts::kP2pdmaNewKernel && driver < facts::kP2pdmaNewDriver) {
      refuse(
          "p2pdma_needs",
          fmt::format("driver {} fails with P2PDMA on Linux {} and later: {} is the first there", driver_of(answers_),
                      facts::version_text(facts::kP2pdmaNewKernel), facts::version_text(facts::kP2pdmaNewDriver)),
          "take --driver-version 595.91.07 or later, or --path bounce");
    }
  }

  const Answers& answers_;
  std::vector<Refusal>& list_;
};

void add_driver_notes(const Answers& answers, std::vector<std::string>& notes) {
  if (answers.has_host_driver && answers.path != "bounce") {
    notes.emplace_back(
        answers.path == "p2pdma"
            ? "The driver is the nodes' own, and the operator gives it no parameters: write options nvidia "
              "NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\" to a file in /etc/modprobe.d of "
              "each node, and load the driver anew."
            : "The driver is the nodes' own, so the operator loads no nvidia-fs: install and load it on each node "
              "(package nvidia-gds, modprobe nvidia-fs) before the device plugin starts. Operators before v26.3.3 do "
              "not see that by themselves: set GDS_ENABLED=true in devicePlugin.env.");
  }
  if (answers.path == "nvidia-fs") {
    notes.emplace_back(goes_by_libcufile(answers)
                           ? "The job goes by NVIDIA's libcufile, which --image must have beside Penstock."
                           : "The job goes by Penstock's own client of nvidia-fs, which is experimental: its image has "
                             "no libcufile of NVIDIA's. --with-libcufile is for one that has.");
    notes.emplace_back(
        "A loaded nvidia_fs proves nothing: only the workload's job does, which fails if any byte takes "
        "another path.");
  }
}

void add_notes(const Answers& answers, std::vector<std::string>& notes) {
  if (answers.path == "p2pdma") {
    notes.emplace_back(
        "P2PDMA has been tried on no node under Kubernetes: the workload's job tells, since it fails if any "
        "byte takes another path.");
    notes.emplace_back(
        fmt::format("GPUs that can: {}; none in a virtual machine with vGPU or with confidential computing.",
                    fmt::join(facts::kP2pdmaGpus, ", ")));
  }
  if (answers.path != "bounce" && !answers.openshift && is_local(answers.storage)) {
    notes.emplace_back("Kernel arguments are no operator's: boot the nodes with iommu=pt, or with the IOMMU off.");
  }
  add_driver_notes(answers, notes);
  if (is_local(answers.storage)) {
    notes.emplace_back(
        "The volume names one node and one folder, where the drive must be mounted already: replace NODE and "
        "/mnt/nvme0, or let a local-volume provisioner make them.");
  }
  if (const std::string stop = too_old_for_image(answers.image, driver_of(answers)); !stop.empty()) {
    notes.push_back(fmt::format("The image {} {}: take another of the two, unless the image brings cuda-compat.",
                                core::shown(answers.image), stop));
  }
  if (answers.image.starts_with("localhost/")) {
    notes.emplace_back("--image is one that each node would have to have by itself: name the registry's.");
  }
  if (answers.runtime.empty() && !has_seccomp_profile(answers)) {
    notes.emplace_back(
        "The runtime's own seccomp profile may block io_uring, and then preadv2 moves the bytes for more CPU time: "
        "with --runtime NAME-VERSION the pods name a profile that allows it, where that is so.");
  }
  if (has_seccomp_profile(answers)) {
    notes.emplace_back(
        "The seccomp profile must lie on each node, in /var/lib/kubelet/seccomp/profiles/penstock.json: it "
        "is deploy/seccomp/penstock.json.");
  }
}

}  // namespace

std::vector<Refusal> refusals_of(const Answers& answers) {
  std::vector<Refusal> refusals;
  Refusals(answers, refusals).judge();
  return refusals;
}

std::vector<Refusal> refusals_of_storage(const Answers& answers) {
  std::vector<Refusal> refusals;
  Refusals(answers, refusals).judge_storage();
  return refusals;
}

Deployment plan_deployment(const Answers& answers) {
  Deployment deployment;
  deployment.refusals = refusals_of(answers);
  if (!deployment.refusals.empty()) return deployment;
  add_objects(answers, deployment.objects);
  add_notes(answers, deployment.notes);
  return deployment;
}

}  // namespace penstock::tools::k8s
