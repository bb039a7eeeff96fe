// SPDX-License-Identifier: Apache-2.0

// How bytes may go, on captured machines with several settings.
#include "facts/outlook.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "facts/examination.h"

namespace penstock::facts {
namespace {

Examination examined(const std::string& name, const Variables& variables = {}) {
  const std::string directory = PENSTOCK_MACHINES + name;
  const core::Result<core::Root> root = core::Root::open(directory);
  EXPECT_TRUE(root.ok()) << directory;
  return examine(read_machine(*root, directory, variables));
}

const PathOutlook& at(const Examination& machine, const std::string& mount_point, int path) {
  for (const Outlook& place : machine.places) {
    if (place.place->mount.mount_point == mount_point) return place.of(path);
  }
  ADD_FAILURE() << "nothing is mounted at " << mount_point;
  return machine.whole.of(path);
}

std::string reason_of(const PathOutlook& path) { return path.reason() == nullptr ? "" : path.reason()->code; }

TEST(OutlookTest, AReadyMachineHasP2pdmaOffUntilItIsSwitchedOn) {
  const Examination off = examined("dgx-ready");
  EXPECT_EQ(off.whole.of(PENSTOCK_PATH_P2PDMA).standing(), Standing::off);
  EXPECT_EQ(off.whole.of(PENSTOCK_PATH_P2PDMA).reason_name(), "pointer_not_exportable");
  ASSERT_NE(off.whole.first_usable(), nullptr);
  EXPECT_EQ(off.whole.first_usable()->path, PENSTOCK_PATH_PAGECACHE);

  const Examination on = examined("dgx-ready", {{"PENSTOCK_NVIDIA_EXPORT", "on"}});
  EXPECT_EQ(on.whole.of(PENSTOCK_PATH_P2PDMA).standing(), Standing::usable)
      << on.whole.of(PENSTOCK_PATH_P2PDMA).sentence();
  EXPECT_EQ(on.whole.first_usable()->path, PENSTOCK_PATH_P2PDMA);
}

TEST(OutlookTest, WhatMayCorruptBytesIsNeverUsable) {
  const Variables all_on = {{"PENSTOCK_NVIDIA_EXPORT", "on"}, {"PENSTOCK_NVFS", "on"}};
  EXPECT_NE(examined("iommu-translating", all_on).whole.of(PENSTOCK_PATH_P2PDMA).standing(), Standing::usable);
  const Examination faulty = examined("nvidia-fs-2-25-6", all_on);
  EXPECT_EQ(faulty.whole.of(PENSTOCK_PATH_NVFS).standing(), Standing::closed);
  EXPECT_EQ(faulty.whole.of(PENSTOCK_PATH_VENDOR).standing(), Standing::closed);
}

TEST(OutlookTest, AGeForceClosesBothPathsByNvidiaFsForTheLibrarysReasons) {
  Machine machine = std::move(examined("dgx-h100", {{"PENSTOCK_NVFS", "on"}}).machine);
  EXPECT_EQ(examine(Machine(machine)).whole.of(PENSTOCK_PATH_VENDOR).standing(), Standing::usable);
  machine.nvidia.models = {"NVIDIA GeForce RTX 4090"};
  const Examination geforce = examine(std::move(machine));
  EXPECT_EQ(geforce.whole.of(PENSTOCK_PATH_VENDOR).standing(), Standing::closed);
  EXPECT_EQ(geforce.whole.of(PENSTOCK_PATH_VENDOR).reason_name(), "vendor_gpu");
  EXPECT_EQ(geforce.whole.of(PENSTOCK_PATH_NVFS).reason_name(), "nvfs_memory");
}

TEST(OutlookTest, ProprietaryModulesCloseEveryDirectPath) {
  const Examination machine = examined("closed-modules", {{"PENSTOCK_NVIDIA_EXPORT", "on"}});
  EXPECT_EQ(machine.whole.of(PENSTOCK_PATH_P2PDMA).standing(), Standing::closed);
  EXPECT_EQ(reason_of(machine.whole.of(PENSTOCK_PATH_P2PDMA)), "kernel_modules");
}

TEST(OutlookTest, Ext4ThatDoesNotShowItsJournalsModeIsClosedToNvidiasLibraryAlone) {
  const Examination machine = examined("dgx-h100", {{"PENSTOCK_NVFS", "on"}});
  EXPECT_EQ(reason_of(at(machine, "/", PENSTOCK_PATH_VENDOR)), "ext4_ordered");
  EXPECT_NE(reason_of(at(machine, "/", PENSTOCK_PATH_NVFS)), "ext4_ordered");
}

TEST(OutlookTest, CufilesConfigurationKeepsPathsOffAndABrokenOneClosesAll) {
  const Examination barred = examined("dgx-ready", {{"CUFILE_FORCE_COMPAT_MODE", "true"}});
  EXPECT_EQ(barred.whole.of(PENSTOCK_PATH_P2PDMA).standing(), Standing::off);
  EXPECT_EQ(barred.whole.first_usable()->path, PENSTOCK_PATH_BOUNCE);

  const Examination strict = examined("dgx-ready", {{"CUFILE_ALLOW_COMPAT_MODE", "false"}});
  EXPECT_EQ(strict.whole.of(PENSTOCK_PATH_BOUNCE).standing(), Standing::off);
  EXPECT_EQ(strict.whole.first_usable(), nullptr);

  const Examination broken = examined("cufile-broken");
  for (const PathOutlook& path : broken.whole.paths) EXPECT_EQ(path.standing(), Standing::closed) << path.path;
  EXPECT_EQ(reason_of(broken.whole.of(PENSTOCK_PATH_BOUNCE)), "settings");
}

TEST(OutlookTest, OfTheEnvironmentOnePathMayBeNamedOrDemanded) {
  const Examination named = examined("dgx-ready", {{"PENSTOCK_PATHS", "bounce"}});
  EXPECT_EQ(named.whole.first_usable()->path, PENSTOCK_PATH_BOUNCE);
  EXPECT_EQ(reason_of(named.whole.of(PENSTOCK_PATH_PAGECACHE)), "not_listed");

  const Examination required = examined("dgx-ready", {{"PENSTOCK_REQUIRE", "p2pdma"}});
  EXPECT_EQ(required.whole.first_usable(), nullptr) << "it is off, and nothing else may serve";
}

TEST(OutlookTest, AMachineWithoutAGpuIsToldWhatElseStandsInTheWay) {
  const Examination machine = examined("md-raid0");
  const PathOutlook& p2pdma = at(machine, "/", PENSTOCK_PATH_P2PDMA);
  EXPECT_EQ(p2pdma.reason_name(), "stand_in") << "as the library itself says";
  std::string codes;
  for (const Finding& need : p2pdma.needs) codes += std::string(need.code) + " ";
  EXPECT_EQ(codes, "gpu kernel_no_p2pdma device_mapper ");
}

TEST(OutlookTest, WhereNvidiaFsWouldStopTheMachineTheRemedyForItsAbsenceSaysSo) {
  const std::string warned = at(examined("dgx-ready"), "/", PENSTOCK_PATH_NVFS).remedy();
  EXPECT_NE(warned.find("a machine with Linux 7.2.12-1-amd64"), std::string::npos) << warned;
  EXPECT_NE(warned.find("up to 2.28.4: it crashes a machine"), std::string::npos) << warned;

  const std::string plain = at(examined("kernel-5-4"), "/", PENSTOCK_PATH_NVFS).remedy();
  EXPECT_EQ(plain, "Install the nvidia-fs package and load it: modprobe nvidia-fs.");
}

TEST(OutlookTest, WhatIsDoneAboutTheReasonChangesTheAnswer) {
  PathOutlook path{PENSTOCK_PATH_NVFS, {need("gpu", State::pass, "1 NVIDIA GPU")}};
  EXPECT_EQ(path.standing(), Standing::usable);
  path.needs.push_back(need("iommu_translating", State::unknown, "only a try tells"));
  EXPECT_EQ(path.standing(), Standing::unknown);
  path.needs.push_back(switched_off("nvfs_setting", "off", "Set it."));
  EXPECT_EQ(path.standing(), Standing::off) << "who switches it on is told of the rest then";
  path.needs.push_back(need("nvidia_fs", State::fail, "not loaded", "Load it."));
  EXPECT_EQ(path.standing(), Standing::closed);
  EXPECT_EQ(path.sentence(), "not loaded");
}

TEST(OutlookTest, AllThatKeepsAPathAwayIsToldAtOnceInTheOrderOfDoing) {
  PathOutlook path{PENSTOCK_PATH_P2PDMA, {switched_off("nvidia_export", "it is off", "Set it.")}};
  EXPECT_EQ(path.remedy(), "Set it.");
  path.needs.push_back(switched_off("cufile_json", "a list names xfs", "Take it out."));
  EXPECT_EQ(path.sentence(), "it is off; besides, a list names xfs");
  EXPECT_EQ(path.remedy(), "First: Set it. Then: Take it out.");
  path.needs.push_back(need("virtio", State::fail, "a virtio disk", "Give it a drive."));
  path.needs.push_back(need("virtio", State::fail, "a virtio disk", "Give it a drive."));
  EXPECT_EQ(path.remedy(), "First: Give it a drive. Then: Set it. Then: Take it out.");
  path.needs.push_back(need("dmabuf_kernel", State::fail, "no kernel has it"));
  EXPECT_EQ(path.remedy(), "") << "nothing helps";
  path.needs.back() = need("gpu", State::fail, "no GPU", "Take a machine with one.");
  EXPECT_EQ(path.remedy(), "Take a machine with one.") << "nothing else helps";
}

TEST(OutlookTest, WhereOnlyOtherHardwareHelpsNoOtherStepIsPromised) {
  const PathOutlook p2pdma = at(examined("laptop"), "/", PENSTOCK_PATH_P2PDMA);
  EXPECT_EQ(p2pdma.reason_name(), "bar_write_combined");
  EXPECT_NE(p2pdma.sentence().find("; besides, no setting helps: nvme0n1 at 0000:04:00.0: the only way"),
            std::string::npos)
      << p2pdma.sentence();
  EXPECT_EQ(p2pdma.remedies().size(), 1u) << p2pdma.remedy();
  EXPECT_TRUE(p2pdma.remedy().starts_with("Put both under one PCIe switch")) << p2pdma.remedy();
  const PathOutlook nvfs = at(examined("laptop"), "/", PENSTOCK_PATH_NVFS);
  EXPECT_NE(nvfs.sentence().find("NVIDIA GeForce RTX 4070 Laptop GPU: NVIDIA supports GPUDirect on data centre"),
            std::string::npos)
      << nvfs.sentence();
  EXPECT_TRUE(nvfs.is_beyond_repair());
  for (const Finding& row : examined("laptop").findings) {
    const bool is_promise = row.remedy.starts_with("Put the data") || row.remedy.starts_with("Install the nvidia-fs");
    EXPECT_FALSE(is_promise) << row.code << ": " << row.remedy;
  }
  // Another drive of that machine lies beside the GPU: data can be moved there.
  EXPECT_FALSE(at(examined("md-far-leg"), "/scratch", PENSTOCK_PATH_P2PDMA).is_beyond_repair());
}

TEST(OutlookTest, WhatIsTrueOfSomeStorageAloneIsToldOfThat) {
  const Examination machine = examined("md-raid5");
  EXPECT_EQ(machine.whole.of(PENSTOCK_PATH_P2PDMA).only_on, std::vector<std::string>{"/"});
  EXPECT_TRUE(at(machine, "/scratch", PENSTOCK_PATH_P2PDMA).only_on.empty());
  EXPECT_TRUE(examined("dgx-ready").whole.of(PENSTOCK_PATH_P2PDMA).only_on.empty());
}

TEST(OutlookTest, WhatTheUsualPathLacksOnOneStorageIsSaidThere) {
  std::string sentence;
  for (const Finding& row : examined("dgx-h100").findings) {
    if (std::string_view(row.code) == "storage" && row.subject == "/") sentence = row.sentence;
  }
  EXPECT_NE(sentence.find("nvfs may serve it, once that is switched on; vendor, which serves other storage, does not: "
                          "the mount options of ext4 do not show data=ordered"),
            std::string::npos)
      << sentence;
}

TEST(OutlookTest, ADoubtIsAmongTheStepsOfAClosedPath) {
  PathOutlook path{PENSTOCK_PATH_P2PDMA,
                   {need("static_bar1_off", State::unknown, "it may be off", "Set the key."),
                    need("virtio", State::fail, "a virtio disk", "Give it a drive."),
                    switched_off("nvidia_export", "it is off", "Set it.")}};
  EXPECT_EQ(path.remedy(), "First: Give it a drive. Then: Set the key. Then: Set it.");
}

TEST(OutlookTest, ADenylistIsToldBesideTheSwitchAndAVariableByItsOwnName) {
  const PathOutlook listed = at(examined("cufile-denylist"), "/data/0", PENSTOCK_PATH_P2PDMA);
  EXPECT_NE(listed.remedy().find("PENSTOCK_NVIDIA_EXPORT=on"), std::string::npos) << listed.remedy();
  EXPECT_NE(listed.remedy().find("Take \"xfs\" out of denylist.filesystems in /etc/cufile.json."), std::string::npos);
  const Examination forced = examined("dgx-ready", {{"CUFILE_FORCE_COMPAT_MODE", "true"}});
  EXPECT_EQ(forced.whole.of(PENSTOCK_PATH_PAGECACHE).remedy(), "Unset CUFILE_FORCE_COMPAT_MODE.");
}

TEST(OutlookTest, AWriteGoesByThePageCacheInMemoryAloneAndNetworkFilesNeverDo) {
  const Examination machine = examined("dgx-ready");
  for (const Outlook& place : machine.places) {
    const bool is_memory = place.place->mount.type == "tmpfs";
    EXPECT_TRUE(outlook_of_file(place, {}, false).may_use(PENSTOCK_PATH_PAGECACHE));
    EXPECT_EQ(outlook_of_file(place, {}, true).may_use(PENSTOCK_PATH_PAGECACHE), is_memory);
  }
  const Examination remote = examined("nfs-tcp");
  EXPECT_EQ(reason_of(at(remote, "/models", PENSTOCK_PATH_PAGECACHE)), "file_system_pages");
}

TEST(OutlookTest, InAContainerTheHostsRemediesAreToldAsTheHosts) {
  const std::string inside = examined("container-overlay").whole.of(PENSTOCK_PATH_NVFS).remedy();
  EXPECT_NE(inside.find("Outside the container: Install the nvidia-fs package"), std::string::npos) << inside;
  Findings findings = {need("kernel_modules", State::fail, "closed", "Install the open ones."),
                       need("udev_database", State::fail, "none", "Mount it.")};
  say_where(findings, false);
  EXPECT_EQ(findings[0].remedy, "Install the open ones.");
  for (int again = 0; again < 2; ++again) say_where(findings, true);
  EXPECT_EQ(findings[0].remedy, "Outside the container: Install the open ones.") << "once";
  EXPECT_EQ(findings[1].remedy, "Mount it.");
}

TEST(OutlookTest, BothWaysByNvidiaFsAreToldByNameWhereTheyDiffer) {
  const Examination machine = examined("dgx-h100");
  for (const Outlook& place : machine.places) {
    if (place.place->mount.mount_point != "/") continue;
    EXPECT_NE(place.sentence_by_nvidia_fs().find("vendor: the mount options of ext4"), std::string::npos);
    EXPECT_NE(place.remedy_by_nvidia_fs().find("For vendor: Mount it with data=ordered"), std::string::npos);
    EXPECT_NE(place.remedy_by_nvidia_fs().find("Or for nvfs: Set PENSTOCK_NVFS=on"), std::string::npos);
  }
  EXPECT_EQ(at(machine, "/boot/efi", PENSTOCK_PATH_VENDOR).reason_name(), "nvidia_fs_mount");
}

}  // namespace
}  // namespace penstock::facts
