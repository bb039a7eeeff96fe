// SPDX-License-Identifier: Apache-2.0

// Checks parameters of kernel modules in a ConfigMap, P2PDMA turned on by them, and the effect of the kernel's command
// line on both.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "base/printable.h"
#include "facts/operator_versions.h"
#include "k8s/checks.h"
#include "k8s/kernel_needs.h"
#include "penstock/penstock.h"
#include "settings/words.h"

namespace penstock::tools::k8s {
namespace {

constexpr std::string_view kModuleFiles[] = {"nvidia.conf", "nvidia-uvm.conf", "nvidia-modeset.conf",
                                             "nvidia-peermem.conf"};
constexpr std::string_view kStaticBar = "RMForceStaticBar1=1";
constexpr std::string_view kNoCombining = "RmForceDisableIomapWC=1";
// Kernel arguments that make an IOMMU translate or check each access.
constexpr std::string_view kTranslating[] = {"intel_iommu=on",    "amd_iommu=on",   "iommu=force",
                                             "iommu=strict",      "iommu.strict=1", "iommu.passthrough=0",
                                             "intel_iommu=strict"};

void check_registry(const Object& object, const Member& file, Findings& findings) {
  const std::string& text = file.value->text;
  const std::size_t words = text.find("NVreg_RegistryDwords=");
  if (words == std::string::npos) return;
  const std::string_view value =
      std::string_view(text).substr(words + std::string_view("NVreg_RegistryDwords=").size());
  const std::string_view line = value.substr(0, value.find('\n'));
  if (line.find(';') != std::string_view::npos && !line.starts_with('"')) {
    findings.add("registry_quotes", object, file.place,
                 {"NVreg_RegistryDwords has several parts and no quotes around them, and all but the first are lost"});
  }
  if (line.find(kStaticBar) != std::string_view::npos && line.find(kNoCombining) == std::string_view::npos) {
    findings.add("p2pdma_registry", object, file.place, {fmt::format("{} goes with {}", kStaticBar, kNoCombining)});
  }
}

void check_config(const Cluster& cluster, const DriverSetup& driver, Findings& findings) {
  const std::string& name = driver.driver_value("kernelModuleConfig.name").text;
  if (name.empty()) return;
  const Object* map = cluster.find("ConfigMap", name);
  if (map == nullptr) {
    findings.add("module_config_missing", *driver.object,
                 place_of(*driver.object, driver.driver_key("kernelModuleConfig.name")),
                 {fmt::format("the ConfigMap '{}' is not among these files", core::shown(name))});
    return;
  }
  for (const Member& file : (*map)["data"].members) {
    if (std::find(std::begin(kModuleFiles), std::end(kModuleFiles), file.key) != std::end(kModuleFiles)) {
      check_registry(*map, file, findings);
      continue;
    }
    findings.add("module_config_file", *map, file.place,
                 {fmt::format("the driver's container reads no '{}'", core::shown(file.key)),
                  fmt::format("Its names: {}.", fmt::join(kModuleFiles, ", "))});
  }
}

void check_p2pdma(const Cluster& cluster, const DriverSetup& driver, Findings& findings) {
  if (!turns_on_p2pdma(cluster, driver)) return;
  const auto tell = [&](std::string sentence, std::string remedy) {
    const Place place = place_of(*driver.object, driver.driver_key("kernelModuleConfig"));
    findings.add("p2pdma_needs", *driver.object, place, {std::move(sentence), std::move(remedy)});
  };
  const auto version = facts::version_of(driver.driver_value("version").text);
  const auto kernel = facts::version_of(cluster.facts.kernel);
  if (driver.driver_value("kernelModuleType").text == "proprietary") {
    tell("the proprietary kernel modules offer no memory for P2PDMA", "Set kernelModuleType: open.");
  }
  if (version && *version < facts::kP2pdmaDriver) {
    tell(fmt::format("drivers before {} cannot do P2PDMA", facts::version_text(facts::kP2pdmaDriver)),
         "Take a later driver.");
  }
  if (const auto stop = kernel_stop(PENSTOCK_PATH_P2PDMA, cluster.facts.kernel)) {
    tell(core::printable(stop->sentence), stop->remedy);
  }
  if (kernel && version && *kernel >= facts::kP2pdmaNewKernel && *version < facts::kP2pdmaNewDriver) {
    tell(fmt::format("on Linux {} P2PDMA needs a driver of {} or later", core::shown(cluster.facts.kernel),
                     facts::version_text(facts::kP2pdmaNewDriver)),
         fmt::format("Take a later driver, or a kernel before {}.", facts::version_text(facts::kP2pdmaNewKernel)));
  }
  const Value& computing = driver.top_value("ccManager");
  if (computing.is_there() && !computing["enabled"].is_false() && computing["defaultMode"].text == "on") {
    tell("confidential computing keeps a GPU's memory from its BAR", "Set ccManager.defaultMode: off for these nodes.");
  }
}

// Checks any list of kernel arguments: OpenShift's MachineConfig, Talos' machine configuration.
void check_arguments(const Object& object, const Value& value, Severity severity, Findings& findings) {
  for (const Member& member : value.members) {
    const bool is_arguments = member.key == "kernelArguments" || member.key == "extraKernelArgs";
    if (!is_arguments) check_arguments(object, *member.value, severity, findings);
    for (const Member& argument : is_arguments ? member.value->members : kNothing.members) {
      const std::string& text = argument.value->text;
      const bool translates = std::any_of(std::begin(kTranslating), std::end(kTranslating),
                                          [&](std::string_view one) { return text == one; });
      if (!translates) continue;
      const bool passes = std::any_of(member.value->members.begin(), member.value->members.end(),
                                      [](const Member& one) { return one.value->text == "iommu=pt"; });
      if (passes) continue;
      findings.add("iommu_translates", object, argument.value->place,
                   {fmt::format("{} has the IOMMU translate between GPU and drive", core::shown(text)), "", severity});
    }
  }
}

}  // namespace

bool turns_on_p2pdma(const Cluster& cluster, const DriverSetup& driver) {
  const Object* map = cluster.find("ConfigMap", driver.driver_value("kernelModuleConfig.name").text);
  if (map == nullptr || (*map)["data"].member("nvidia.conf") == nullptr) return false;
  return (*map)["data"].member("nvidia.conf")->value->text.find(kStaticBar) != std::string::npos;
}

void check_modules(const Cluster& cluster, Findings& findings) {
  for (const DriverSetup& driver : cluster.drivers) {
    check_config(cluster, driver, findings);
    check_p2pdma(cluster, driver, findings);
  }
  // Nodes may need it for another purpose.
  const Severity severity = cluster.concerns_gds() ? Severity::warning : Severity::note;
  for (const Object& object : cluster.objects) {
    if (object.form == Form::resource) check_arguments(object, *object.root, severity, findings);
  }
}

}  // namespace penstock::tools::k8s
