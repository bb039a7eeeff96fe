// SPDX-License-Identifier: Apache-2.0

#include "tools/common/machine_root.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "facts/environment.h"
#include "tools/common/failure.h"
#include "tools/common/terminal.h"

namespace penstock::tools {

core::Root open_machine_root(const std::string& directory) {
  auto root = core::Root::open(directory);
  if (!root.ok()) {
    throw Failure(fmt::format("cannot open the root '{}' ({}); name a directory that holds a captured machine",
                              printable(directory), std::strerror(root.status().code)),
                  kUsage);
  }
  if (!root->exists("/proc") && !root->exists("/sys")) {
    throw Failure(fmt::format("'{}' holds neither proc nor sys; name a directory that holds a captured machine",
                              printable(directory)),
                  kUsage);
  }
  return std::move(*root);
}

facts::Variables variables_of(const std::vector<std::string>& words) {
  facts::Variables variables;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const bool is_judged =
        name.starts_with("PENSTOCK_") || name.starts_with("CUFILE_") || !facts::reason_without_effect(name).empty();
    if (equals == std::string::npos || !is_judged) {
      throw Failure(
          fmt::format("--env {}: expected NAME=VALUE, the name beginning with PENSTOCK_ or CUFILE_, or one of "
                      "cuObject's (CUOBJ_LOGGING_LEVEL)",
                      printable(word)),
          kUsage);
    }
    // A misspelt name would get the answer for no setting at all.
    const std::string near = facts::nearest_setting(name);
    if (!near.empty() && near != name) {
      throw Failure(fmt::format("--env {}: did you mean {}?", printable(name), near), kUsage);
    }
    variables.emplace_back(name, word.substr(equals + 1));
  }
  return variables;
}

void set_variables(const facts::Variables& variables) {
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
}

}  // namespace penstock::tools
