// SPDX-License-Identifier: Apache-2.0

// The account of `penstock run` when its program has ended: the reports of processes that used cuFile, their libraries,
// and if none used cuFile, the ways by which they read in its place. Pure.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/run/family.h"

namespace penstock::tools {

struct Account {
  std::vector<std::string> words;  // The program's.
  int exit_code = 0;               // A shell would have the same.
  int signal_number = 0;           // The signal that ended it, or 0.
  double seconds = 0;
  std::string library;       // Ours, which was put in front.
  std::string out_of_reach;  // Why the program could not have it, or "".
  std::vector<ProcessSeen> processes;
  std::map<pid_t, std::string> reports;  // By process: text, or JSON.
};

// Which libcufile was mapped, and whose calls came first: lines for --which.
std::string which_text(const Account& account);
std::string account_text(const Account& account);
nlohmann::ordered_json account_json(const Account& account);

}  // namespace penstock::tools
