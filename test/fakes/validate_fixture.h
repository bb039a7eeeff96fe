// SPDX-License-Identifier: Apache-2.0

// For tests of the built `penstock validate`: its rows by name, of captured machines and of copies with faults.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fakes/tool_fixture.h"

namespace penstock::tools {

using nlohmann::json;

inline std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(PENSTOCK_MACHINES)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

class Validate : public Tool {
 protected:
  json report(const std::vector<std::string>& words, int exit_code) {
    std::vector<std::string> all = {"validate", "--json"};
    all.insert(all.end(), words.begin(), words.end());
    const Finished done = run(all);
    EXPECT_EQ(done.exit_code, exit_code) << done.out << done.err;
    return json::parse(done.out, nullptr, false);
  }
  json machine_report(const std::string& root) {
    const Finished done = run({"validate", "--json", "--root", root});
    const json document = json::parse(done.out, nullptr, false);
    EXPECT_EQ(document["exit_code"], done.exit_code) << root << done.err;
    return document;
  }
  json check_report(const std::string& root) {
    return json::parse(run({"check", "--json", "--root", root}).out, nullptr, false);
  }
  // A copy of a captured machine to plant faults in.
  std::string copy_of(const std::string& machine) {
    const fs::path copy = path(machine);
    fs::copy(PENSTOCK_MACHINES + machine, copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    return copy;
  }
  static void put(const std::string& root, const std::string& file, const std::string& text) {
    const fs::path target = root + file;
    fs::create_directories(target.parent_path());
    fs::remove(target);
    std::ofstream(target) << text;
  }
};

// By "code subject".
inline std::map<std::string, json> rows_of(const json& report) {
  std::map<std::string, json> rows;
  for (const json& row : report["rows"]) {
    rows[row["code"].get<std::string>() + " " + row["subject"].get<std::string>()] = row;
  }
  return rows;
}

inline std::string state_of(const std::map<std::string, json>& rows, const std::string& name) {
  const auto found = rows.find(name);
  return found == rows.end() ? "absent" : found->second["state"].get<std::string>();
}

}  // namespace penstock::tools
