// SPDX-License-Identifier: Apache-2.0

// Runs the built `penstock-k8s lint` on files that a test writes, or on the fixtures.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "fakes/tool_fixture.h"

namespace penstock::tools {

using nlohmann::json;
using Names = std::vector<std::string>;

inline const fs::path kFixtures = fs::path(PENSTOCK_SOURCE_DIR) / "test/fixtures/k8s";

inline Names words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// The names after "# WORD:" in a fixture.
inline Names words_after(const std::string& text, const std::string& word) {
  const std::size_t at = text.find("# " + word + ":");
  if (at == std::string::npos) return {};
  return words(text.substr(at + word.size() + 3, text.find('\n', at) - at - word.size() - 3));
}

class LintTest : public Tool {
 protected:
  void write(const std::string& name, const std::string& text) {
    fs::create_directories(path(name).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
  }
  Finished lint(Names arguments) {
    arguments.insert(arguments.begin(), {"lint"});
    return run(arguments);
  }
  json lint_json(Names arguments, int exit_code) {
    arguments.push_back("--json");
    const Finished done = lint(arguments);
    EXPECT_EQ(done.exit_code, exit_code) << done.out << done.err;
    json report = json::parse(done.out, nullptr, false);
    EXPECT_TRUE(report.is_object()) << done.out;
    return report;
  }
  json lint_fixture(const fs::path& file, int exit_code) {
    Names arguments = words_after(text_of(file), "options");
    arguments.insert(arguments.begin(), file.string());
    return lint_json(arguments, exit_code);
  }
};

inline std::set<std::string> rules_of(const json& report, bool with_notes) {
  std::set<std::string> rules;
  for (const json& one : report["findings"]) {
    if (with_notes || one["severity"] != "note") rules.insert(one["rule"]);
  }
  return rules;
}

}  // namespace penstock::tools
