// SPDX-License-Identifier: Apache-2.0

// `penstock validate`, the name of the last release of what `penstock check` finds: on every captured machine, on
// machines with a planted fault, and with a real transfer on this one.
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "fakes/validate_fixture.h"

namespace penstock::tools {
namespace {

TEST_F(Validate, EveryRowIsWholeAndEveryFailureHasItsRemedy) {
  const std::set<std::string> states = {"pass", "warn", "fail", "unknown", "not_applicable"};
  for (const std::string& machine : machine_names()) {
    const json told = machine_report(PENSTOCK_MACHINES + machine);
    EXPECT_EQ(told["schema"], 1);
    std::map<std::string, int> counts;
    for (const json& row : told["rows"]) {
      EXPECT_EQ(states.count(row["state"]), 1u) << row.dump();
      EXPECT_NE(row["sentence"], "") << machine << row.dump();
      EXPECT_EQ(row["state"] == "fail" && row["remedy"] == "", false) << machine << row.dump();
      ++counts[row["state"]];
    }
    counts["unknown"] += std::exchange(counts["warn"], 0);  // The last release counted warnings as unknown.
    EXPECT_FALSE(told["counts"].contains("warn"));
    for (const auto& [state, count] : told["counts"].items())
      EXPECT_EQ(count, counts[state]) << machine << " " << state;
    EXPECT_EQ(told["exit_code"], counts["fail"] > 0 ? 1 : counts["pass"] > 0 ? 0 : 77) << machine;
  }
}

TEST_F(Validate, WhatIsWrongWithAMachineIsARowThatFails) {
  const std::pair<const char*, const char*> cases[] = {{"firecracker-vm", "gpu "},
                                                       {"container-overlay", "nvidia_driver "},
                                                       {"cloud-vm", "kernel_p2pdma "},
                                                       {"kernel-6-16", "kernel_p2pdma "},
                                                       {"laptop", "iommu "},
                                                       {"iommu-translating", "iommu "},
                                                       {"old-driver", "path p2pdma"},
                                                       {"nvme-without-hooks", "nvidia_fs_hooks nvme"},
                                                       {"gpu-link-x8", "pcie_link GPU 0000:18:00.0"},
                                                       {"drive-link-gen3", "pcie_link drive 0000:19:00.0"},
                                                       {"drive-link-x1", "pcie_link drive 0000:19:00.0"},
                                                       {"rdma-port-down", "rdma_port mlx5_0 port 1"},
                                                       {"roce-v1", "roce_v2_gid mlx5_0 port 1"},
                                                       {"roce-mtu-1500", "rdma_mtu mlx5_0 port 1"},
                                                       {"nfs-tcp-beside-rdma", "transport /models"},
                                                       {"nvme-tcp-beside-rdma", "transport /remote"},
                                                       {"ofed-without-nvmeof", "ofed "},
                                                       {"nvme-target-lost", "nvme_target nvme4"},
                                                       {"closed-modules", "kernel_modules "},
                                                       {"closed-modules-nvidia-fs", "kernel_modules "},
                                                       {"driver-470", "gpu 10de:2330"},
                                                       {"kernel-5-4", "kernel_p2pdma "},
                                                       {"memlock-64k", "locked_memory "},
                                                       {"io-uring-off", "io_uring "},
                                                       {"no-device-nodes", "nvidia_driver "},
                                                       {"cufile-compat", "cufile_json properties.force_compat_mode"},
                                                       {"cufile-denylist", "cufile_json denylist.mounts /data/1"},
                                                       {"pfc-off", "pfc mlx5_0 port 1"},
                                                       {"cufile-broken", "settings "},
                                                       {"nvidia-fs-2-25-6", "nvidia_fs "},
                                                       {"nvidia-fs-debian-6-12", "nvidia_fs_task_switch "}};
  for (const auto& [machine, row] : cases) {
    const std::string root = std::string(PENSTOCK_MACHINES) + machine;
    EXPECT_EQ(state_of(rows_of(machine_report(root)), row), "fail") << machine;
    const std::string text = run({"validate", "--root", root}).out;
    const std::string code = std::string(row).substr(0, std::string_view(row).find(' '));
    EXPECT_LT(text.find("\n  " + code + " "), text.find("Drivers and peer access")) << machine << " is told first\n"
                                                                                    << text;
  }
}

TEST_F(Validate, WhatKeepsStorageFromADirectPathIsToldFirstWithItsRemedy) {
  for (const auto& [machine, names] : {std::pair("data-journal", "journaled data goes through the page cache"),
                                       std::pair("md-raid5", "this md level makes the CPU compute or copy")}) {
    const std::string text = run({"validate", "--root", std::string(PENSTOCK_MACHINES) + machine}).out;
    const std::string first = text.substr(0, text.find("Drivers and peer access"));
    const std::string whole = std::regex_replace(first, std::regex("\n +"), " ");
    EXPECT_NE(whole.find("What keeps storage from a direct path, or may"), std::string::npos) << text;
    EXPECT_NE(whole.find(names), std::string::npos) << machine << text;
  }
}

TEST_F(Validate, OnAMachineThatIsReadyNothingFails) {
  const json told = machine_report(PENSTOCK_MACHINES "dgx-ready");
  EXPECT_EQ(told["exit_code"], 0) << told.dump(1);
  const auto rows = rows_of(told);
  EXPECT_EQ(state_of(rows, "storage /data/0"), "pass");
  EXPECT_EQ(state_of(rows, "gpu 10de:2330"), "pass");
  EXPECT_EQ(state_of(rows, "transfer "), "not_applicable");
}

// ---- Planted faults

// A port that is right, on a machine that is.
void plant_port(const std::function<void(const std::string&, const std::string&)>& put) {
  const std::string port = "/sys/class/infiniband/mlx5_0/ports/1";
  put(port + "/state", "4: ACTIVE\n");
  put(port + "/link_layer", "Ethernet\n");
  put(port + "/rate", "200 Gb/sec (4X HDR)\n");
  put(port + "/gids/0", "0000:0000:0000:0000:0000:ffff:c000:0201\n");
  put(port + "/gid_attrs/types/0", "RoCE v2\n");
  put(port + "/gid_attrs/ndevs/0", "eth4\n");
  put("/sys/class/net/eth4/mtu", "9000\n");
}

struct Fault {
  const char* machine;
  const char* row;    // "code subject"
  const char* names;  // Part of the sentence.
  std::vector<std::pair<std::string, std::string>> files;
};

TEST_F(Validate, APlantedFaultIsCaughtByARowThatNamesIt) {
  const std::string port = "/sys/class/infiniband/mlx5_0/ports/1";
  const std::string drive = "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0";
  const Fault faults[] = {
      {"dgx-ready", "rdma_port mlx5_0 port 1", "not active but DOWN", {{port + "/state", "1: DOWN\n"}}},
      {"dgx-ready", "roce_v2_gid mlx5_0 port 1", "no GID of RoCE v2", {{port + "/gid_attrs/types/0", "IB/RoCE v1\n"}}},
      {"dgx-ready",
       "roce_v2_gid mlx5_0 port 1",
       "are link-local",
       {{port + "/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n"}}},
      {"dgx-ready",
       "rdma_mtu mlx5_0 port 1",
       "1024 bytes and could carry 4096",
       {{"/sys/class/net/eth4/mtu", "1500\n"}}},
      {"dgx-ready", "pcie_link drive 0000:19:00.0", "x1 at", {{drive + "/current_link_width", "1\n"}}},
      {"dgx-ready",
       "transport nvme4",
       "TCP to traddr=10.0.0.1, although this machine has the RDMA device mlx5_0",
       {{"/sys/class/nvme/nvme4/transport", "tcp\n"}, {"/sys/class/nvme/nvme4/address", "traddr=10.0.0.1\n"}}},
      {"dgx-h100",
       "nvidia_fs_driver ",
       "nvidia-fs 2.22 is too old for driver 595.45.04",
       {{"/sys/module/nvidia/version", "595.45.04\n"}}},
      {"dgx-h100",
       "nvidia_fs_hooks nvme",
       "has no hooks for it",
       {{"/proc/driver/nvidia-fs/modules", "wekafsio: 1\n"}}},
      {"dgx-h100", "nvidia_fs ", "EFAULT", {{"/sys/module/nvidia_fs/version", "2.25.6\n"}}},
  };
  for (const Fault& fault : faults) {
    const std::string root = copy_of(fault.machine);
    plant_port([&](const std::string& file, const std::string& text) { put(root, file, text); });
    EXPECT_NE(state_of(rows_of(machine_report(root)), fault.row), "fail") << fault.row;
    for (const auto& [file, text] : fault.files) put(root, file, text);

    const json told = machine_report(root);

    const auto rows = rows_of(told);
    EXPECT_EQ(state_of(rows, fault.row), "fail") << fault.row << told.dump(1);
    if (rows.count(fault.row) == 0) continue;
    EXPECT_NE(rows.at(fault.row)["sentence"].get<std::string>().find(fault.names), std::string::npos)
        << rows.at(fault.row).dump();
    EXPECT_EQ(told["exit_code"], 1);
    fs::remove_all(root);
  }
}

TEST_F(Validate, OnAMachineOfManyFaultsEachIsARowAndNothingElseFails) {
  const std::set<std::string> faults = {"nvidia_fs ",
                                        "nvidia_fs_driver ",
                                        "path nvfs",
                                        "path vendor",
                                        "rdma_port mlx5_1 port 1",
                                        "roce_v2_gid mlx5_1 port 1",
                                        "rdma_mtu mlx5_1 port 1",
                                        "pcie_link drive 0000:1a:00.0",
                                        "transport nvme4"};
  std::set<std::string> failed;
  for (const auto& [name, row] : rows_of(machine_report(PENSTOCK_MACHINES "roce-faults"))) {
    if (row["state"] == "fail") failed.insert(name);
    const bool is_right = name == "gpu_memory_registration " || name == "pcie_link NIC 0000:1c:00.0";
    EXPECT_EQ(is_right && row["state"] != "pass", false) << row;
  }
  EXPECT_EQ(failed, faults);
}

TEST_F(Validate, AMountOverTcpIsSaidAndFailsWhereAnRdmaDeviceIs) {
  for (const auto& [machine, point] : {std::pair("nvme-tcp", "/remote"), std::pair("nfs-tcp", "/models")}) {
    const std::string row = std::string("transport ") + point;
    const json without = rows_of(machine_report(std::string(PENSTOCK_MACHINES) + machine))[row];
    EXPECT_EQ(without["state"], "warn") << machine;
    EXPECT_NE(without["sentence"].get<std::string>().find("TCP"), std::string::npos) << without.dump();
    const std::string root = copy_of(machine);
    plant_port([&](const std::string& file, const std::string& text) { put(root, file, text); });
    EXPECT_EQ(state_of(rows_of(machine_report(root)), row), "fail") << machine;
  }
}

// Captured in emulated machines, whose NFS and NVMe over Fabrics moved bytes.
TEST_F(Validate, OnCapturedMachinesEachTransportIsNamedAndTcpFailsBesideRdma) {
  const auto by_rdma = rows_of(machine_report(PENSTOCK_MACHINES "guest-rdma"));
  EXPECT_EQ(state_of(by_rdma, "roce_v2_gid rxe0 port 1"), "pass");
  for (const char* row : {"transport nvme4", "transport /mnt/one", "transport /mnt/nfs"}) {
    EXPECT_EQ(state_of(by_rdma, row), "pass") << row;
    EXPECT_NE(by_rdma.at(row)["sentence"].get<std::string>().find("RDMA"), std::string::npos) << row;
  }
  const auto by_tcp = rows_of(machine_report(PENSTOCK_MACHINES "guest-tcp"));
  for (const char* row : {"transport nvme4", "transport /mnt/two", "transport /mnt/nfs"}) {
    EXPECT_EQ(state_of(by_tcp, row), "fail") << row;
    EXPECT_NE(by_tcp.at(row)["sentence"].get<std::string>().find("TCP"), std::string::npos) << row;
  }
}

TEST_F(Validate, TreesMadeToHurtAreJudgedAllTheSame) {
  const std::string root = copy_of("dgx-ready");
  const std::string port = "/sys/class/infiniband/\n\x1b[31m/ports/99999999999999999999";
  put(root, port + "/state", std::string(100000, 'x'));
  put(root, port + "/link_layer", "Ethernet");
  put(root, "/sys/class/nvme/nvme9/transport", std::string("\0\xff", 2));
  put(root, "/sys/class/nvme/nvme9/subsysnqn", std::string(5000, '\x07'));
  put(root, "/sys/module/nvidia_fs/version", "99999999999999999999.1");
  put(root, "/sys/module/mlx5_core/version", "\xff\xfe");
  const Finished done = run({"validate", "--root", root});
  EXPECT_EQ(done.exit_code, 1) << done.err;
  EXPECT_EQ(done.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(done.out.find('\x07'), std::string::npos);
}

// ---- One real transfer

TEST_F(Validate, AFileIsWrittenReadBackComparedAndGone) {
  const json told = report({"--layer", "3", "."}, 0);
  const auto rows = rows_of(told);
  ASSERT_EQ(state_of(rows, "transfer ."), "pass") << told.dump(1);
  const json& details = rows.at("transfer .")["details"];
  for (const char* way : {"write", "read"}) {
    EXPECT_EQ(details[way]["bytes"], 8 << 20) << way;
    EXPECT_EQ(details[way]["path"], "bounce") << way;
    EXPECT_EQ(details[way]["direct_path_bytes"], 0) << way;
    EXPECT_EQ(
        details[way]["direct_io_bytes"].get<std::int64_t>() + details[way]["page_cache_bytes"].get<std::int64_t>(),
        8 << 20)
        << way;
  }
  EXPECT_EQ(state_of(rows, "transfer_path ."), "not_applicable");
  EXPECT_TRUE(fs::is_empty(path("")));
}

// A CUDA driver without a GPU, in place of libcuda.so.1.
void with_gpu() {
  setenv("PENSTOCK_DEVICE", "cuda", 1);
  setenv("LD_LIBRARY_PATH", PENSTOCK_FAKE_LIBCUDA, 1);
}

TEST_F(Validate, WithAGpuBytesThatTookNoDirectPathAreAFailureWithItsReason) {
  const Finished done = run({"validate", "--json", "--layer", "3", "."}, with_gpu);
  EXPECT_EQ(done.exit_code, 1) << done.out << done.err;
  const json told = json::parse(done.out, nullptr, false);
  const auto rows = rows_of(told);
  EXPECT_EQ(state_of(rows, "transfer ."), "pass") << told.dump(1);
  ASSERT_EQ(state_of(rows, "transfer_path ."), "fail") << told.dump(1);
  const json& row = rows.at("transfer_path .");
  EXPECT_NE(row["sentence"].get<std::string>().find("the bytes took no direct path: "), std::string::npos) << row;
  EXPECT_NE(row["remedy"], "");
}

TEST_F(Validate, BytesThatTookADirectPathAreProvenByTheReportOfTheirTransfer) {
  make("probe", 4096);
  const int fd = open(path("probe").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  fs::remove(path("probe"));
  if (fd < 0) GTEST_SKIP() << "no O_DIRECT in the working directory";
  close(fd);
  const auto by_vendor = [] {
    with_gpu();
    setenv("PENSTOCK_VENDOR", "force", 1);
    setenv("PENSTOCK_VENDOR_LIBRARY", PENSTOCK_FAKE_VENDOR, 1);
    setenv("PENSTOCK_PATHS", "vendor,bounce", 1);
  };
  const Finished done = run({"validate", "--json", "--layer", "3", "."}, by_vendor);
  EXPECT_EQ(done.exit_code, 0) << done.out << done.err;
  const json told = json::parse(done.out, nullptr, false);
  const auto rows = rows_of(told);
  ASSERT_EQ(state_of(rows, "transfer_path ."), "pass") << told.dump(1);
  EXPECT_EQ(rows.at("transfer_path .")["sentence"], "every byte by vendor, from GPU memory and into it");
  EXPECT_EQ(rows.at("transfer .")["details"]["read"]["direct_path_bytes"], 8 << 20);
  EXPECT_TRUE(fs::is_empty(path("")));
}

TEST_F(Validate, AFolderThatCannotBeUsedFailsAndTheOthersAreTried) {
  fs::create_directory(path("good"));
  const json told = report({"--layer", "3", "nowhere", "good", "/proc"}, 1);
  const auto rows = rows_of(told);
  EXPECT_EQ(state_of(rows, "transfer nowhere"), "fail");
  EXPECT_EQ(state_of(rows, "transfer /proc"), "fail");
  EXPECT_EQ(state_of(rows, "transfer good"), "pass");
  EXPECT_NE(rows.at("transfer nowhere")["sentence"].get<std::string>().find("nowhere/penstock-validate"),
            std::string::npos);
  EXPECT_TRUE(fs::is_empty(path("good")));
}

TEST_F(Validate, SettingsThatMakeNoSenseAreRowsThatFail) {
  const Finished done = run({"validate", "--json", "."}, [] { setenv("PENSTOCK_PATHS", "nonsense", 1); });
  EXPECT_EQ(done.exit_code, 1);
  const json told = json::parse(done.out, nullptr, false);
  auto rows = rows_of(told);
  for (const char* name : {"settings ", "transfer "}) {
    ASSERT_EQ(state_of(rows, name), "fail") << told.dump(1);
    EXPECT_NE(rows[name]["sentence"].get<std::string>().find("nonsense"), std::string::npos) << rows[name];
  }
}

TEST_F(Validate, AGpuThatIsNotThereFailsItsTransferAndTheOtherRowsAreTold) {
  const Finished done = run({"validate", "--json", "--gpu", "63", "."});
  EXPECT_EQ(done.exit_code, 1);
  const json told = json::parse(done.out, nullptr, false);
  auto rows = rows_of(told);
  ASSERT_EQ(state_of(rows, "transfer "), "fail") << told.dump(1);
  EXPECT_NE(rows["transfer "]["sentence"].get<std::string>().find("63"), std::string::npos) << rows["transfer "];
  EXPECT_EQ(rows.count("kernel "), 1u);
}

TEST_F(Validate, WithoutAFolderItSaysHowToAskForATransfer) {
  const json told = report({"--layer", "3"}, 77);
  ASSERT_EQ(told["rows"].size(), 1u);
  EXPECT_EQ(told["rows"][0]["state"], "not_applicable");
  EXPECT_NE(told["rows"][0]["remedy"].get<std::string>().find("penstock validate /mnt/"), std::string::npos);
}

TEST_F(Validate, ALayerByItselfIsJudgedByItself) {
  const std::string root = PENSTOCK_MACHINES "dgx-ready";
  for (const int layer : {1, 2, 3}) {
    const json told = report({"--layer", std::to_string(layer), "--root", root}, layer == 3 ? 77 : 0);
    EXPECT_EQ(told["layers"], json::array({layer}));
    for (const json& row : told["rows"]) EXPECT_EQ(row["layer"], layer) << row.dump();
  }
}

TEST_F(Validate, ForPeopleItSaysRowsRemediesAndWhatWasNeverTried) {
  const Finished done = run({"validate", "--root", PENSTOCK_MACHINES "old-driver"});
  EXPECT_EQ(done.exit_code, 1);
  for (const char* part : {"Drivers and peer access", "Fabric and links", "fail", "-> ", "What is wrong",
                           "Result of the checks", "something is wrong", "1 cause, listed first with its remedy",
                           "so storage /", "never tried on real hardware"}) {
    EXPECT_NE(done.out.find(part), std::string::npos) << part << "\n" << done.out;
  }
}

TEST_F(Validate, OfManyThingsThatDoNotApplyPeopleSeeAFew) {
  const std::string root = copy_of("firecracker-vm");
  std::string mounts = text_of(root + "/proc/self/mountinfo");
  for (int i = 1; i <= 50; ++i) {  // Below the root, which is 27 there.
    const std::string number = std::to_string(i);
    mounts += std::to_string(5000 + i) + " 27 0:" + std::to_string(900 + i) + " / /far" + number +
              " rw shared:9 - nfs4 server:/e" + number + " rw,vers=4.2\n";
  }
  put(root, "/proc/self/mountinfo", mounts);

  const std::string text = run({"validate", "--layer", "1", "--root", root}).out;

  EXPECT_NE(text.find("more of these; --json lists them"), std::string::npos) << text;
  EXPECT_EQ(text.find("/far40:"), std::string::npos) << text;
  EXPECT_EQ(rows_of(machine_report(root)).count("storage /far40"), 1u);
}

TEST_F(Validate, WordsThatMakeNoSenseAreRefused) {
  for (const char* words : {"--layer 4", "--layer 0", "--layer x", "--layer 1 .", "--root nowhere", "--nonsense",
                            "--root " PENSTOCK_MACHINES "laptop ."}) {
    std::vector<std::string> all = {"validate"};
    std::istringstream each(words);
    for (std::string word; each >> word;) all.push_back(word);
    EXPECT_EQ(run(all).exit_code, 2) << words;
  }
}

}  // namespace
}  // namespace penstock::tools
