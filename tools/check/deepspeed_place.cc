// SPDX-License-Identifier: Apache-2.0

#include "tools/check/deepspeed_place.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <optional>

#include "facts/examination.h"
#include "tools/common/machine_root.h"
#include "tools/common/units.h"
#include "topology/mounts.h"

namespace penstock::tools {
namespace {

namespace fs = std::filesystem;
using core::Tristate;

constexpr const char* kBlocks[] = {"zero_optimization.offload_param", "zero_optimization.offload_optimizer"};

// What is asked of the machine once, for all folders.
struct Surroundings {
  facts::Examination examined;
  core::MountTable mounts;
};

Surroundings look_around() {
  const core::Root root = open_machine_root("");
  return {facts::examine(facts::read_machine(root, "")), core::MountTable::read(root)};
}

// The folder, or what DeepSpeed would make it in: the nearest one above that is there.
fs::path nearest_there(fs::path path) {
  std::error_code error;
  while (!fs::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  return path;
}

std::optional<std::size_t> file_system_of(const Surroundings& here, const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  const core::Mount* mount = error ? nullptr : here.mounts.find(real.native());
  if (mount == nullptr) return std::nullopt;
  const std::vector<core::FileSystem>& all = here.examined.machine.file_systems;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].mount.device == mount->device) return i;
  }
  return std::nullopt;
}

// False where nothing more can be said of it.
bool check_folder(const std::string& key, const fs::path& path, const fs::path& there, DeepSpeedFindings& findings) {
  struct stat facts {};
  if (!path.is_absolute()) {
    findings.add(Severity::warning, "relative_path", key,
                 {"the absolute name of a folder", "the folder depends on where the program is started",
                  "Write the whole name."});
  }
  if (stat(there.c_str(), &facts) != 0) {
    findings.add(Severity::error, "folder_unseen", key,
                 {"a folder", fmt::format("{} cannot be looked at: {}", there.string(), strerror(errno)),
                  "Correct the name, or the rights on the folders above it."});
    return false;
  }
  if (!S_ISDIR(facts.st_mode)) {
    findings.add(Severity::error, "no_folder", key,
                 {"a folder", fmt::format("{} is none", there.string()), "Name a folder."});
    return false;
  }
  if (access(there.c_str(), W_OK | X_OK) != 0) {
    findings.add(Severity::error, "folder_not_writable", key,
                 {"a folder that this user may write to",
                  fmt::format("{} may not be written to: {}", there.string(), strerror(errno)),
                  "Name another folder, or change its rights."});
    return false;
  }
  if (there != path) {
    findings.add(Severity::note, "folder_missing", key,
                 {"", fmt::format("it does not exist yet; DeepSpeed makes it, in {}", there.string()), ""});
  }
  return true;
}

void check_room(const std::string& key, const fs::path& there, DeepSpeedFindings& findings) {
  struct statvfs room {};
  if (statvfs(there.c_str(), &room) != 0) return;
  constexpr std::uint64_t kBytesOfAnElement = 16;  // Weight, gradient and two moments in 32 bits.
  const std::uint64_t bytes = static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize;
  std::string text = fmt::format("{} are free there", format_size(bytes));
  if (key.find("offload_optimizer") != std::string::npos) {
    text += fmt::format(": Adam's states of up to {:.1f} billion parameters, at 16 bytes each",
                        static_cast<double>(bytes / kBytesOfAnElement) / 1e9);
  }
  findings.add(Severity::note, "free_room", key, {"", text, ""});
}

void check_file_system(const std::string& key, const core::FileSystem& one, DeepSpeedFindings& findings) {
  const std::string where = fmt::format("{} is {}", one.mount.mount_point, one.mount.type);
  if (one.direct_io.has == Tristate::no) {
    findings.add(
        Severity::warning, "no_direct_io", key,
        {"a file system on a local drive that takes O_DIRECT", fmt::format("{}: {}", where, one.direct_io.because),
         "Name a folder on ext4 or xfs on a local NVMe drive."});
  } else if (core::is_network_file_system(one.mount.type)) {
    findings.add(Severity::warning, "network", key,
                 {"a local drive", where + ", a network file system: each step waits for the network",
                  "Name a folder on a local NVMe drive."});
  } else if (one.mount.type == "overlay") {
    findings.add(Severity::warning, "overlay", key,
                 {"a local drive", where + ", a container's own layer, which is gone with the container",
                  "Mount a folder of a local NVMe drive into the container, and name that."});
  }
}

// Never that a direct path serves: its self-test decides, when a program uses it.
void tell_outlook(const facts::Outlook& place, const std::string& key, DeepSpeedFindings& findings) {
  std::string text, remedy;
  for (const facts::PathOutlook& path : place.paths) {
    if (!facts::is_direct_path(path.path)) continue;
    const std::string name = penstock_path_name(path.path);
    if (path.is_usable()) text += fmt::format("{} may be tried: its self-test decides; ", name);
    else text += fmt::format("not {}: {}; ", name, path.sentence());
    if (remedy.empty()) remedy = path.remedy();
  }
  const bool bounces = place.may_use(PENSTOCK_PATH_BOUNCE);
  text += bounces ? "bounce, by copies through host memory, serves in any case"
                  : "nor bounce: cuFile fails, and DeepSpeed ends the process";
  findings.add(bounces ? Severity::note : Severity::error, "outlook", key,
               {"", "by Penstock's libcufile: " + text, remedy});
}

void check_place(const DeepSpeedConfig& config, const Surroundings& here, const std::string& block,
                 DeepSpeedFindings& findings) {
  const std::string key = block + ".nvme_path";
  const DeepSpeedValue* value = config.find(key);
  if (value == nullptr || !value->is_string() || value->get<std::string>().empty()) return;  // Told already.
  const fs::path path = value->get<std::string>();
  const fs::path there = nearest_there(path.is_absolute() ? path : fs::current_path() / path);
  if (!check_folder(key, path, there, findings)) return;
  if (const auto index = file_system_of(here, there)) {
    check_file_system(key, here.examined.machine.file_systems[*index], findings);
    const bool is_by_cufile = config.asks_for_gds() && config.swaps_parameters() && block == kBlocks[0];
    if (is_by_cufile) tell_outlook(here.examined.places[*index], key, findings);
  }
  check_room(key, there, findings);
}

}  // namespace

void check_deepspeed_places(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  std::optional<Surroundings> here;
  for (const char* block : kBlocks) {
    if (config.word(block, "device") != "nvme") continue;
    if (!here) here = look_around();
    check_place(config, *here, block, findings);
  }
}

}  // namespace penstock::tools
