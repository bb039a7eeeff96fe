// SPDX-License-Identifier: Apache-2.0

// The JSON document, whose keys and codes are stable (new ones may come):
//   schema     1
//   root       the captured machine's directory, or null for this machine
//   verified   the exit code as a truth
//   checks[]   code, state ("ok", "missing", "unknown", "optional"), text, remedy
#include "tools/gdscheck/install_check.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "facts/examination.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/machine_root.h"
#include "tools/common/page.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

using facts::need;
using facts::State;

constexpr const char* kInstallCheckExamples =
    "Examples:\n"
    "  gds_install_check                     this machine\n"
    "  gds_install_check --root captured/    a machine captured with scripts/capture-machine\n"
    "Penstock itself needs only the CUDA driver; 'penstock check' says what each path needs.\n"
    "Exit code: 0 all is installed, 1 something is missing, 2 wrong usage, 77 no NVIDIA GPU to install it for.";

struct InstallCheckSettings {
  std::string root;  // A captured machine; "" for this one.
  bool json = false;
};

struct Check {
  facts::Finding need;
  bool is_optional = false;
};

// Says where the loader finds libcufile.so.0 for a program that is started like this one, and if it is Penstock's. A
// child process looks, since a library that is loaded runs code, and not every library survives its unloading.
std::string find_cufile() {
  int ends[2];
  if (::pipe(ends) != 0) return "";
  const core::UniqueFd out(ends[0]);
  core::UniqueFd in(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    link_map* map = nullptr;
    void* library = ::dlopen("libcufile.so.0", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr || ::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) ::_exit(0);
    const bool is_ours = ::dlsym(library, "penstock_cufile_session") != nullptr;
    const std::string text = fmt::format("{} libcufile.so.0, {}", is_ours ? "Penstock's" : "NVIDIA's", map->l_name);
    ::_exit(::write(in.get(), text.data(), text.size()) > 0 ? 0 : 1);
  }
  in.reset();
  std::string found(4096, '\0');
  const ssize_t size = child < 0 ? 0 : ::read(out.get(), found.data(), found.size());
  if (child > 0) ::waitpid(child, nullptr, 0);
  found.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return found;
}

facts::Finding need_cufile(const facts::Machine& machine) {
  if (!machine.probe)
    return need("libcufile", State::unknown, "only that machine can tell which one its programs load");
  const std::string found = find_cufile();
  if (!found.empty()) return need("libcufile", State::pass, "a program started here loads " + found);
  return need("libcufile", State::fail, "the loader finds no libcufile.so.0",
              "Name its directory in LD_LIBRARY_PATH: Penstock's lib, or lib64 of the CUDA toolkit.");
}

facts::Finding need_peer_memory(const core::Root& root) {
  std::string found;
  for (const char* module : {"nvidia_peermem", "mlx5_ib", "mlx_compat"}) {
    if (root.exists(std::string("/sys/module/") + module)) found += (found.empty() ? "" : ", ") + std::string(module);
  }
  if (root.exists("/sys/module/nvidia_peermem")) return need("peer_memory", State::pass, "loaded: " + found);
  return need("peer_memory", State::fail, "nvidia_peermem is not loaded" + (found.empty() ? "" : "; loaded: " + found),
              "Only storage over RDMA needs it: install MLNX_OFED or DOCA, then modprobe nvidia-peermem.");
}

facts::Finding need_configuration(const core::LoadedSettings& cufile) {
  const std::string file = cufile.file.empty() ? "no cufile.json: the defaults hold" : cufile.file;
  for (const core::Note& note : cufile.notes) {
    if (note.severity != core::Severity::error) continue;
    return need("cufile_json", cufile.must_refuse ? State::fail : State::unknown, core::describe(note),
                "Correct the setting that it names; 'penstock check' lists the rest.");
  }
  return need("cufile_json", State::pass, file);
}

// NVIDIA's library needs the same as the path through it. Mounts, and settings that switch the path off, are not part
// of an installation.
std::vector<Check> checks_of(const core::Root& root, const facts::Examination& examined) {
  constexpr std::string_view kOptional[] = {"nvidia_fs_mount", "ext4_ordered", "small_blocks"};
  std::vector<Check> checks;
  for (const facts::Finding& one : examined.whole.of(PENSTOCK_PATH_VENDOR).needs) {
    if (one.is_switch) continue;
    checks.push_back({one, std::find(std::begin(kOptional), std::end(kOptional), one.code) != std::end(kOptional)});
  }
  checks.push_back({need_cufile(examined.machine)});
  checks.push_back({need_configuration(examined.machine.process.cufile)});
  checks.push_back({need_peer_memory(root), true});
  return checks;
}

bool has_failed(const Check& check) { return check.need.state == State::fail && !check.is_optional; }

const char* state_of(const Check& check) {
  switch (check.need.state) {
    case State::fail: return check.is_optional ? "optional" : "missing";
    case State::unknown: return "unknown";
    default: return "ok";
  }
}

Json json_of(const facts::Machine& machine, const std::vector<Check>& checks, bool verified) {
  Json list = Json::array();
  for (const Check& check : checks) {
    const facts::Finding& one = check.need;
    list.push_back({{"code", one.code}, {"state", state_of(check)}, {"text", one.sentence}, {"remedy", one.remedy}});
  }
  const Json root = or_null(machine.root);
  return {{"schema", 1}, {"root", root}, {"verified", verified}, {"checks", list}};
}

std::string text_of(const std::vector<Check>& checks) {
  Page page;
  for (const Check& check : checks) {
    page.wrap(fmt::format("{:<8} {:<18} ", state_of(check), check.need.code), check.need.sentence);
    if (check.need.state != State::pass && !check.need.remedy.empty()) page.wrap("         -> ", check.need.remedy);
  }
  const auto failed = std::count_if(checks.begin(), checks.end(), has_failed);
  if (failed == 0) page.wrap("", "GDS installation is verified");
  else page.wrap("", fmt::format("GDS installation is not verified: {} of {} missing", failed, checks.size()));
  return page.text();
}

int run_check(const std::string& directory, bool json) {
  const core::Root root = open_machine_root(directory);
  const facts::Examination examined = facts::examine(facts::read_machine(root, directory));
  const std::vector<Check> checks = checks_of(root, examined);
  const bool verified = std::none_of(checks.begin(), checks.end(), has_failed);
  if (json) print_json(json_of(examined.machine, checks, verified));
  else print("{}", Text(text_of(checks)));
  if (verified) return kSuccess;
  const bool has_gpu = std::none_of(checks.begin(), checks.end(), [](const Check& check) {
    return std::string_view(check.need.code) == "gpu" && has_failed(check);
  });
  return has_gpu ? kFailed : kNotApplicable;
}

}  // namespace

void add_gds_install_check(CommandLine& command) {
  auto settings = std::make_shared<InstallCheckSettings>();
  command.option("--root", settings->root, "Read the captured machine in DIR instead of this one").value_name("DIR");
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kInstallCheckExamples);
  command.runs([settings] { return run_check(settings->root, settings->json); });
}

}  // namespace penstock::tools
