// SPDX-License-Identifier: Apache-2.0

// The built `penstock check` on the captured machines of test/fixtures/machines and on trees made to hurt.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace penstock::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Answer {
  int exit_code = -1;
  std::string text;  // Both stdout and stderr.
};

// Arguments hold no quotes; nor do variables ("NAME=VALUE ").
Answer check(const std::string& arguments, const std::string& variables = "") {
  Answer answer;
  // Without what this test's own surroundings are told.
  const std::string command = "env -u PENSTOCK_TEST_DIRS -u PENSTOCK_TEST_SKIPPED_DIRS " + variables;
  FILE* pipe = popen((command + "'" PENSTOCK_TOOL "' check " + arguments + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return answer;
  char block[4096];
  while (const std::size_t got = fread(block, 1, sizeof block, pipe)) answer.text.append(block, got);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) answer.exit_code = WEXITSTATUS(status);
  return answer;
}

std::string root_of(const std::string& machine) { return "--root '" PENSTOCK_MACHINES + machine + "'"; }

json check_json(const std::string& machine, const std::string& more = "") {
  json parsed = json::parse(check("--json " + root_of(machine) + more).text, nullptr, false);
  EXPECT_FALSE(parsed.is_discarded()) << machine;
  return parsed;
}

json path_of(const json& report, const std::string& path) {
  for (const json& one : report["paths"]) {
    if (one["path"] == path) return one;
  }
  ADD_FAILURE() << "no path " << path;
  return {};
}

std::string state_of(const json& report, const std::string& path, const std::string& code) {
  const json found = path_of(report, path);
  for (const json& need : found["needs"]) {
    if (need["code"] == code) return need["state"];
  }
  return "absent";
}

constexpr const char* kExport = " --env PENSTOCK_NVIDIA_EXPORT=on";

const char* const kMachines[] = {
    "acs-redirect", "cloud-vm",       "cmb-peer",    "container-overlay", "dgx-h100",     "dgx-ready",
    "dm-crypt",     "firecracker-vm", "h200-p2pdma", "h200-vm",           "host-overlay", "iommu-translating",
    "kernel-6-16",  "laptop",         "md-far-leg",  "md-good",           "md-raid0",     "md-tcp-leg",
    "nfs",          "nfs-rdma",       "nfs-tcp",     "nvme-rdma",         "nvme-tcp",     "old-driver"};

TEST(CheckTest, TheExitCodeSaysWhetherBounceWorks) {
  for (const char* machine : kMachines) {
    const bool has_no_way = machine == std::string("container-overlay");
    EXPECT_EQ(check(root_of(machine)).exit_code, has_no_way ? 1 : 0) << machine;
    EXPECT_EQ(check_json(machine)["usable"], !has_no_way) << machine;
  }
}

TEST(CheckTest, PathsStandInOrder) {
  for (const char* machine : kMachines) {
    const json report = check_json(machine);
    std::string order;
    for (const json& path : report["paths"]) order += path["path"].get<std::string>() + " ";
    std::size_t at = 0;
    for (const char* path : {"p2pdma ", "nvfs ", "vendor ", "pagecache ", "bounce ", "host "}) {
      at = order.find(path, at);
      EXPECT_NE(at, std::string::npos) << machine << ": " << path << "of " << order;
    }
  }
}

TEST(CheckTest, ThePagecachePathIsForGpusThatCanBeUsed) {
  const std::pair<const char*, const char*> cases[] = {
      {"h200-vm", "reads_only"}, {"container-overlay", "gpu_driver"}, {"md-raid0", "stand_in"}};
  for (const auto& [machine, reason] : cases) {
    const json pagecache = path_of(check_json(machine), "pagecache");
    EXPECT_EQ(pagecache["usable"], reason == std::string("reads_only")) << machine;
    EXPECT_EQ(pagecache["reason"], reason) << machine;
  }
}

TEST(CheckTest, MemoryOfAGpuHasToBeAskedForAndThatOfOthersHasNot) {
  EXPECT_EQ(state_of(check_json("dgx-ready"), "p2pdma", "nvidia_export"), "off");
  EXPECT_EQ(path_of(check_json("dgx-ready"), "p2pdma")["standing"], "off");
  EXPECT_EQ(path_of(check_json("dgx-ready"), "p2pdma")["usable"], false);
  EXPECT_EQ(state_of(check_json("dgx-ready", kExport), "p2pdma", "nvidia_export"), "ok");
  EXPECT_EQ(state_of(check_json("cmb-peer"), "p2pdma", "nvidia_export"), "absent");
  EXPECT_NE(check(root_of("dgx-ready")).text.find("PENSTOCK_NVIDIA_EXPORT=on"), std::string::npos);
}

TEST(CheckTest, WhereThereIsNoGpuNothingElseIsRecommended) {
  const std::string text = check(root_of("md-raid0") + " --all").text;
  const std::size_t begin = text.find("Paths, best first");
  const std::string paths = text.substr(begin, text.find("\nDrivers and peer access") - begin);
  EXPECT_NE(paths.find("Run on a machine with an NVIDIA GPU"), std::string::npos) << paths;
  EXPECT_EQ(paths.find("nvidia-fs"), std::string::npos) << paths;
  EXPECT_EQ(paths.find("libcufile"), std::string::npos) << paths;
}

TEST(CheckTest, WithoutAGpuTheShortFormTellsWhatElseIsWrong) {
  const std::string text = check(root_of("md-raid0")).text;
  for (const char* code : {"gpu", "kernel_p2pdma", "locked_memory", "storage"}) {
    EXPECT_NE(text.find(std::string("\n  ") + code + " "), std::string::npos) << code << ": " << text;
  }
  EXPECT_NE(text.find(", 3 failed, "), std::string::npos) << text;
  EXPECT_EQ(check_json("md-raid0")["causes"], 3);
}

TEST(CheckTest, OfPairsThatAreOpenTheNearestIsTheBest) {
  const json p2pdma = path_of(check_json("dgx-ready"), "p2pdma");
  EXPECT_EQ(p2pdma["needs"][0]["text"], "the most likely pair: GPU 0000:18:00.0 and /data/0");
}

// ---- Settings

TEST(CheckTest, ANameThatNothingReadsIsSaidToBeNone) {
  const std::string variables = "PENSTOCK_VENDER=force PENSTOCK_FROBNICATE=1 PENSTOCK_WORKERS=2 ";
  const std::string text = check("", variables).text;
  EXPECT_NE(text.find("PENSTOCK_VENDER is not a setting of Penstock, and has no effect; did you mean "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("PENSTOCK_FROBNICATE is not a setting of Penstock, and has no effect\n"), std::string::npos);
  const json settings = json::parse(check("--json", variables).text, nullptr, false)["settings"];
  EXPECT_EQ(settings["in_force"]["PENSTOCK_WORKERS"], "2");
  EXPECT_FALSE(settings["in_force"].contains("PENSTOCK_VENDER"));
  EXPECT_EQ(settings["unknown"], (json{"PENSTOCK_FROBNICATE", "PENSTOCK_VENDER"}));
}

TEST(CheckTest, AValueThatMakesNoSenseIsAFailureThatNamesIt) {
  for (const char* name : {"PENSTOCK_DEVICE", "PENSTOCK_PATHS", "PENSTOCK_VENDOR", "PENSTOCK_WORKERS"}) {
    const Answer answer = check("", std::string(name) + "=nonsense ");
    EXPECT_EQ(answer.exit_code, 1) << name;
    EXPECT_NE(answer.text.find("a session cannot open with these"), std::string::npos) << answer.text;
    const json report = json::parse(check("--json", std::string(name) + "=nonsense ").text, nullptr, false);
    EXPECT_NE(report["settings"]["error"].get<std::string>().find(name), std::string::npos);
    EXPECT_EQ(report["usable"], false);
  }
  EXPECT_EQ(check_json("dgx-ready", kExport)["settings"]["in_force"]["PENSTOCK_NVIDIA_EXPORT"], "on");
  EXPECT_EQ(check(root_of("dgx-ready") + " --env PENSTOCK_WORKERS=nonsense").exit_code, 1);
  EXPECT_EQ(check(root_of("dgx-ready") + " --env HOME=/root").exit_code, 2);
  EXPECT_EQ(check(root_of("dgx-ready") + " --env PENSTOCK_NVSF=on").exit_code, 2);
}

TEST(CheckTest, WhatIsWrongWithCufilesConfigurationIsToldWithItsLineAndFails) {
  const fs::path file = fs::temp_directory_path() / ("penstock-check-" + std::to_string(getpid()) + ".json");
  std::ofstream(file) << "{\n\"properties\": {\"allow_compat_mod\": false}}";
  const std::string variables = "CUFILE_ENV_PATH_JSON=" + file.string() + " ";

  const Answer answer = check("", variables);
  const json told = json::parse(check("--json", variables).text, nullptr, false)["cufile"];

  EXPECT_EQ(answer.exit_code, 1);
  EXPECT_NE(answer.text.find("did you mean \"allow_compat_mode\""), std::string::npos) << answer.text;
  EXPECT_EQ(told["refused"], true);
  EXPECT_EQ(told["file"], file.string());
  EXPECT_EQ(told["notes"][0]["severity"], "error");
  EXPECT_NE(told["notes"][0]["text"].get<std::string>().find(".json:2: "), std::string::npos);
  fs::remove(file);
}

TEST(CheckTest, AVariableOfCuObjectsIsJudgedAsOneOfCufilesIs) {
  const json cufile =
      check_json("dgx-ready", " --env CUOBJ_LOGGING_LEVEL=trace --env CUFILE_DMABUF_ENABLE=true")["cufile"];
  ASSERT_EQ(cufile["notes"].size(), 2u) << cufile;
  EXPECT_EQ(cufile["notes"][0]["text"], "CUFILE_DMABUF_ENABLE: without effect: there is no RDMA in this version");
  EXPECT_EQ(cufile["notes"][1]["severity"], "without effect");
  EXPECT_EQ(check("--env CUOBJ_FROBNICATE=1").exit_code, 2);
}

TEST(CheckTest, EverythingMissingHasARemedy) {
  unsigned missing = 0;
  for (const char* machine : kMachines) {
    const json report = check_json(machine);
    for (const json& path : report["paths"]) {
      for (const json& need : path["needs"]) {
        if (need["state"] == "ok" || need["code"] == "dmabuf_kernel") continue;  // No release has that kernel.
        ++missing;
        EXPECT_NE(need["remedy"], "") << machine << " " << need["code"];
      }
    }
  }
  EXPECT_GT(missing, 50u);
}

TEST(CheckTest, P2pdmaMayBeTriedWhereNothingForbidsOnePair) {
  const std::pair<const char*, const char*> cases[] = {{"dgx-ready", "none"},
                                                       {"h200-p2pdma", "none"},
                                                       {"cmb-peer", "none"},
                                                       {"dm-crypt", "none"},  // The system drive.
                                                       {"old-driver", "driver_too_old_for_kernel"},
                                                       {"kernel-6-16", "kernel_6_16"},
                                                       {"container-overlay", "gpu_node"},
                                                       {"cloud-vm", "kernel_no_p2pdma"},
                                                       {"laptop", "bar_write_combined"},
                                                       {"md-raid0", "stand_in"},
                                                       {"firecracker-vm", "stand_in"}};
  for (const auto& [machine, reason] : cases) {
    const json p2pdma = path_of(check_json(machine, kExport), "p2pdma");
    EXPECT_EQ(p2pdma["usable"], reason == std::string("none")) << machine;
    EXPECT_EQ(p2pdma["reason"], reason) << machine;
  }
}

TEST(CheckTest, TheVendorPathMayBeTriedWhereNothingItNeedsIsMissing) {
  const std::pair<const char*, const char*> cases[] = {{"dgx-h100", "none"},
                                                       {"cloud-vm", "nvidia_fs_missing"},
                                                       {"h200-vm", "nvidia_fs_missing"},
                                                       {"md-raid0", "stand_in"}};
  for (const auto& [machine, reason] : cases) {
    const json vendor = path_of(check_json(machine), "vendor");
    EXPECT_EQ(vendor["usable"], reason == std::string("none")) << machine;
    EXPECT_EQ(vendor["reason"], reason) << machine;
  }
}

// "closed: nvme_tcp" or "open"; with every code, and a question mark for what is only possible.
std::string pair_of(const json& report, const std::string& peer, const std::string& mount_point) {
  for (const json& one : report["pairs"]) {
    if (one["peer"] != peer || one["mount_point"] != mount_point) continue;
    std::string text = one["writes"] == true ? "open" : one["reads"] == true ? "reads" : "closed";
    for (const char* list : {"obstacles", "write_obstacles"}) {
      for (const json& obstacle : one[list]) {
        text += " " + obstacle["code"].get<std::string>() + (obstacle["certainty"] == "possible" ? "?" : "");
      }
    }
    return text;
  }
  return "absent";
}

TEST(CheckTest, EveryPairSaysWhatStandsBetween) {
  struct Case {
    const char* machine;
    const char* peer;
    const char* mount_point;
    const char* outcome;
  };
  const Case cases[] = {
      {"dgx-ready", "0000:18:00.0", "/data/0", "open"},
      {"dgx-ready", "0000:c3:00.0", "/data/0", "open"},
      {"dm-crypt", "0000:18:00.0", "/data", "closed device_mapper"},
      {"md-good", "0000:18:00.0", "/scratch", "open"},
      {"md-far-leg", "0000:03:00.0", "/scratch", "closed root_ports_apart"},
      {"md-tcp-leg", "0000:18:00.0", "/scratch", "closed md_raid? nvme_tcp"},
      {"nvme-rdma", "0000:18:00.0", "/remote", "open nvme_rdma? route_unseen?"},
      {"nvme-tcp", "0000:18:00.0", "/remote", "closed nvme_tcp"},
      {"nfs-tcp", "0000:18:00.0", "/models", "closed nfs_tcp"},
      {"nfs-rdma", "0000:18:00.0", "/models", "closed nfs_rdma"},
      {"iommu-translating", "0000:18:00.0", "/data", "open iommu_translating?"},
      {"acs-redirect", "0000:03:00.0", "/data", "closed acs_redirect"},
      {"kernel-6-16", "0000:18:00.0", "/data", "closed kernel_6_16"},
      {"old-driver", "0000:c1:00.0", "/data",
       "closed driver_too_old_for_kernel static_bar1_off? bar_write_combined data_journal"},
      {"host-overlay", "0000:18:00.0", "/srv/one", "open"},
      {"host-overlay", "0000:18:00.0", "/srv/two", "closed memory"},
      {"cmb-peer", "0000:03:00.0", "/data", "open"},
      {"cmb-peer", "0000:03:00.0", "/pool", "reads checksums"},
      {"laptop", "0000:01:00.0", "/",
       "closed static_bar1_off? bar_write_combined device_mapper root_ports_apart iommu_translating? checksums"},
      {"dgx-h100", "0000:19:00.0", "/data/0",
       "closed driver_no_export static_bar1_off? bar_write_combined acs_redirect?"},
      {"container-overlay", "0000:41:00.0", "/",
       "closed gpu_node uvm_not_loaded? static_bar1_off? bar_write_combined? overlay? stack_unseen?"},
      {"cloud-vm", "0000:00:04.0", "/",
       "closed kernel_no_p2pdma kernel_too_old driver_no_export static_bar1_off? bar_write_combined virtio"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(pair_of(check_json(one.machine), one.peer, one.mount_point), one.outcome)
        << one.machine << " " << one.mount_point;
  }
}

TEST(CheckTest, TextNamesEveryObstacleAndItsRemedyOnce) {
  const std::string text = check(root_of("old-driver") + " --all").text;
  std::size_t remedies = 0;
  const std::size_t end = text.find("Paths, best first");
  const std::size_t begin = text.find("Device memory and storage: ");
  for (std::size_t at = text.find("595.44 or later, or boot", begin); at < end;
       at = text.find("595.44 or later, or boot", at + 1)) {
    ++remedies;
  }
  EXPECT_EQ(remedies, 1u) << text;
  EXPECT_NE(text.find("no_large_bar"), std::string::npos);
  EXPECT_NE(text.find("static_bar1_off?"), std::string::npos);
}

TEST(CheckTest, AGpusMemoryIsTriedAsADmaBufAndWhatNobodyCanTellIsNotGuessed) {
  const std::string gpu = "LD_LIBRARY_PATH='" PENSTOCK_FAKE_LIBCUDA "' PENSTOCK_DEVICE=cuda ";
  const json told = json::parse(check("--json", gpu).text, nullptr, false);
  ASSERT_FALSE(told.is_discarded());
  ASSERT_TRUE(told["dma_buf"].is_object()) << told["device"];
  EXPECT_EQ(told["dma_buf"]["exportable"], true) << told["dma_buf"];
  EXPECT_TRUE(told["dma_buf"]["rdma_devices"].is_array());
  EXPECT_NE(told["dma_buf"]["io_uring"], "yes");
  EXPECT_NE(check("--all", gpu).text.find("GPU memory as a dma-buf"), std::string::npos);
  EXPECT_TRUE(check_json("dgx-h100")["dma_buf"].is_null()) << "nothing is tried on a captured machine";
}

TEST(CheckTest, WhatEachMachineLacksIsNamed) {
  struct Case {
    const char* machine;
    const char* path;
    const char* code;
    const char* state;
  };
  const Case cases[] = {
      {"dgx-h100", "vendor", "nvidia_fs_storage", "ok"},
      {"h200-vm", "vendor", "vendor_library", "ok"},
      {"h200-vm", "bounce", "device", "ok"},
      {"nfs", "vendor", "nvidia_fs", "ok"},
      {"nfs", "nvfs", "nvidia_fs_version", "ok"},
      {"dgx-h100", "nvfs", "nvfs_setting", "off"},
      {"cloud-vm", "nvfs", "nvidia_fs", "missing"},
      {"cloud-vm", "vendor", "nvidia_fs", "missing"},
      {"container-overlay", "bounce", "device", "missing"},
      {"container-overlay", "bounce", "io_uring", "missing"},
      {"container-overlay", "vendor", "udev_database", "missing"},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(state_of(check_json(one.machine), one.path, one.code), one.state) << one.machine << " " << one.code;
  }
}

// check knows reasons of the path nvfs by numbers that penstock.h does not name.
TEST(CheckTest, WithoutAStorageDriverNvfsSaysThatByItsName) {
  EXPECT_EQ(path_of(check_json("nvme-without-hooks"), "nvfs")["reason"], "nvfs_no_driver");
}

TEST(CheckTest, WithoutIoUringBounceIsUsableAndSaysSo) {
  const json bounce = path_of(check_json("nfs"), "bounce");
  EXPECT_EQ(bounce["usable"], true);
  EXPECT_EQ(bounce["reason"], "io_uring_forbidden");
}

TEST(CheckTest, TextFitsAHundredColumnsAndNamesEverySection) {
  for (const char* machine : kMachines) {
    const std::string text = check(root_of(machine) + " --all").text;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const bool names_the_root = line.find(PENSTOCK_SOURCE_DIR) != std::string::npos;
      EXPECT_TRUE(names_the_root || line.size() <= 100) << machine << ": " << line;
      EXPECT_TRUE(line.empty() || line.back() != ' ') << line;
    }
    for (const char* section :
         {"Platform\n", "Kernel\n", "GPUs and driver\n", "File systems\n",
          "Device memory and storage: ", "IOMMU, io_uring, locked memory\n", "Paths, best first\n"}) {
      EXPECT_NE(text.find(section), std::string::npos) << machine << " " << section;
    }
  }
}

TEST(CheckTest, WithoutAllItIsOneScreenThatSaysHowToSeeTheRest) {
  for (const char* machine : kMachines) {
    const std::string text = check(root_of(machine)).text;
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 63) << machine << text;
    EXPECT_EQ(text.find("\n\nVerdict\n"), text.find('\n')) << text;
    EXPECT_NE(text.find("--all"), std::string::npos) << text;
    EXPECT_EQ(text.find("Platform\n"), std::string::npos) << text;
  }
}

TEST(CheckTest, ThisMachineIsProbed) {
  const Answer answer = check("--json");
  const json report = json::parse(answer.text, nullptr, false);
  ASSERT_FALSE(report.is_discarded()) << answer.text;
  EXPECT_TRUE(report["root"].is_null());
  ASSERT_TRUE(report["device"].is_object());
  EXPECT_FALSE(report["device"]["devices"].empty());
  EXPECT_TRUE(report["io_uring"]["errno"].is_number());
  EXPECT_EQ(report["usable"], answer.exit_code == 0);
}

TEST(CheckTest, ARootThatIsNoneIsWrongUsage) {
  const std::pair<const char*, const char*> cases[] = {{"--root /no/such/machine", "/no/such/machine"},
                                                       {"--root ''", "is empty"},
                                                       {"--root " PENSTOCK_SOURCE_DIR "/README.md", "directory"},
                                                       {"--root " PENSTOCK_SOURCE_DIR "/test", "neither proc nor sys"}};
  for (const auto& [arguments, sentence] : cases) {
    const Answer answer = check(arguments);
    EXPECT_EQ(answer.exit_code, 2) << arguments;
    EXPECT_NE(answer.text.find(sentence), std::string::npos) << answer.text;
  }
}

// Names with control characters and broken UTF-8, a directory in a file's place, links that circle or lead out.
TEST(CheckTest, AHostileTreeIsReportedAndMovesNoCursor) {
  std::string name = fs::temp_directory_path() / "penstock-check-XXXXXX";
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  const fs::path tree = name;
  fs::create_directories(tree / "proc/self");
  fs::create_directories(tree / "proc/cpuinfo");
  fs::create_directories(tree / "sys/bus/pci/devices");
  fs::create_symlink("0000:01:00.0", tree / "sys/bus/pci/devices/0000:01:00.0");
  fs::create_symlink("/etc", tree / "etc");
  std::ofstream(tree / "proc/self/mountinfo")
      << "1 0 8:1 / / rw - ext4 /dev/\033[2Jsda rw\n2 1 8:2 / /\\033[31m\xff\xfe\\012x rw - x\033fs y rw\n";
  const Answer text = check("--root '" + name + "'");
  EXPECT_EQ(text.exit_code, 0) << text.text;
  EXPECT_EQ(text.text.find('\033'), std::string::npos);
  const Answer document = check("--json --root '" + name + "'");
  EXPECT_FALSE(json::parse(document.text, nullptr, false).is_discarded()) << document.text;
  fs::remove_all(tree);
}

TEST(CheckTest, ItBeginsWithAVerdictAndWhatToChangeFirst) {
  const std::string text = check(root_of("dgx-h100")).text;
  const std::size_t verdict = text.find(
      "\nVerdict\n  files reach device memory by vendor (NVIDIA's libcufile, with nvidia-fs), if its self-test "
      "passes\n\nBetween files and a direct path\n  /data/0, /data/1: directly by vendor, if its self-test passes\n"
      "  /: vendor is closed, 1 step away\n    ext4_ordered           the mount options of ext4 do not show data=ord");
  EXPECT_NE(verdict, std::string::npos) << text;
  EXPECT_EQ(text.find('\033'), std::string::npos);
}

TEST(CheckTest, TheLastSentenceAgreesWithTheExitCode) {
  for (const char* more : {"", " --all"}) {
    const Answer passed = check(root_of("laptop") + more), failed = check(root_of("cufile-broken") + more);
    EXPECT_EQ(passed.exit_code, 0);
    EXPECT_NE(passed.text.find("the check passes, since bytes can move: "), std::string::npos) << passed.text;
    EXPECT_EQ(failed.exit_code, 1);
    EXPECT_NE(failed.text.find("the check fails: "), std::string::npos) << failed.text;
  }
}

TEST(CheckTest, AMachineThatCannotHaveADirectPathIsPromisedNone) {
  const std::string text = check(root_of("laptop")).text;
  EXPECT_NE(text.find("  no direct path can serve here: nothing that is set or installed"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  gpu_product              NVIDIA GeForce RTX"), std::string::npos);
  EXPECT_NE(check(root_of("md-raid5")).text.find("p2pdma, on /: only a setting is in its way\n"), std::string::npos);
}

TEST(CheckTest, WhatIsRequiredDecidesTheExitCode) {
  const std::string root = root_of("dgx-h100");
  EXPECT_EQ(check(root + " --require pagecache").exit_code, 0);
  EXPECT_EQ(check(root + " --require gpu").exit_code, 0);
  const Answer refused = check(root + " --require p2pdma");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.text.find("required: p2pdma: not met\n"), std::string::npos);
  EXPECT_EQ(check(root_of("firecracker-vm") + " --require gpu").exit_code, 1);
  const json told = json::parse(check("--json --require p2pdma " + root).text, nullptr, false);
  EXPECT_EQ(told["required"], json({{"what", "p2pdma"}, {"met", false}}));
  EXPECT_EQ(told["usable"], true);
  EXPECT_TRUE(check_json("dgx-h100")["required"].is_null());
  EXPECT_EQ(check(root + " --require quark").text,
            "penstock: --require quark: expected gpu, p2pdma, dmabuf, nvfs, vendor, pagecache, bounce, host\n");
}

TEST(CheckTest, AllThatKeepsAPathAwayStandsInTheVerdictOnce) {
  const std::string lacking = check(root_of("cloud-vm")).text;
  EXPECT_NE(lacking.find("-> Boot a kernel built with"), std::string::npos) << lacking;
  EXPECT_NE(lacking.find("no direct path serves here yet: begin with p2pdma\n"), std::string::npos);
  EXPECT_EQ(check(root_of("guest-near")).text.find("the nearest direct path"), std::string::npos) << "without a GPU";
  const Answer broken = check(root_of("cufile-broken"));
  EXPECT_NE(broken.text.find("\n  dmabuf     not usable (settings): the same\n"), std::string::npos) << broken.text;
  EXPECT_NE(check("--env CUFILE_ENV_PATH_JSON=/nowhere").text.find("Name a file that can be read, or unset"),
            std::string::npos);
  EXPECT_NE(check("--help").text.find("\n  --root DIR                  Read"), std::string::npos);
  EXPECT_EQ(lacking.find("Boot Linux 6.2 or later."), std::string::npos) << "the first step says it, too: " << lacking;
}

TEST(CheckTest, HowFarDrivesAreFromGpusIsATable) {
  const std::string text = check(root_of("dgx-h100") + " --all").text;
  EXPECT_NE(text.find("\n  drive         PCIe link   19:00.0  9b:00.0\n  0000:03:00.0  32 GT/s x4  node     apart\n"),
            std::string::npos)
      << text;
  const json rows = check_json("dgx-h100")["placement"];
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[2], json({{"drive", "0000:1a:00.0"}, {"gpu", "0000:19:00.0"}, {"relation", "switch"}}));
}

TEST(CheckTest, ColoursAreShownWhereTheyAreAskedFor) {
  const std::string text = check(root_of("dgx-h100") + " --color always").text;
  EXPECT_NE(text.find("  bounce     \033[32musable\033[0m\n"), std::string::npos) << text;
  EXPECT_EQ(check(root_of("dgx-h100") + " --color never").text, check(root_of("dgx-h100")).text);
}

}  // namespace
}  // namespace penstock::tools
