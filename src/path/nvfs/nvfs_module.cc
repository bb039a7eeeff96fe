// SPDX-License-Identifier: Apache-2.0

#include "path/nvfs/nvfs_module.h"

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>

#include "base/log.h"
#include "path/nvfs/nvfs_reasons.h"
#include "path/pipeline/pipeline_reasons.h"
#include "topology/nvidia_fs_storage.h"

namespace penstock::core {
namespace {

// Reads "2.28.4" from /sys, else "version: 2.28" from /proc.
std::optional<NvidiaFsVersion> read_version(NvfsKernel& kernel) {
  if (const auto version = parse_nvidia_fs_version(kernel.text(nvfs::kModuleVersionFile))) return version;
  const std::string text = kernel.text(nvfs::kVersionFile);
  const std::size_t colon = text.find(':');
  return colon == std::string::npos ? std::nullopt : parse_nvidia_fs_version(std::string_view(text).substr(colon + 1));
}

// Logs the version, once for each opening, also if it is refused.
void tell(const NvidiaFsVersion& version) {
  if (version.is_stand_in()) {
    log(LogLevel::warn, "nvidia-fs " + text_of(version) + " is a stand-in for tests: what it moves is simulated");
    return;
  }
  log(LogLevel::warn, "path nvfs: experimental, not yet run beside NVIDIA's module (here " + text_of(version) + ")");
}

}  // namespace

Proof judge_nvidia_fs(const NvidiaFsVersion& version, std::string_view kernel_release, NvfsUse use) {
  if (version.is_stand_in()) return {use == NvfsUse::stand_in ? Reason::none : nvfs_reason::stand_in};
  if (fault_of_nvidia_fs(version) != nullptr) return {nvfs_reason::version, number_of(version)};
  const Tristate stops = stops_machine(version, kernel_release);
  if (stops == Tristate::yes) return {pipeline_reason::nvidia_fs_task_switch};
  if (use == NvfsUse::off) return {nvfs_reason::off};
  const bool is_doubtful = stops == Tristate::unknown && use == NvfsUse::automatic;
  return {is_doubtful ? pipeline_reason::nvidia_fs_task_switch : Reason::none};
}

Proof NvfsModule::look(NvfsKernel& kernel, NvfsUse use) {
  const std::optional<NvidiaFsVersion> version = read_version(kernel);
  if (!version) return {nvfs_reason::missing};
  return judge_nvidia_fs(*version, kernel.text(nvfs::kKernelReleaseFile), use);
}

std::shared_ptr<NvfsModule> NvfsModule::open(std::shared_ptr<NvfsKernel> kernel, NvfsUse use, Proof& why_not) {
  why_not = look(*kernel, use);
  if (why_not.reason != Reason::none) return nullptr;
  const NvidiaFsVersion version = read_version(*kernel).value_or(NvidiaFsVersion{});
  const std::shared_ptr<NvfsModule> module(new NvfsModule(std::move(kernel), version));
  why_not = module->open_nodes();
  if (why_not.reason == Reason::none && !module->has_driver()) why_not = {nvfs_reason::no_driver};
  if (why_not.reason != Reason::none) return nullptr;
  tell(version);
  return module;
}

NvfsModule::~NvfsModule() {
  for (const int fd : nodes_) kernel_->close_node(fd);
}

Proof NvfsModule::open_nodes() {
  int error = ENOENT;
  for (unsigned number = 0; number < nvfs::kNodesMax; ++number) {
    const int fd = kernel_->open_node(number);
    if (fd >= 0) nodes_.push_back(fd);
    else if (number == 0) error = -fd;
    else break;
  }
  return nodes_.empty() ? Proof{nvfs_reason::node, error} : Proof{};
}

// The module lists its drivers only while a node is open. The list does not say which driver serves which file.
bool NvfsModule::has_driver() {
  const std::string text = kernel_->text(nvfs::kModulesFile);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && colon > 0 && line.substr(0, colon) != kAlwaysListed) return true;
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return false;
}

}  // namespace penstock::core
