// SPDX-License-Identifier: Apache-2.0

// `penstock check --beside`: two machines, where they differ.
#include <nlohmann/json.hpp>
#include <regex>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

class BesideTool : public Tool {
 protected:
  Finished compare(const char* a, const char* b, const std::vector<std::string>& more = {}) {
    const std::string machines = PENSTOCK_MACHINES;
    std::vector<std::string> words = {"check", "--root", machines + a, "--beside", machines + b};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  json document(const char* a, const char* b, const std::vector<std::string>& more = {"--json"}) {
    return json::parse(compare(a, b, more).out, nullptr, false);
  }
};

json row_of(const json& rows, const char* key, const char* name) {
  for (const json& row : rows) {
    if (row[key] == name) return row;
  }
  return nullptr;
}

TEST_F(BesideTool, TwoMachinesAreToldWhereTheyDifferAndWhichIsMoreDirect) {
  const Finished told = compare("dgx-h100", "cloud-vm");
  EXPECT_EQ(told.exit_code, 0) << told.err;
  for (const char* part :
       {"\nVerdict\n  A is more direct\n  on A files reach device memory by vendor",
        "\n  on B files reach device memory by pagecache",
        "\n  vendor     A  may be tried: its self-test decides\n             B  not usable (nvidia_fs_missing): the "
        "nvidia-fs kernel module is not loaded\n                -> First: ",
        "\n  locked_memory            A  pass: unlimited\n                           B  fail: 64 KiB"}) {
    EXPECT_NE(told.out.find(part), std::string::npos) << part << "\n" << told.out;
  }
  EXPECT_EQ(told.out.find("\n  pagecache"), std::string::npos) << "both say the same of it: " << told.out;
}

TEST_F(BesideTool, LinksThatCarryLessAreToldThoughAnotherLinkFails) {
  const std::string told = std::regex_replace(compare("dgx-h100", "gpu-link-x8").out, std::regex("\\s+"), " ");
  for (const char* words : {"; drives carry at most 15.8 GB/s", "; drives carry at most 7.9 GB/s"})
    EXPECT_NE(told.find(words), std::string::npos) << told;
  const json row = row_of(document("dgx-h100", "gpu-link-x8")["checks"], "code", "pcie_link");
  EXPECT_EQ(row["A"]["rates"], "drives carry at most 15.8 GB/s, GPUs carry at most 63.0 GB/s");
  EXPECT_EQ(row["B"]["rates"], "drives carry at most 7.9 GB/s, GPUs carry at most 31.5 to 63.0 GB/s");
}

TEST_F(BesideTool, TheAnswersAreThoseOfCheckAlone) {
  const std::string machines = PENSTOCK_MACHINES;
  const json a = json::parse(run({"check", "--json", "--root", machines + "dgx-h100"}).out);
  const json b = json::parse(run({"check", "--json", "--root", machines + "cloud-vm"}).out);
  const json both = document("dgx-h100", "cloud-vm");
  EXPECT_EQ(both["more_direct"], "A");
  std::size_t differ = 0;
  for (std::size_t i = 0; i < a["paths"].size(); ++i) {
    const json row = row_of(both["paths"], "path", a["paths"][i]["path"].get<std::string>().c_str());
    const auto says = [](const json& path) { return json{path["standing"], path["reason"], path["sentence"]}; };
    EXPECT_EQ(row.is_null(), says(a["paths"][i]) == says(b["paths"][i])) << a["paths"][i]["path"];
    if (row.is_null()) continue;
    EXPECT_EQ(says(row["A"]), says(a["paths"][i]));
    EXPECT_EQ(says(row["B"]), says(b["paths"][i]));
    ++differ;
  }
  EXPECT_EQ(differ, both["paths"].size());
  const json modules = row_of(both["checks"], "code", "kernel_modules");
  EXPECT_EQ(modules["A"]["state"], "pass");
  EXPECT_EQ(modules["B"]["state"], "fail");
  EXPECT_TRUE(row_of(both["checks"], "code", "nvidia_fs_hooks")["B"]["state"].is_null());
}

TEST_F(BesideTool, WhichOneIsNamedFirstChangesNothing) {
  EXPECT_EQ(document("cloud-vm", "dgx-h100")["more_direct"], "B");
  const std::string turned = compare("cloud-vm", "dgx-h100").out;
  EXPECT_LT(turned.find("-> First: Install the nvidia-fs package"), turned.find("B  off (nvfs_off)")) << turned;
  const Finished same = compare("dgx-h100", "dgx-h100");
  EXPECT_NE(same.out.find("neither is more direct than the other"), std::string::npos) << same.out;
  EXPECT_NE(same.out.find("no path and no check tells them apart"), std::string::npos) << same.out;
  EXPECT_TRUE(document("dgx-h100", "dgx-h100")["more_direct"].is_null());
  // A setting of the program that is asked about counts on both.
  const json required = document("dgx-h100", "cloud-vm", {"--json", "--env", "PENSTOCK_REQUIRE=bounce"});
  EXPECT_EQ(row_of(required["paths"], "path", "vendor")["A"]["standing"], "off");
}

TEST_F(BesideTool, WhereNeitherIsDirectNoneIsCalledMoreDirect) {
  const Finished told = compare("md-raid5", "laptop");
  ASSERT_NE(told.out.find("neither is direct; A has the better way"), std::string::npos) << told.out;
  EXPECT_TRUE(document("md-raid5", "laptop")["more_direct"].is_null());
  EXPECT_EQ(document("md-raid5", "laptop")["better"], "A");
  EXPECT_EQ(document("dgx-h100", "cloud-vm")["better"], "A");
}

TEST_F(BesideTool, WhatCostsADirectPathIsToldBeforeWhatIsSlower) {
  const json checks = document("dgx-h100", "cloud-vm")["checks"];
  const auto place = [&](const char* code) {
    std::size_t at = 0;
    while (at < checks.size() && checks[at]["code"] != code) ++at;
    return at;
  };
  EXPECT_LT(place("kernel_modules"), place("locked_memory")) << checks;
  EXPECT_LT(place("locked_memory"), checks.size()) << checks;
}

TEST_F(BesideTool, AFolderWithoutAMachineIsNamed) {
  EXPECT_EQ(run({"check", "--beside", "/nowhere"}).exit_code, 2);
  EXPECT_EQ(compare("dgx-h100", "cloud-vm", {"--topology"}).exit_code, 2);
}

}  // namespace
}  // namespace penstock::tools
