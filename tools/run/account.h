// SPDX-License-Identifier: Apache-2.0

// What `penstock run` tells when its program has ended: the reports of processes that used cuFile, whose library they
// had, and where nobody used it, what they read with in its place. Pure.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/run/family.h"

namespace penstock::tools {

struct Account {
  std::vector<std::string> words;  // The program's.
  int exit_code = 0;               // As a shell would have it.
  int signal_number = 0;           // That ended it; 0 where none did.
  double seconds = 0;
  std::string library;       // Ours, which was put in front.
  std::string out_of_reach;  // Why the program could not have it; "" where nothing stood in the way.
  std::vector<ProcessSeen> processes;
  std::map<pid_t, std::string> reports;  // By whom: text, or JSON.
};

// Which libcufile was mapped, and whose calls came first: lines for --which.
std::string which_text(const Account& account);
std::string account_text(const Account& account);
nlohmann::ordered_json account_json(const Account& account);

}  // namespace penstock::tools
