// SPDX-License-Identifier: Apache-2.0

#include "k8s/plan_objects.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

#include "facts/operator_versions.h"
#include "facts/process.h"
#include "facts/storage_kind.h"
#include "k8s/node_objects.h"

namespace penstock::tools::k8s {
namespace {

using Json = nlohmann::ordered_json;

const facts::OperatorVersion& release_of(const Answers& answers) {
  const facts::OperatorVersion* const found = facts::operator_version(answers.operator_version);
  return found != nullptr ? *found : facts::operator_versions().back();
}

bool has_operator(const Answers& answers) { return answers.path != "bounce"; }
std::string operator_namespace(const Answers& answers) {
  return answers.openshift ? "nvidia-gpu-operator" : "gpu-operator";
}

// What a path needs of the pods that take it. The switches are those of facts/, by the path that the job requires.
struct PathSetup {
  std::string_view path;  // As the user asks for it.
  const char* required;   // As the library calls it.
  const char* variable;   // A variable for the container's runtime; "" for none.
  const char* value;
  const char* cufile_key;  // A key of NVIDIA's library, which it needs for the path; "" for none.
};
constexpr PathSetup kPathSetups[] = {{"nvidia-fs", "nvfs", "NVIDIA_GDS", "enabled", ""},
                                     {"p2pdma", "p2pdma", "", "", "use_pci_p2pdma"},
                                     {"bounce", "bounce", "", "", ""}};
// nvidia-fs by NVIDIA's own library, where the image has it.
constexpr PathSetup kByVendor = {"nvidia-fs", "vendor", "NVIDIA_GDS", "enabled", ""};
const PathSetup& setup_of(const Answers& answers) {
  if (answers.path == kByVendor.path && goes_by_libcufile(answers)) return kByVendor;
  for (const PathSetup& each : kPathSetups) {
    if (each.path == answers.path) return each;
  }
  return kPathSetups[std::size(kPathSetups) - 1];
}

// The annotation by which lint leaves out what was decided here.
Json decided(const std::string& rule, const std::string& why) {
  return {{"penstock.io/lint-ignore", rule + ": " + why}};
}

Json metadata(const std::string& name, const std::string& name_space = "") {
  Json made = {{"name", name}};
  if (!name_space.empty()) made["namespace"] = name_space;
  return made;
}

// The keys that Helm's values, ClusterPolicy and NVIDIADriver share; only the driver's place differs.
Json driver_keys(const Answers& answers) {
  if (answers.has_host_driver) return {{"enabled", false}};
  Json driver = {{"kernelModuleType", "open"}};
  if (!answers.driver_version.empty()) driver["version"] = answers.driver_version;
  if (answers.path == "p2pdma") driver["kernelModuleConfig"] = {{"name", "penstock-driver-parameters"}};
  return driver;
}

Json gds_keys(const Answers& answers) {
  return {{"enabled", true},
          {"repository", "nvcr.io/nvidia/cloud-native"},
          {"image", "nvidia-fs"},
          {"version", gds_of(answers)}};
}

Json rdma_keys(const Answers& answers) { return {{"enabled", answers.storage == "nfs-rdma"}}; }

// Of the operator's own nvidia-fs, which it loads only with its own driver.
bool has_gds(const Answers& answers) { return answers.path == "nvidia-fs" && !answers.has_host_driver; }

Rendered helm_values(const Answers& answers) {
  Json values = {{"driver", driver_keys(answers)}};
  if (has_gds(answers)) {
    values["driver"]["rdma"] = rdma_keys(answers);
    values["gds"] = {{"enabled", true}};
  }
  return {"gpu-operator-values",
          fmt::format("Values of the chart gpu-operator {}: helm upgrade --install gpu-operator nvidia/gpu-operator "
                      "-n {} --version {} -f THIS_FILE",
                      release_of(answers).release, operator_namespace(answers), release_of(answers).release),
          values};
}

Rendered cluster_policy(const Answers& answers) {
  Json spec = {{"operator", answers.openshift ? Json{{"use_ocp_driver_toolkit", true}} : Json::object()},
               {"daemonsets", Json::object()},
               {"driver", driver_keys(answers)},
               {"toolkit", {{"enabled", true}}},
               {"devicePlugin", {{"enabled", true}}},
               {"dcgm", {{"enabled", true}}},
               {"dcgmExporter", {{"enabled", true}}},
               {"gfd", {{"enabled", true}}},
               {"nodeStatusExporter", {{"enabled", false}}}};
  spec["driver"]["enabled"] = !answers.has_host_driver;
  if (has_gds(answers)) {
    spec["driver"]["rdma"] = rdma_keys(answers);
    spec["gds"] = gds_keys(answers);
  }
  return {"cluster-policy", "All nine keys are required; what is empty is the operator's own choice.",
          Json{{"apiVersion", "nvidia.com/v1"},
               {"kind", "ClusterPolicy"},
               {"metadata", metadata(answers.openshift ? "gpu-cluster-policy" : "cluster-policy")},
               {"spec", spec}}};
}

Rendered nvidia_driver(const Answers& answers) {
  Json spec = {{"driverType", "gpu"}, {"repository", "nvcr.io/nvidia"}, {"image", "driver"}};
  spec["version"] = driver_of(answers);
  spec.update(driver_keys(answers));
  if (release_of(answers).release == std::string("v26.7.0")) spec["default"] = true;
  if (answers.path == "nvidia-fs") {
    spec["rdma"] = rdma_keys(answers);
    spec["gds"] = gds_keys(answers);
  }
  return {
      "nvidia-driver",
      "kernelModuleType is open: with auto the operator refuses gds. It counts where driver.nvidiaDriverCRD.enabled is "
      "true in the chart's values.",
      Json{{"apiVersion", "nvidia.com/v1alpha1"},
           {"kind", "NVIDIADriver"},
           {"metadata", metadata("penstock")},
           {"spec", spec}}};
}

Rendered driver_parameters(const Answers& answers) {
  return {"driver-parameters",
          "P2PDMA needs GPU memory mapped as one static BAR1. A loaded driver takes them when its pod starts anew.",
          Json{{"apiVersion", "v1"},
               {"kind", "ConfigMap"},
               {"metadata", metadata("penstock-driver-parameters", operator_namespace(answers))},
               {"data", {{"nvidia.conf", "NVreg_RegistryDwords=\"RMForceStaticBar1=1;RmForceDisableIomapWC=1;\"\n"}}}}};
}

Rendered nic_cluster_policy() {
  const auto variable = [](const char* name, const char* value) { return Json{{"name", name}, {"value", value}}; };
  Json env = Json::array({variable("ENABLE_NFSRDMA", "true"), variable("UNLOAD_STORAGE_MODULES", "true")});
  return {"nic-cluster-policy",
          "For the network operator: its driver brings NFS over RDMA. Nodes need nfs-common, and no NVMe drive in use.",
          Json{{"apiVersion", "mellanox.com/v1alpha1"},
               {"kind", "NicClusterPolicy"},
               {"metadata",
                {{"name", "nic-cluster-policy"},
                 {"annotations", decided("nfsrdma_with_nvme", "the nodes' NVMe drives are not in use, as was told")}}},
               {"spec",
                {{"ofedDriver",
                  {{"repository", "nvcr.io/nvidia/mellanox"},
                   {"image", "doca-driver"},
                   {"version", "doca3.4.1-26.04-1.1.0.0-0"},
                   {"env", env},
                   {"upgradePolicy", {{"autoUpgrade", true}}}}}}}}};
}

Rendered machine_config() {
  return {"machine-config", "Reboots the pool of machines.",
          Json{{"apiVersion", "machineconfiguration.openshift.io/v1"},
               {"kind", "MachineConfig"},
               {"metadata",
                {{"name", "99-worker-iommu-pt"}, {"labels", {{"machineconfiguration.openshift.io/role", "worker"}}}}},
               {"spec", {{"kernelArguments", Json::array({"iommu=pt"})}}}}};
}

Rendered name_space(const Answers& answers) {
  Json labels = Json::object();
  for (const char* mode : {"enforce", "audit", "warn"}) {
    labels[fmt::format("pod-security.kubernetes.io/{}", mode)] = "restricted";
  }
  Json made = metadata(answers.name_space);
  made["labels"] = labels;
  return {"namespace", "Its pods need no right.",
          Json{{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", made}}};
}

bool is_nfs(const Answers& answers) { return answers.storage.starts_with("nfs"); }

Json mount_options(const Answers& answers) {
  if (answers.storage == "nfs-rdma") return Json::array({"vers=4.2", "proto=rdma", "port=20049"});
  if (answers.storage == "nfs") return Json::array({"vers=4.2", "nconnect=8"});
  // cuFile looks for this option, which ext4 shows only if it is given.
  if (answers.storage == "ext4") return Json::array({core::kOrderedData});
  return Json::array();
}

Rendered storage_class() {
  return {"storage-class", "Binds a claim only when a pod is placed, so that it gets a drive of its own node.",
          Json{{"apiVersion", "storage.k8s.io/v1"},
               {"kind", "StorageClass"},
               {"metadata", metadata("penstock-storage")},
               {"provisioner", "kubernetes.io/no-provisioner"},
               {"volumeBindingMode", "WaitForFirstConsumer"}}};
}

Rendered volume(const Answers& answers) {
  Json spec = {{"capacity", {{"storage", "1Ti"}}},
               {"accessModes", Json::array({is_nfs(answers) ? "ReadWriteMany" : "ReadWriteOnce"})},
               {"persistentVolumeReclaimPolicy", "Retain"},
               {"storageClassName", "penstock-storage"},
               {"mountOptions", mount_options(answers)}};
  if (is_nfs(answers)) {
    const std::size_t colon = answers.nfs_server.rfind(':');
    spec["nfs"] = {{"server", answers.nfs_server.substr(0, colon)}, {"path", answers.nfs_server.substr(colon + 1)}};
  } else {
    spec.erase("mountOptions");  // The node's fstab has the options, since it mounts the folder.
    spec["local"] = {{"path", "/mnt/nvme0"}};
    const Json host = {{"key", "kubernetes.io/hostname"}, {"operator", "In"}, {"values", Json::array({"NODE"})}};
    const Json term = {{"matchExpressions", Json::array({host})}};
    spec["nodeAffinity"] = {{"required", {{"nodeSelectorTerms", Json::array({term})}}}};
  }
  const std::string options =
      answers.storage == "ext4" ? " Mount the drive with data=ordered: cuFile looks for the word." : "";
  Json made = metadata("penstock-volume");
  if (answers.storage == "nfs") made["annotations"] = decided("nfs_by_tcp", "bounce was asked for");
  return {"volume", "One drive or export." + options,
          Json{{"apiVersion", "v1"}, {"kind", "PersistentVolume"}, {"metadata", made}, {"spec", spec}}};
}

Rendered claim(const Answers& answers) {
  return {"claim", "What the workload mounts.",
          Json{{"apiVersion", "v1"},
               {"kind", "PersistentVolumeClaim"},
               {"metadata", metadata("penstock-data", answers.name_space)},
               {"spec",
                {{"accessModes", Json::array({is_nfs(answers) ? "ReadWriteMany" : "ReadWriteOnce"})},
                 {"storageClassName", "penstock-storage"},
                 {"resources", {{"requests", {{"storage", "1Ti"}}}}}}}}};
}

Rendered cufile_json(const Answers& answers) {
  Json properties = {{"allow_compat_mode", answers.path == "bounce"}};
  const PathSetup& setup = setup_of(answers);
  Json made = metadata("penstock-cufile", answers.name_space);
  if (*setup.cufile_key != '\0') {
    properties[setup.cufile_key] = true;
    made["annotations"] = decided("cufile_idle", fmt::format("{} is for NVIDIA's library", setup.cufile_key));
  }
  const Json text = {{"logging", {{"level", "WARN"}}}, {"properties", properties}};
  return {"cufile-json",
          std::string("Read by NVIDIA's library and by Penstock's: ") +
              (answers.path == "bounce" ? "the processor may move bytes, and here it does."
                                        : "no byte may go by the processor in silence."),
          Json{{"apiVersion", "v1"},
               {"kind", "ConfigMap"},
               {"metadata", made},
               {"data", {{"cufile.json", text.dump(2) + "\n"}}}}};
}

// Only the privileges of the level "restricted".
Json container(const Answers& answers, const char* name, const Json& args) {
  Json env = Json::array({Json{{"name", "CUFILE_ENV_PATH_JSON"}, {"value", "/etc/penstock/cufile.json"}}});
  const PathSetup& setup = setup_of(answers);
  if (*setup.variable != '\0') env.push_back({{"name", setup.variable}, {"value", setup.value}});
  for (const facts::PathSwitch& each : facts::path_switches()) {
    if (setup.required == std::string_view(each.path)) env.push_back({{"name", each.variable}, {"value", each.value}});
  }
  return {
      {"name", name},
      {"image", answers.image},
      {"args", args},
      {"env", env},
      {"resources", {{"limits", {{"nvidia.com/gpu", 1}, {"memory", "8Gi"}}}, {"requests", {{"cpu", "1"}}}}},
      {"securityContext",
       {{"allowPrivilegeEscalation", false},
        {"readOnlyRootFilesystem", true},
        {"capabilities", {{"drop", Json::array({"ALL"})}}}}},
      {"volumeMounts", Json::array({Json{{"name", "data"}, {"mountPath", "/data"}},
                                    Json{{"name", "cufile"}, {"mountPath", "/etc/penstock"}, {"readOnly", true}}})}};
}

Json pod_spec(const Answers& answers, const Json& containers) {
  Json seccomp = {{"type", "RuntimeDefault"}};
  if (has_seccomp_profile(answers)) seccomp = {{"type", "Localhost"}, {"localhostProfile", "profiles/penstock.json"}};
  return {
      {"restartPolicy", "Never"},
      {"automountServiceAccountToken", false},
      {"securityContext",
       {{"runAsNonRoot", true}, {"runAsUser", 65532}, {"fsGroup", 65532}, {"seccompProfile", seccomp}}},
      {"tolerations", Json::array({Json{{"key", "nvidia.com/gpu"}, {"operator", "Exists"}, {"effect", "NoSchedule"}}})},
      {"containers", containers},
      {"volumes", Json::array({Json{{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "penstock-data"}}}},
                               Json{{"name", "cufile"}, {"configMap", {{"name", "penstock-cufile"}}}}})}};
}

// The profile of a runtime that nobody named may block io_uring; a profile that a node lacks keeps the pod from
// starting.
Json workload_metadata(const std::string& name, const Answers& answers) {
  Json made = metadata(name, answers.name_space);
  if (has_seccomp_profile(answers) || facts::allows_io_uring(answers.runtime) == true) return made;
  made["annotations"] = decided("io_uring_blocked", "no runtime was named; without io_uring preadv2 moves the bytes");
  return made;
}

Rendered job(const Answers& answers) {
  const Json proof = {"bench",     "/data/penstock-bench",
                      "--rw",      "write",
                      "--create",  "--overwrite",
                      "--size",    "4G",
                      "--bs",      "16M",
                      "--direct",  "--verify",
                      "--require", setup_of(answers).required,
                      "--json"};
  const Json ratio = {"bench", "/data/penstock-bench", "--bs", "16M", "--compare", "buffered", "direct"};
  Json pod = pod_spec(answers, Json::array({container(answers, "ratio", ratio)}));
  // The two share the GPU, since one begins when the other has ended.
  pod["initContainers"] = Json::array({container(answers, "proof", proof)});
  return {"job",
          "The proof writes 4 GiB from a GPU, reads them back, and fails if any byte took another path; then the log "
          "of the other container tells how many times as fast that is as the page cache.",
          Json{{"apiVersion", "batch/v1"},
               {"kind", "Job"},
               {"metadata", workload_metadata("penstock-bench", answers)},
               {"spec", {{"backoffLimit", 0}, {"template", {{"spec", pod}}}}}}};
}

Rendered pod(const Answers& answers) {
  const Json workload = container(answers, "workload", Json::array({"check"}));
  return {"pod", "The shape of a workload: put your image and command into it.",
          Json{{"apiVersion", "v1"},
               {"kind", "Pod"},
               {"metadata", workload_metadata("penstock-workload", answers)},
               {"spec", pod_spec(answers, Json::array({workload}))}}};
}

}  // namespace

std::string driver_of(const Answers& answers) {
  return answers.driver_version.empty() ? release_of(answers).driver : answers.driver_version;
}

bool goes_by_libcufile(const Answers& answers) {
  return answers.path == "nvidia-fs" && (answers.has_libcufile || is_nfs(answers));
}

std::string gds_of(const Answers& answers) { return release_of(answers).gds; }

bool has_seccomp_profile(const Answers& answers) {
  return answers.openshift || facts::allows_io_uring(answers.runtime) == false;
}

void add_objects(const Answers& answers, std::vector<Rendered>& objects) {
  std::string as = !answers.as.empty() ? answers.as : answers.openshift ? "clusterpolicy" : "helm";
  if (answers.has_host_driver && as == "nvidiadriver") as = "helm";  // Such an object installs a driver.
  if (has_operator(answers)) {
    objects.push_back(as == "helm"            ? helm_values(answers)
                      : as == "clusterpolicy" ? cluster_policy(answers)
                                              : nvidia_driver(answers));
    if (answers.path == "p2pdma" && !answers.has_host_driver) objects.push_back(driver_parameters(answers));
    if (answers.storage == "nfs-rdma") objects.push_back(nic_cluster_policy());
    if (answers.openshift && !is_nfs(answers)) objects.push_back(machine_config());
  }
  objects.push_back(name_space(answers));
  objects.push_back(storage_class());
  objects.push_back(volume(answers));
  objects.push_back(claim(answers));
  objects.push_back(cufile_json(answers));
  objects.push_back(pod(answers));
  objects.push_back(job(answers));
  add_node_objects(answers.image, objects);
}

}  // namespace penstock::tools::k8s
