// SPDX-License-Identifier: Apache-2.0

#include "topology/nvidia_fs_version.h"

#include <gtest/gtest.h>

#include "topology/platform.h"
#include "topology/test_tree.h"

namespace penstock::core {
namespace {

TEST(NvidiaFsVersionTest, IsReadAsTheModuleWritesItAndNothingElseIs) {
  EXPECT_EQ(parse_nvidia_fs_version("2.28.4"), (NvidiaFsVersion{2, 28, 4}));
  EXPECT_EQ(parse_nvidia_fs_version(" 2.28\n"), (NvidiaFsVersion{2, 28, 0, false}));
  EXPECT_EQ(parse_nvidia_fs_version("0.1.0\n"), (NvidiaFsVersion{0, 1, 0}));
  for (const char* text : {"", "2", "2.", "x.1", "2.x", "-2.1", "2.1000", "99999999999999999999.1", "\n2.1"}) {
    EXPECT_EQ(parse_nvidia_fs_version(text), std::nullopt) << text;
  }
}

TEST(NvidiaFsVersionTest, HasANumberAndATextForVerdicts) {
  EXPECT_EQ(number_of({2, 25, 6}), 2'025'006);
  EXPECT_EQ(text_of({2, 25, 6}), "2.25.6");
  EXPECT_EQ(text_of({2, 25, 0, false}), "2.25");
}

TEST(NvidiaFsVersionTest, OneOfTwoNumbersIsNotTakenForAnOlderOne) {
  EXPECT_FALSE(is_before({2, 20, 0, false}, {2, 20, 5}));
  EXPECT_TRUE(is_before({2, 20, 0}, {2, 20, 5}));
  EXPECT_TRUE(is_before({2, 19, 0, false}, {2, 20, 5}));
}

TEST(NvidiaFsVersionTest, FaultsAreThoseOfTheTableAndALaterVersionHasNone) {
  EXPECT_EQ(fault_of_nvidia_fs({2, 20, 0, false}), nullptr);
  EXPECT_NE(fault_of_nvidia_fs({2, 18, 3}), nullptr);
  EXPECT_NE(fault_of_nvidia_fs({2, 25, 6}), nullptr);
  EXPECT_EQ(fault_of_nvidia_fs({2, 25, 0, false}), nullptr);
  for (const NvidiaFsVersion& version : {NvidiaFsVersion{2, 28, 4}, {2, 30, 2}, {9, 99, 0}}) {
    EXPECT_EQ(fault_of_nvidia_fs(version), nullptr) << text_of(version);
  }
}

TEST(NvidiaFsVersionTest, WhetherAKernelStopsIsKnownOfReleasesThatAreNumberedAsLinuxIs) {
  const std::pair<const char*, Tristate> cases[] = {{"5.14.0-503.40.1.el9_5.x86_64", Tristate::no},
                                                    {"6.1.0-56-cloud-amd64", Tristate::no},
                                                    {"6.8.0-1020-nvidia", Tristate::no},
                                                    {"6.12.94+deb13-amd64", Tristate::no},
                                                    {"6.12.95", Tristate::yes},
                                                    {"6.12.117+deb12-cloud-amd64", Tristate::yes},
                                                    {"6.12.0-124.8.1.el10_1", Tristate::unknown},
                                                    {"6.14.0-33-generic", Tristate::unknown},
                                                    {"6.18.37", Tristate::no},
                                                    {"6.18.44-generic", Tristate::yes},
                                                    {"7.0.12", Tristate::unknown},
                                                    {"7.1.2", Tristate::no},
                                                    {"7.1.3", Tristate::yes},
                                                    {"7.2.0-rc1", Tristate::yes},
                                                    {"", Tristate::unknown}};
  for (const auto& [release, has_it] : cases) {
    EXPECT_EQ(has_task_switch_change(release), has_it) << release;
    EXPECT_EQ(stops_machine({2, 28, 4}, release), has_it) << release;
    EXPECT_EQ(stops_machine({2, 30, 2}, release), has_it == Tristate::no ? Tristate::no : Tristate::unknown);
    EXPECT_EQ(stops_machine({0, 1, 0}, release), Tristate::no) << "a stand-in takes no plug away";
  }
}

TEST(NvidiaFsVersionTest, TheModuleAndTheKernelUnderARootAreJudgedTogether) {
  TestTree tree;
  const auto stops = [&] { return nvidia_fs_stops_machine(read_nvidia_fs(tree.root()), tree.root()); };
  tree.put("/proc/sys/kernel/osrelease", "6.12.117+deb12-cloud-amd64\n");
  EXPECT_EQ(stops(), Tristate::no) << "nothing is loaded";
  tree.put("/proc/driver/nvidia-fs/version", "version: 2.28\n");
  EXPECT_EQ(stops(), Tristate::yes);
  tree.put("/sys/module/nvidia_fs/version", "2.30.2\n");
  EXPECT_EQ(stops(), Tristate::unknown);
}

}  // namespace
}  // namespace penstock::core
