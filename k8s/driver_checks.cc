// SPDX-License-Identifier: Apache-2.0

// Checks GPUDirect Storage in ClusterPolicy, NVIDIADriver or Helm values: image, kernel modules, operating system.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/printable.h"
#include "facts/operator_versions.h"
#include "k8s/checks.h"
#include "k8s/kernel_needs.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

constexpr facts::Version kNoImageFromOlm = {25, 10, 0};  // From this release on, OLM bundles name no image.
constexpr int kFirstNumberOfCuda = 9;                    // Lower numbers are nvidia-fs's, which is at 2.

facts::Version operator_of(const Cluster& cluster) {
  const facts::OperatorVersion* known = facts::operator_version(cluster.facts.operator_version);
  return facts::version_of(known == nullptr ? facts::operator_version("")->release : known->release).value();
}

// The written version, or the chart's default.
std::string version_in_force(const Cluster& cluster, const DriverSetup& driver, const Value& written, bool of_gds) {
  if (written.is_there() || !driver.is_values()) return written.text;
  const facts::OperatorVersion* known = facts::operator_version(cluster.facts.operator_version);
  if (known == nullptr) return "";
  return of_gds ? known->gds : known->driver;
}

bool comes_by_nvidia_driver(const DriverSetup& driver) {
  return driver.is_nvidia_driver() || driver.driver_value("nvidiaDriverCRD.enabled").is_true();
}

void check_image(const Cluster& cluster, const DriverSetup& driver, Findings& findings) {
  std::vector<std::string> missing;
  for (const char* part : {"repository", "image", "version"}) {
    if (driver.top_value("gds")[part].text.empty()) missing.push_back(driver.top_key("gds.") + part);
  }
  if (driver.is_values() || missing.empty()) return;
  const Place place = place_of(*driver.object, driver.top_key("gds.enabled"));
  if (missing.size() < 3) {
    findings.add("gds_image_parts", *driver.object, place,
                 {fmt::format("of the nvidia-fs image {} {} missing", fmt::join(missing, " and "),
                              missing.size() == 1 ? "is" : "are")});
    return;
  }
  Findings::Text text{"GPUDirect Storage is on, and no image of nvidia-fs is named"};
  if (operator_of(cluster) < kNoImageFromOlm) text.severity = Severity::note;
  findings.add("gds_image_missing", *driver.object, place, std::move(text));
}

void check_version(const DriverSetup& driver, Findings& findings) {
  const std::string& version = driver.top_value("gds.version").text;
  const Place place = place_of(*driver.object, driver.top_key("gds.version"));
  const std::string remedy = fmt::format("Write the version alone, as {}.", facts::operator_version("")->gds);
  for (const char* os : {"ubuntu", "rhel", "rhcos", "rocky"}) {
    if (version.starts_with("sha256") || version.find(std::string("-") + os) == std::string::npos) continue;
    findings.add("gds_version_suffix", *driver.object, place,
                 {fmt::format("'{}' names a system, which the operator appends itself", core::shown(version)), remedy});
  }
  const auto numbers = facts::version_of(version);
  if (numbers && (*numbers)[0] >= kFirstNumberOfCuda) {
    findings.add(
        "gds_version_of_cuda", *driver.object, place,
        {fmt::format("'{}' is no version of nvidia-fs, but one of CUDA or the driver", core::shown(version)), remedy});
  }
}

void check_versions(const Cluster& cluster, const DriverSetup& driver, Findings& findings) {
  const std::string gds = version_in_force(cluster, driver, driver.top_value("gds.version"), true);
  const std::string number = version_in_force(cluster, driver, driver.driver_value("version"), false);
  const Place place = place_of(*driver.object, driver.top_key("gds.version"));
  for (const facts::Finding& stop : nvidia_fs_stops(gds, number, cluster.facts.kernel)) {
    Findings::Text text{core::printable(stop.sentence), stop.remedy};
    if (stop.state != facts::State::fail) text.severity = Severity::warning;
    findings.add("gds_versions", *driver.object, place, std::move(text));
  }
}

void check_precompiled(const DriverSetup& driver, Findings& findings) {
  if (!driver.driver_value("usePrecompiled").is_true()) return;
  const Place place = place_of(*driver.object, driver.driver_key("usePrecompiled"));
  if (driver.has_gds())
    findings.add("gds_precompiled", *driver.object, place, {"precompiled drivers go with no nvidia-fs"});
  if (driver.top_value("gdrcopy.enabled").is_true()) {
    findings.add("gdrcopy_precompiled", *driver.object, place, {"precompiled drivers go with no GDRCopy"});
  }
}

// Whether this version of nvidia-fs needs the open modules; an image digest counts as one that does.
bool needs_open_modules(const std::string& gds) {
  if (gds.starts_with("sha256")) return true;
  const auto version = facts::version_of(gds);
  return !version || *version >= facts::kOpenModulesGds;
}

void check_module_type(const Cluster& cluster, const DriverSetup& driver, Findings& findings) {
  const std::string gds = version_in_force(cluster, driver, driver.top_value("gds.version"), true);
  const Value& written = driver.driver_value("kernelModuleType");
  const std::string type = written.is_there() ? written.text : "auto";
  if (type == "open" || !needs_open_modules(gds)) return;
  const Place place = place_of(*driver.object, driver.driver_key("kernelModuleType"));
  const std::string remedy = fmt::format("Set {}: open.", driver.driver_key("kernelModuleType"));
  if (comes_by_nvidia_driver(driver)) {
    findings.add(
        "nvidiadriver_auto", *driver.object, place,
        {fmt::format("an NVIDIADriver with nvidia-fs {} and kernelModuleType {} is never ready", gds, type), remedy});
    return;
  }
  const std::string number = version_in_force(cluster, driver, driver.driver_value("version"), false);
  const auto version = facts::version_of(number);
  const bool is_old = version && *version < facts::kOpenModulesDriver;
  if (type != "proprietary" && !is_old) return;
  findings.add("gds_proprietary_modules", *driver.object, place,
               {fmt::format("nvidia-fs {} needs the open kernel modules; {} means the proprietary ones{}", gds, type,
                            is_old ? " for driver " + number : ""),
                is_old ? "Take a driver of 570.86.15 or later, and kernelModuleType: open." : remedy});
}

// The operating system in the NFD labels of a node selector: "rocky9.4".
std::string os_of_selector(const DriverSetup& driver) {
  std::string os, version;
  for (const Member& label : driver.driver_value("nodeSelector").members) {
    if (label.key.ends_with("system-os_release.ID")) os = label.value->text;
    if (label.key.ends_with("system-os_release.VERSION_ID")) version = label.value->text;
  }
  return os.empty() ? "" : os + version;
}

void check_system(const Cluster& cluster, const DriverSetup& driver, Findings& findings) {
  if (driver.driver_value("enabled").is_false()) return;  // The operator builds no nvidia-fs.
  const Place place = place_of(*driver.object, driver.top_key("gds.enabled"));
  const std::string selected = os_of_selector(driver);
  const std::string os = selected.empty() ? cluster.facts.os : selected;
  const auto has_image = facts::has_gds_image(os);
  if (!has_image) {
    findings.add(
        "gds_os", *driver.object, place,
        {"whether nvidia-fs can be built depends on the nodes' system", "Name the system with --os.", Severity::note});
  } else if (!*has_image) {
    findings.add("gds_os", *driver.object, place,
                 {fmt::format("there is no nvidia-fs image for {}: its nodes would lose their GPUs", core::shown(os))});
  }
  if (cluster.facts.operator_version.ends_with("25.10.0") && os == "ubuntu22.04") {
    findings.add("gds_compiler", *driver.object, place,
                 {"with a kernel of Ubuntu 22.04's hardware enablement, nvidia-fs-ctr finds no gcc-12"});
  }
}

void check_reach(const Cluster& cluster, const DriverSetup& driver, Findings& findings) {
  const Place place = place_of(*driver.object, driver.top_key("gds.enabled"));
  if (driver.driver_value("enabled").is_false()) {
    findings.add("gds_driver_off", *driver.object, place_of(*driver.object, driver.driver_key("enabled")),
                 {"with the driver on the host there is no nvidia-fs-ctr either"});
  }
  if (driver.top_value("sandboxWorkloads.enabled").is_true() &&
      driver.top_value("sandboxWorkloads.defaultWorkload").text.starts_with("vm-")) {
    findings.add("gds_virtual_machines", *driver.object, place,
                 {"nodes for virtual machines get no driver pod, and so no nvidia-fs"});
  }
  if (!cluster.of_kind("GPUCluster").empty()) {
    findings.add("gds_without_injection", *driver.object, place,
                 {"the DRA driver of a GPUCluster gives no pod /dev/nvidia-fs"});
  }
  if (cluster.facts.kernel.find("-nvidia") == std::string::npos) {
    findings.add("gds_local_nvme", *driver.object, place,
                 {"a loaded nvidia_fs says nothing of local NVMe drives, for which a kernel needs a patched nvme"});
  }
  findings.add("gds_all_adapters", *driver.object, place,
               {"with it on, each GPU container gets the uverbs devices of all network adapters"});
}

// Where several drivers are described, the nodes of a pod may have any of them.
void check_images(const Cluster& cluster, Findings& findings) {
  if (cluster.drivers.size() != 1) return;
  const DriverSetup& driver = cluster.drivers.front();
  if (driver.driver_value("enabled").is_false()) return;
  const std::string version = version_in_force(cluster, driver, driver.driver_value("version"), false);
  for (const Pod& pod : cluster.pods) {
    if (!pod.asks_for_gpu()) continue;
    for (const Value* container : pod.containers()) {
      const Value& image = (*container)["image"];
      const std::string stop = too_old_for_image(image.text, version);
      if (stop.empty()) continue;
      findings.add("image_cuda", *pod.object, image.place,
                   {fmt::format("the image {} {}", core::shown(image.text), stop)});
    }
  }
}

}  // namespace

void check_drivers(const Cluster& cluster, Findings& findings) {
  for (const DriverSetup& driver : cluster.drivers) {
    check_precompiled(driver, findings);
    if (!driver.has_gds()) continue;
    check_image(cluster, driver, findings);
    check_version(driver, findings);
    check_versions(cluster, driver, findings);
    check_module_type(cluster, driver, findings);
    check_system(cluster, driver, findings);
    check_reach(cluster, driver, findings);
  }
  check_images(cluster, findings);
}

}  // namespace penstock::tools::k8s
