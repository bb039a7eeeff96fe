// SPDX-License-Identifier: Apache-2.0

// For tests of `penstock run`: waiting until it has looked at its program.
#pragma once

#include <sys/types.h>

#include <fstream>
#include <iterator>
#include <string>

#include "fakes/waiting.h"

namespace penstock {

// Until the tool has looked at its program once more: it sleeps after each look. False where it never did.
[[nodiscard]] inline bool await_look(pid_t tool) {
  const auto sleeps = [&] {
    std::ifstream file("/proc/" + std::to_string(tool) + "/status");
    const std::string status{std::istreambuf_iterator<char>(file), {}}, name = "\nvoluntary_ctxt_switches:";
    const std::size_t at = status.find(name);
    return at == std::string::npos ? 0 : std::stol(status.substr(at + name.size()));
  };
  const long before = sleeps();
  return wait_until([&] { return sleeps() >= before + 3; });
}

}  // namespace penstock
