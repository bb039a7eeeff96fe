// SPDX-License-Identifier: Apache-2.0

#include "tools/common/log_findings.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "facts/finding.h"
#include "penstock/penstock.h"
#include "tools/common/log_causes.h"

namespace penstock::tools {
namespace {

std::vector<LogFinding> findings_in(std::string text, UnknownLines* unknown = nullptr) {
  LogAnswer answer;
  std::FILE* const log = fmemopen(text.data(), text.size(), "r");
  read_log(log, "log", answer);
  std::fclose(log);
  if (unknown != nullptr) *unknown = answer.unknown;
  return answer.findings;
}

std::string cause_of(const std::string& line) {
  const std::vector<LogFinding> findings = findings_in(line + "\n");
  return findings.empty() ? "" : findings[0].cause;
}

TEST(LogFindingsTest, LinesThatPeopleBringAreKnown) {
  const std::pair<const char*, const char*> cases[] = {
      {"modprobe: FATAL: Module nvidia-fs not found in directory /lib/modules/6.8.0", "module_missing"},
      {"insmod: ERROR: could not insert module nvidia-fs.ko: Unknown symbol in module", "p2p_symbols"},
      {"ERROR  cufio-fs:79 error getting volume attributes", "no_udev_record"},
      {"ERROR  cufio-rdma:12 No IP addresses found in rdma_dev_addr_list", "no_rdma_address"},
      {"cuFileRead failed: error 5027", "handle_not_registered"},
      {"cuFileDriverOpen returned 5001", "cufile_not_initialized"},
      {R"(Back-off pulling image "nvcr.io/nvidia/cloud-native/nvidia-fs:2.17.5-rhel9")", "gds_image_missing"},
      {"Back-off restarting failed container nvidia-fs-ctr in pod nvidia-driver-x", "gds_container_fails"},
      {"GPUDirect Storage not supported on current platform", "platform_not_supported"},
      {"ERROR  cufio-fs:150 mount option not found in mount table data device: nvme0n1", "ext4_not_ordered"},
      {"ERROR  cufio-fs:152 EXT4 mount options not specified", "ext4_not_ordered"},
      {"nvidia_fs: Error ret -22 invoking nvidia_p2p_get_pages", "gpu_without_peers"},
      {"modprobe: ERROR: could not insert 'nvidia_fs': Key was rejected by service", "secure_boot"},
      {"WARN  cufio-topo: No matching pair for network device to closest GPU found", "no_near_adapter"},
      {"nvidia_peermem: module not found", "peermem_missing"},
      {"modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.8.0", "peermem_missing"},
      {"insmod: ERROR: could not insert module nvidia-fs.ko: Invalid module format", "module_of_another_kernel"},
      {"nvidia_fs: disagrees about version of symbol nvme_v1_register_nvfs_dma_ops", "module_of_another_kernel"},
      {"rmmod: ERROR: Module nvme_fabrics is in use by: nvme_rdma", "module_in_use"},
      {"FATAL: 5001 files were read", ""},
  };
  for (const auto& [line, cause] : cases) EXPECT_EQ(cause_of(line), cause) << line;
}

TEST(LogFindingsTest, LinesAsProgramsWriteThemAreKnown) {
  EXPECT_EQ(
      cause_of("07-11-2023 16:58:54:420 [pid=45874 tid=45874] ERROR  cufio-fs:199 NVMe Driver not registered with "
               "nvidia-fs!!!"),
      "nvme_without_hooks");
  EXPECT_EQ(cause_of("06-11-2023 18:40:43:90 [pid=59193] NOTICE  cufio-drv:720 running in compatible mode"),
            "compat_mode");
  EXPECT_EQ(cause_of("[  12.1] nvidia_fs: Unknown symbol nvidia_p2p_get_pages (err -2)"), "p2p_symbols");
  EXPECT_EQ(cause_of(R"(time="x" level=info msg="Waiting for MOFED to be installed")"), "waits_for_ofed");
  EXPECT_EQ(cause_of("modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument"), "peermem_refused");
  EXPECT_EQ(cause_of(R"(Error: pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true)"),
            "pod_security");
  EXPECT_EQ(cause_of(R"(strict decoding error: unknown field "spec.mofed")"), "schema");
  EXPECT_EQ(cause_of("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."), "gpu_short");
  EXPECT_EQ(cause_of("ERROR  cufio-fs:440 error getting volume attributes error for device: dev_no: 259:1"),
            "no_udev_record");
  EXPECT_EQ(cause_of("ERROR  cufio-fs:767 error getting volume attributes error for device: dev_no: 0:53"),
            "no_block_device");
  EXPECT_EQ(cause_of("ERROR  cufio-udev:67 udev property not found: ID_FS_USAGE dm-0"), "no_udev_record");
  EXPECT_EQ(cause_of("ERROR  0:140 unable to load,  liburcu-bp.so.6"), "no_liburcu");
  EXPECT_EQ(cause_of("all is well"), "");
}

TEST(LogFindingsTest, LinesThatNobodyKnowsAreCountedAndTheFirstOfThemNamed) {
  UnknownLines unknown;
  findings_in("one\n\nrunning in compatible mode\ntwo\n", &unknown);
  EXPECT_EQ(unknown.count, 2u);
  EXPECT_EQ(unknown.first, (std::vector<std::string>{"log:1", "log:4"}));
  UnknownLines many;
  std::string text;
  for (int i = 0; i < 100; ++i) text += "what\n";
  findings_in(text, &many);
  EXPECT_EQ(many.count, 100u);
  EXPECT_EQ(many.first.size(), 8u);
}

TEST(LogFindingsTest, ALineThatNamesAReasonOfPenstocksIsExplainedAsHelpDoesIt) {
  const std::vector<LogFinding> findings = findings_in("p2pdma refused: iommu_translating\n");
  ASSERT_EQ(findings.size(), 1u);
  const std::int32_t reason = facts::reason_named("iommu_translating").value();
  EXPECT_EQ(findings[0].cause, "iommu_translating");
  EXPECT_EQ(findings[0].meaning, penstock_reason_sentence(reason));
  EXPECT_EQ(findings[0].remedy, penstock_reason_remedy(reason));
  EXPECT_EQ(cause_of("path: bounce, not p2pdma: it cannot be seen (overlay)  1 GiB"), "overlay");
  EXPECT_EQ(cause_of("no_iommu_translating_here"), "") << "a part of another word";
  EXPECT_EQ(cause_of("overlay: permission denied in memory"), "") << "ordinary words, which are names of reasons too";
}

TEST(LogFindingsTest, LinesThatPenstockHasLoggedSayTheirCauseAndWhatToDo) {
  const std::string path = testing::TempDir() + "penstock_own_" + std::to_string(getpid()) + ".log";
  core::log_to({path, core::LogLevel::info, 0});
  const core::Status refused = core::failure(core::Code::no_direct_path, "open the driver without compatibility mode");
  core::log(core::LogLevel::error, core::describe(refused));
  core::log(core::LogLevel::error, core::describe(refused));
  core::log(core::LogLevel::warn, "path nvfs: experimental");
  core::log(core::LogLevel::error, "path p2pdma: iommu_translating");
  core::log(core::LogLevel::info, "properties.use_poll_mode has no effect");
  core::log_to({});
  std::ifstream log(path);
  UnknownLines unknown;
  const std::vector<LogFinding> findings = findings_in({std::istreambuf_iterator<char>(log), {}}, &unknown);
  std::remove(path.c_str());

  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[0].cause, "penstock_log");
  EXPECT_EQ(findings[0].count, 2u);
  EXPECT_EQ(findings[0].meaning + "; " + findings[0].remedy, core::describe(refused));
  EXPECT_TRUE(findings[0].remedy.starts_with("set allow_compat_mode")) << findings[0].remedy;
  EXPECT_EQ(findings[1].meaning, "path nvfs: experimental");
  EXPECT_EQ(findings[2].cause, "iommu_translating");
  EXPECT_EQ(unknown.count, 0u) << "what is only worth knowing is known, too";
  EXPECT_EQ(cause_of("host:7:8 [0] transport/net.cc:45 NCCL WARN Call to connect failed"), "") << "of others";
}

TEST(LogFindingsTest, ALogOfARefusedFileIsKnownLineByLine) {
  UnknownLines unknown;
  const std::vector<LogFinding> findings = findings_in(
      " 06-04-2026 14:59:16:997 [pid=4 tid=4] ERROR  cufio-fs:204 NVMe Driver not registered with nvidia-fs!!!\n"
      " 06-04-2026 14:59:16:997 [pid=4 tid=4] ERROR  cufio:297 cuFileHandleRegister error, file checks failed\n"
      " 06-04-2026 14:59:16:997 [pid=4 tid=4] ERROR  cufio:339 cuFileHandleRegister error: GPUDirect Storage not "
      "supported on current file\n"
      " 27-06-2025 07:45:35:135 [pid=4 tid=4] ERROR  cufio-fs:328 error creating udev_device for block device dev_no: "
      "0:53\n"
      " 27-06-2025 08:00:30:92 [pid=5 tid=5] ERROR  cufio-fs:268 Unsupported block device: /dev/dm-0\n",
      &unknown);
  std::vector<std::string> causes;
  for (const LogFinding& each : findings) causes.push_back(each.cause);
  EXPECT_EQ(causes, (std::vector<std::string>{"nvme_without_hooks", "file_not_registered", "file_not_supported",
                                              "no_block_device", "block_device_not_supported"}));
  EXPECT_EQ(unknown.count, 0u);
}

TEST(LogFindingsTest, WhatIsNoTextIsCalledThatAndNotCountedLineByLine) {
  UnknownLines unknown;
  const std::string bytes(std::size_t{1} << 20, '\0');
  EXPECT_TRUE(findings_in("text\n" + bytes + "\nmore\n", &unknown).empty());
  EXPECT_EQ(unknown.count, 0u);
  EXPECT_EQ(unknown.no_text, std::vector<std::string>{"log"});
  UnknownLines long_line;
  findings_in(std::string(std::size_t{3} << 20, 'x') + "\ny\n", &long_line);
  EXPECT_EQ(long_line.first, (std::vector<std::string>{"log:1", "log:2"})) << "pieces of a line count once";
}

TEST(LogFindingsTest, WhatHasNoEndIsReadToABoundAndTheLineIsNamed) {
  UnknownLines unknown;
  for (const char* endless : {"/dev/zero", "/dev/urandom"}) {
    LogAnswer answer;
    std::FILE* const log = std::fopen(endless, "r");
    ASSERT_NE(log, nullptr);
    read_log(log, endless, answer);
    std::fclose(log);
    EXPECT_EQ(answer.unknown.cut_short.size(), 1u) << endless;
    EXPECT_EQ(answer.unknown.no_text.size(), 1u) << endless;
  }
  findings_in("OOMKilled\n" + std::string(std::size_t{17} << 20, 'x') + "\n", &unknown);
  EXPECT_EQ(unknown.cut_short, std::vector<std::string>{"log:2"});
}

TEST(LogFindingsTest, ACauseOfTwoLogsIsOneFinding) {
  LogAnswer answer;
  for (const char* file : {"a.log", "b.log"}) {
    std::string text = "running in compatible mode\n";
    std::FILE* const log = fmemopen(text.data(), text.size(), "r");
    read_log(log, file, answer);
    std::fclose(log);
  }
  ASSERT_EQ(answer.findings.size(), 1u);
  EXPECT_EQ(answer.findings[0].file, "a.log");
  EXPECT_EQ(answer.findings[0].count, 2u);
}

// There are as many findings as lines, and each line looks for its own among them.
TEST(LogFindingsTest, FiftyThousandDifferentLinesOfPenstocksAreAsManyFindings) {
  constexpr std::size_t kLines = 50'000;
  std::string text;
  for (std::size_t i = 0; i < kLines; ++i) {
    text += " 30-11-2026 01:00:00:000 [pid=7 tid=7] ERROR  file.cc:9 no file " + std::to_string(i) + "\n";
  }
  EXPECT_EQ(findings_in(std::move(text)).size(), kLines);
}

TEST(LogFindingsTest, ACauseIsToldOnceWithItsFirstLineAndHowOften) {
  const std::vector<LogFinding> findings = findings_in(
      "starts\nNVMe Driver not registered with nvidia-fs!!!\r\nother\nOOMKilled\nNVMe driver not registered with "
      "nvidia-fs!!!\n");
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].cause, "nvme_without_hooks");
  EXPECT_EQ(findings[0].line, 2u);
  EXPECT_EQ(findings[0].count, 2u);
  EXPECT_EQ(findings[0].text, "NVMe Driver not registered with nvidia-fs!!!");
  EXPECT_EQ(findings[1].line, 4u);
}

TEST(LogFindingsTest, ALineOfMegabytesAndNoTextAtAllAreRead) {
  EXPECT_EQ(findings_in(std::string(std::size_t{3} << 20, 'x') + "\nOOMKilled\n").at(0).line, 2u);
  EXPECT_EQ(findings_in(std::string("\0\0\xff\nOOMKilled", 13)).size(), 1u);
  EXPECT_TRUE(findings_in(std::string(1, '\n')).empty());
}

TEST(LogFindingsTest, EveryRowIsWhole) {
  for (const LogCause& cause : kLogCauses) {
    EXPECT_NE(cause.words[0], nullptr) << cause.id;
    for (const char* text : {cause.id, cause.meaning, cause.remedy, cause.source}) EXPECT_STRNE(text, "") << cause.id;
    for (const char* word : cause.words) {
      const std::string lower = word != nullptr ? word : "";
      EXPECT_EQ(lower.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), std::string::npos) << lower;
    }
  }
}

}  // namespace
}  // namespace penstock::tools
