// SPDX-License-Identifier: Apache-2.0

// The first words of `penstock validate`: causes apart from findings that follow from them, with their places.
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "fakes/validate_fixture.h"

namespace penstock::tools {
namespace {

// The text before all rows.
std::string summary_of(const std::string& text) {
  const std::size_t begin = text.find('\n') + 1;
  return text.substr(begin, text.find("\nDrivers and peer access") - begin);
}

// PENSTOCK_REGENERATE=1 writes them anew; people have to judge the changes then.
TEST_F(Validate, WhatIsToldFirstIsAsItWasTold) {
  for (const char* machine : {"nvme-without-hooks", "cufile-denylist", "roce-faults", "data-journal", "kernel-5-4",
                              "guest-tcp", "no-device-nodes", "static-bar1-off"}) {
    const fs::path golden = std::string(PENSTOCK_SOURCE_DIR "/test/fixtures/validate/") + machine + ".txt";
    const std::string text = summary_of(run({"validate", "--root", std::string(PENSTOCK_MACHINES) + machine}).out);
    if (std::getenv("PENSTOCK_REGENERATE") != nullptr) std::ofstream(golden) << text;
    EXPECT_EQ(text, text_of(golden)) << machine;
  }
}

TEST_F(Validate, ARemedyNamesTheBridgeOrTheModuleThatItIsAbout) {
  const auto told = [&](const char* machine) {
    return run({"check", "--root", std::string(PENSTOCK_MACHINES) + machine}).out;
  };
  EXPECT_NE(told("acs-redirect").find("-> Boot with pci=disable_acs_redir=0000:02:00.0, which"), std::string::npos);
  const std::string inside = told("container-overlay");
  EXPECT_NE(inside.find("Outside the container: Load the module nvidia-uvm: "), std::string::npos) << inside;
  EXPECT_NE(
      inside.find("\n  pagecache  not usable (gpu_driver): the same\n  bounce     not usable (stand_in): driver "),
      std::string::npos)
      << inside;
}

TEST_F(Validate, WhatStandsBetweenFilesAndADirectPathIsToldNearestFirstAndOnce) {
  const auto told = [&](const char* machine) {
    return run({"check", "--root", std::string(PENSTOCK_MACHINES) + machine}).out;
  };
  const std::string text = told("data-journal");
  std::size_t at = 0;
  for (const char* part :
       {"\n  /, /data/0, /data/2: p2pdma is off, 1 step away\n    nvidia_export ", "-> Set PENSTOCK_",
        "\n  /data/1: p2pdma is closed, 2 steps away\n    data_journal ", "-> Mount ext4 with data=o",
        "\n    nvidia_export          as above\n  /data/3: p2pdma is closed, 2 steps away\n"}) {
    at = text.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << " in " << text;
  }
  EXPECT_NE(told("laptop").find("\n  /: no setting helps to a direct path, only other hardware\n"), std::string::npos);
}

TEST_F(Validate, APathInThePlaceOfAFolderIsAnsweredWithTheOptionThatAsksForIt) {
  const Finished done = run({"check", "p2pdma"});
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_EQ(done.err, "penstock: p2pdma: a path is asked for by 'penstock check --require p2pdma'\n");
}

TEST_F(Validate, WhatFollowsFromAFailureNamesItAndIsNoCauseItself) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"nvme-without-hooks", "path nvfs", "nvidia_fs_hooks nvme"},
      {"nvme-without-hooks", "path vendor", "nvidia_fs_hooks nvme"},
      {"nvme-without-hooks", "storage /data/0", "path nvfs"},
      {"kernel-5-4", "path p2pdma", "kernel_p2pdma "},
      {"kernel-5-4", "storage /data/0", "path p2pdma"},
      {"no-device-nodes", "path p2pdma", "nvidia_driver "},
      {"cufile-compat", "storage /data/0", "cufile_json properties.force_compat_mode"},
      {"cufile-denylist", "storage /data/0", "cufile_json denylist.filesystems xfs"},
      {"cufile-denylist", "storage /data/1", "cufile_json denylist.mounts /data/1"},
      {"cufile-broken", "storage /data/0", "settings "},
      {"roce-faults", "nvidia_fs ", "nvidia_fs_driver "},
      {"guest-tcp", "storage /mnt/nfs", "transport /mnt/nfs"},
      {"guest-tcp", "transport /mnt/two", "transport nvme4"}};
  for (const auto& [machine, name, cause] : cases) {
    auto rows = rows_of(machine_report(std::string(PENSTOCK_MACHINES) + machine));
    const json& from = rows[name]["follows_from"];
    ASSERT_TRUE(from.is_object()) << machine << " " << name << rows[name];
    EXPECT_EQ(from["code"].get<std::string>() + " " + from["subject"].get<std::string>(), cause) << machine << name;
  }
}

TEST_F(Validate, ADiskThatNoDirectPathServesIsNoConsequenceOfTheKernel) {
  for (const auto& [machine, disk] : {std::pair{"cloud-vm", "vda1"}, {"h200-vm", "vda"}}) {
    auto rows = rows_of(machine_report(std::string(PENSTOCK_MACHINES) + machine));
    EXPECT_EQ(rows["path p2pdma"]["follows_from"]["code"], "kernel_p2pdma");
    EXPECT_TRUE(rows["storage /"]["follows_from"].is_null()) << rows["storage /"];
    EXPECT_EQ(rows["storage /"]["sentence"],
              std::string("no direct path serves it: ") + disk + ": a virtio disk refuses device pages");
    EXPECT_NE(rows["storage /"]["remedy"].get<std::string>().find("an NVMe drive of its own"), std::string::npos);
  }
}

TEST_F(Validate, OnEveryMachineWhatIsNamedAsACauseFailsAndEachIsToldOnce) {
  for (const std::string& machine : machine_names()) {
    const std::string root = PENSTOCK_MACHINES + machine;
    const json told = machine_report(root);
    std::map<std::string, std::string> states;
    for (const auto& [name, row] : rows_of(told)) states[name] = row["state"];
    int causes = 0;
    for (const json& row : told["rows"]) {
      const json& from = row["follows_from"];
      causes += row["state"] == "fail" && from.is_null() ? 1 : 0;
      if (from.is_null()) continue;
      EXPECT_NE(row["state"], "pass") << machine << row;
      EXPECT_EQ(states[from["code"].get<std::string>() + " " + from["subject"].get<std::string>()], "fail") << row;
    }
    EXPECT_EQ(told["causes"], causes) << machine;
    EXPECT_EQ(causes > 0, told["exit_code"] == 1) << machine << ": what fails has a cause";

    std::set<std::string> sayings;
    const std::string whole =
        std::regex_replace(summary_of(run({"validate", "--root", root}).out), std::regex("\n {26,}"), " ");
    std::istringstream lines(whole);
    for (std::string line; std::getline(lines, line);) {
      const bool is_new = sayings.insert(line).second;
      EXPECT_TRUE(is_new || line.empty()) << machine << ": " << line;
    }
  }
}

TEST_F(Validate, WhereBytesGoAsTheMachineIsSetComesFirst) {
  const std::tuple<const char*, const char*, const char*, const char*> cases[] = {
      {"dgx-h100", "storage /data/0", "now", "directly, if the path's self-test passes"},
      {"h200-p2pdma", "storage /", "once_set", "until settings allow a direct path"},
      {"cufile-denylist", "storage /data/0", "once_set", "until settings allow a direct path"},
      {"nvme-without-hooks", "storage /data/0", "no", "through host memory: no direct path serves it"}};
  for (const auto& [machine, row, direct, words] : cases) {
    const std::string root = std::string(PENSTOCK_MACHINES) + machine;
    EXPECT_EQ(rows_of(machine_report(root))[row]["direct"], direct) << machine;
    const std::string text = summary_of(run({"validate", "--root", root}).out);
    EXPECT_EQ(text.find("\nHow bytes of GPU memory go"), 0u) << text;
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
  const json report = machine_report(PENSTOCK_MACHINES "firecracker-vm");
  for (const json& row : report["rows"]) EXPECT_TRUE(row["direct"].is_null()) << row;
}

TEST_F(Validate, AnOutageIsToldFirstAndTheNetworksSettingsLast) {
  const std::string root = copy_of("nvme-target-lost");
  const std::string text = summary_of(run({"validate", "--root", root}).out);
  const std::size_t outage = text.find("\n  nvme_target "), wrong = text.find("What is wrong");
  ASSERT_NE(outage, std::string::npos) << text;
  EXPECT_EQ(text.find("\n  ", wrong), outage) << text;
}

TEST_F(Validate, WhichFolderLiesOnWhichDriveIsSaidOfBoth) {
  auto rows = rows_of(machine_report(PENSTOCK_MACHINES "dgx-ready"));
  EXPECT_EQ(rows["storage /data/1"]["where"], "ext4 on nvme1n1, drive 0000:3c:00.0");
  EXPECT_EQ(rows["pcie_link drive 0000:3c:00.0"]["where"], "nvme1n1, /data/1");
  EXPECT_EQ(rows_of(machine_report(PENSTOCK_MACHINES "nfs-tcp"))["storage /models"]["where"], "nfs4 of server:/export");
  const std::string of_array = rows_of(machine_report(PENSTOCK_MACHINES "md-good"))["storage /scratch"]["where"];
  EXPECT_NE(of_array.find("md0 on nvme0n1, nvme1n1"), std::string::npos) << of_array;
}

TEST_F(Validate, TheKeyOfCufilesConfigurationThatForbidsIsNamedWithFileValueAndWhatItShouldBe) {
  auto rows = rows_of(machine_report(PENSTOCK_MACHINES "cufile-compat"));
  json row = rows["cufile_json properties.force_compat_mode"];
  EXPECT_EQ(row["sentence"],
            "it is true in /etc/cufile.json, and should be false: every byte goes through host memory");
  EXPECT_NE(row["remedy"].get<std::string>().find("\"force_compat_mode\": false in section \"properties\" of /etc"),
            std::string::npos);
  rows = rows_of(machine_report(PENSTOCK_MACHINES "cufile-denylist"));
  row = rows["cufile_json denylist.filesystems xfs"];
  EXPECT_EQ(row["sentence"], "it is on a denylist in /etc/cufile.json, which keeps /data/0, /data/2 from direct paths");
  EXPECT_EQ(row["remedy"], "Take \"xfs\" out of \"filesystems\" in section \"denylist\" of /etc/cufile.json.");
  EXPECT_EQ(rows.count("cufile_json denylist.mounts /somewhere/else"), 0u) << "what bars nothing here is no fault";
  EXPECT_EQ(state_of(rows_of(machine_report(PENSTOCK_MACHINES "cufile-broken")), "cufile_json "), "absent");
  EXPECT_NE(rows_of(machine_report(PENSTOCK_MACHINES "cufile-broken"))["settings "]["sentence"].get<std::string>().find(
                "/etc/cufile.json:4: error"),
            std::string::npos);
}

}  // namespace
}  // namespace penstock::tools
