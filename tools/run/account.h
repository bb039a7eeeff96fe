// SPDX-License-Identifier: Apache-2.0

// The account that `penstock run` gives when its program has ended: reports of processes that used cuFile, and their
// libraries; and if none used cuFile, the ways in which they read instead. Pure.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/common/nvidia_fs_page.h"
#include "tools/run/family.h"

namespace penstock::tools {

struct Account {
  std::vector<std::string> words;  // The program and its arguments.
  int exit_code = 0;               // The exit code that a shell would report.
  int signal_number = 0;           // The signal that ended it, or 0.
  double seconds = 0;
  std::string library;       // Penstock's library, which was put in front.
  std::string out_of_reach;  // The reason why the program could not load it, or "".
  std::vector<ProcessSeen> processes;
  std::map<pid_t, std::string> reports;  // Text or JSON, by process.
  std::map<pid_t, std::string> loaded;   // The path of Penstock's library, as each process that loaded it said.
  core::NvidiaFsStats nvidia_fs;         // Its counters' growth meanwhile, of all programs.
};

// Lines for --which: which libcufile was mapped, and whose calls came first.
std::string which_text(const Account& account);
std::string account_text(const Account& account);
nlohmann::ordered_json account_json(const Account& account);

}  // namespace penstock::tools
