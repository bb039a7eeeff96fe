// SPDX-License-Identifier: Apache-2.0

#include "tools/serve/container_name.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace penstock::tools {
namespace {

const std::string kUid = "0f3c9a52-7f5c-4d8a-9b1e-2c4d6e8f0a1b";
const std::string kUidOfSystemd = "0f3c9a52_7f5c_4d8a_9b1e_2c4d6e8f0a1b";
const std::string kId(64, 'a');
const std::string kOtherId(64, 'b');
const ContainerName kBoth{kUid, kId};

TEST(ContainerNameTest, SystemdNamesPodsAndContainersOfEveryRuntime) {
  for (const std::string runtime : {"cri-containerd-", "crio-", "docker-", ""}) {
    const std::string slice = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + kUidOfSystemd +
                              ".slice/" + runtime + kId + ".scope";
    EXPECT_EQ(container_of("0::" + slice + "\n"), kBoth) << runtime;
    EXPECT_EQ(container_of("0::" + slice + "/container\n"), kBoth) << runtime;
  }
  EXPECT_EQ(container_of("0::/kubepods.slice/kubepods-pod" + kUidOfSystemd + ".slice/crio-" + kId + ".scope\n"), kBoth);
}

TEST(ContainerNameTest, CgroupfsNamesThemPlainly) {
  EXPECT_EQ(container_of("0::/kubepods/burstable/pod" + kUid + "/" + kId + "\n"), kBoth);
  EXPECT_EQ(container_of("0::/kubepods/pod" + kUid + "/" + kId + "\n"), kBoth);
}

TEST(ContainerNameTest, StaticPodsHaveUidsWithoutDashes) {
  const std::string uid(32, '7');
  EXPECT_EQ(container_of("0::/kubepods/burstable/pod" + uid + "/" + kId + "\n"), (ContainerName{uid, kId}));
}

TEST(ContainerNameTest, FromWithinAnotherContainersNamespaceThePathIsRelative) {
  EXPECT_EQ(
      container_of("0::/../../kubepods-besteffort-pod" + kUidOfSystemd + ".slice/cri-containerd-" + kId + ".scope\n"),
      kBoth);
}

TEST(ContainerNameTest, OfManyHierarchiesTheOneThatTellsMostCounts) {
  EXPECT_EQ(container_of("13:name=systemd:/\n12:rdma:/\n5:devices:/kubepods/pod" + kUid + "\n4:memory:/kubepods/pod" +
                         kUid + "/" + kId + "\n0::/\n"),
            kBoth);
}

TEST(ContainerNameTest, ContainersOutsideOfPodsHaveAnIdAlone) {
  EXPECT_EQ(container_of("0::/machine.slice/libpod-" + kId + ".scope/container\n"), (ContainerName{"", kId}));
  EXPECT_EQ(container_of("0::/system.slice/docker-" + kId + ".scope\n"), (ContainerName{"", kId}));
}

TEST(ContainerNameTest, ProcessesOfTheHostHaveNone) {
  for (const std::string text : {"", "\n", "0::/\n", "0::/user.slice/user-1000.slice/session-3.scope\n",
                                 "0::/system.slice/podman.service\n", "0::/kubepods.slice\n"}) {
    EXPECT_EQ(container_of(text), ContainerName{}) << text;
  }
}

TEST(ContainerNameTest, WhatAContainerNamesWithinItselfIsNotBelieved) {
  const std::string own = "0::/kubepods/pod" + kUid + "/" + kId;
  const std::string other = "1f3c9a52-7f5c-4d8a-9b1e-2c4d6e8f0a1b";

  EXPECT_EQ(container_of(own + "/pod" + other + "/" + kOtherId + "\n"), kBoth);
  EXPECT_EQ(container_of("0::/system.slice/docker-" + kId + ".scope/kubepods/pod" + other + "/" + kOtherId + "\n"),
            (ContainerName{"", kId}));
}

TEST(ContainerNameTest, GarbageIsNoName) {
  const std::string texts[] = {"0::/kubepods/pod/x\n",
                               "0::/kubepods/pod" + kUid + "0/" + kId + "0\n",
                               "0::/podABCDEF\n",
                               ":::\n",
                               "0:\n",
                               "0::/kubepods-pod.slice/-.scope\n",
                               "0::/pod0f3c9a52-7f5c-4d8a-9b1e2-c4d6e8f0a1b/x\n"};
  for (const std::string& text : texts) {
    EXPECT_EQ(container_of(text), ContainerName{}) << text;
  }
}

TEST(ContainerNameTest, NamesHoldNothingButDigitsAndDashes) {
  std::mt19937 random(7);
  const std::string pieces[] = {"/",      "pod",    kUid, kUidOfSystemd, kId,  "-",
                                ".slice", ".scope", "\n", "0::",         "\"", "\xff"};
  for (int i = 0; i < 20000; ++i) {
    std::string text = "0::";
    for (int j = 0; j < 8; ++j) text += pieces[random() % std::size(pieces)];
    const ContainerName name = container_of(text);
    EXPECT_EQ((name.pod_uid + name.container_id).find_first_not_of("0123456789abcdef-"), std::string::npos) << text;
    EXPECT_TRUE(name.pod_uid.empty() || name.pod_uid.size() == 36 || name.pod_uid.size() == 32) << text;
  }
}

}  // namespace
}  // namespace penstock::tools
