// SPDX-License-Identifier: Apache-2.0

// The settings that a program would have on a machine: from its environment, and from cuFile's configuration there. For
// a captured machine, the environment is this process's own variables and those given by --env.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "facts/environment.h"
#include "settings/settings.h"
#include "topology/root.h"

namespace penstock::facts {

struct Process {
  EnvironmentSettings environment;
  std::string error;  // Why no session opens with these settings; "" if one does, as far as is known.
  // All settings of a program that uses cuFile. The environment's settings apply to every other program, too.
  core::LoadedSettings cufile;

  bool exports_gpu_memory() const { return cufile.settings.is_on("penstock.nvidia_export"); }
  bool reads_files_by_dmabufs() const { return cufile.settings.is_on("penstock.dmabuf_files"); }
  bool takes_dmabufs() const { return cufile.settings.is_on("penstock.dmabuf"); }
  bool calls_nvidia_fs() const { return cufile.settings.text("penstock.nvfs") != "off"; }
  // It calls nvidia-fs only where that is known not to crash the machine.
  bool shuns_doubtful_nvidia_fs() const { return cufile.settings.text("penstock.nvfs") == "auto"; }
  bool calls_vendor() const { return cufile.settings.text("penstock.vendor") != "off"; }
  const std::string& vendor_library() const { return cufile.settings.text("penstock.vendor_library"); }
  // The settings in force that send every byte through host memory.
  std::vector<core::Setting> forcing_host_memory() const;
  // The source of a setting's value: a variable, cuFile's configuration, or "the defaults".
  std::string origin_of(core::Setting setting) const;
  // A sentence for whoever measures by Penstock's own calls, on what cuFile's configuration has programs of cuFile do
  // otherwise; "" if it changes no way of a byte.
  std::string other_for_cufile() const;
};

// `variables` are names and values that replace this process's own.
Process read_process(const core::Root& root, bool is_captured, const Variables& variables);

// Loads this process's own settings, for a program that uses cuFile, and for a session of penstock.h.
core::LoadedSettings settings_for_cufile();
core::LoadedSettings settings_of_session();

// A setting of the environment without which a direct path is off.
struct PathSwitch {
  const char* path;
  const char* variable;
  const char* value;
  bool is_for_files = false;  // Raw drives do without it.
};
std::span<const PathSwitch> path_switches();
// False for the library's words of off, and for "", which it takes for unset. Other words, such as auto, switch it on.
bool switches_on(std::string_view value);

// Asks the library about Penstock's variables as a session does that opens with these: values that it refuses, and
// misspelt names. A note's place is the name, and for a value "NAME=VALUE".
std::vector<core::Note> notes_on(const Variables& variables);

}  // namespace penstock::facts
