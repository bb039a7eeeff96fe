// SPDX-License-Identifier: Apache-2.0

// Dumps of kubectl: the first rule against a path of a node, from labels, policies, pods and volumes.
#include "k8s/dump.h"

#include <gtest/gtest.h>

#include <string>

#include "tools/common/failure.h"

namespace penstock::tools::k8s {
namespace {

// A node with a GPU that passes all rules; tests append labels.
const std::string kNode =
    "apiVersion: v1\nkind: Node\n"
    "status: {nodeInfo: {osImage: Ubuntu 24.04.1 LTS, kernelVersion: 6.8.0-1051-nvidia, "
    "containerRuntimeVersion: 'containerd://2.1.4'}}\n"
    "metadata:\n  name: one\n  labels:\n    kubernetes.io/hostname: one\n"
    "    nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3\n    nvidia.com/cuda.driver-version.full: 580.126.20\n";
const std::string kGdsParts = "repository: nvcr.io/nvidia/cloud-native, image: nvidia-fs, version: 2.29.4";
const std::string kPolicy =
    "---\napiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\n"
    "spec:\n  driver: {enabled: true, kernelModuleType: open, version: 580.126.20}\n  gds: {enabled: true, " +
    kGdsParts + "}\n";

// The driver's pod on the node, with nvidia-fs-ctr in this state.
std::string driver_pod(const std::string& state) {
  return "---\napiVersion: v1\nkind: Pod\nmetadata: {name: driver-x7, namespace: gpu-operator, "
         "labels: {app.kubernetes.io/component: nvidia-driver}}\n"
         "spec: {nodeName: one, containers: [{name: nvidia-driver-ctr}, {name: nvidia-fs-ctr}]}\n"
         "status:\n  containerStatuses:\n  - {name: nvidia-driver-ctr, ready: true, state: {running: {}}}\n"
         "  - {name: nvidia-fs-ctr, image: 'nvidia-fs:2.29.4-ubuntu24.04', " +
         state + "}\n";
}
const std::string kRunning = driver_pod("ready: true, state: {running: {}}");

DumpEvidence judged(const std::string& text) {
  Cluster cluster;
  cluster.manifests.push_back(read_manifest("dump.yaml", text));
  EXPECT_TRUE(cluster.manifests.front().is_whole) << fault_sentence(cluster.manifests.front());
  look_through(cluster);
  return judge_dump(cluster, "dump.yaml");
}

// "closed gds_os" of the path to the node's first storage.
std::string said(const DumpEvidence& evidence, std::size_t path, std::size_t storage = 0) {
  const PathEvidence& one = evidence.nodes.at(0).storages.at(storage).paths.at(path);
  return std::string(facts::standing_name(one.standing)) + " " + one.rule;
}
std::string p2pdma(const std::string& text) { return said(judged(text), 0); }
std::string nvidia_fs(const std::string& text) { return said(judged(text), 1); }

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(DumpTest, WhereNothingStandsInTheWayEvidenceIsStillNeeded) {
  const DumpEvidence evidence = judged(kNode + kPolicy + kRunning);
  EXPECT_EQ(said(evidence, 1), "unknown ");
  EXPECT_EQ(evidence.nodes[0].machine, "NVIDIA-H100-80GB-HBM3, ubuntu24.04, 6.8.0-1051-nvidia, driver 580.126.20");
  EXPECT_NE(std::string(kDumpLimits).find("penstock-k8s verify --read FILE"), std::string::npos);
}

TEST(DumpTest, AFailingContainerOfNvidiaFsIsNamedWithItsCause) {
  const DumpEvidence evidence =
      judged(kNode + kPolicy +
             driver_pod("ready: false, restartCount: 14, state: {waiting: {reason: ImagePullBackOff, message: none}}"));
  EXPECT_EQ(said(evidence, 1), "closed gds_container");
  const PathEvidence& found = evidence.nodes[0].storages[0].paths[1];
  EXPECT_NE(found.sentence.find("waits with ImagePullBackOff, was started again 14 times (image nvidia-fs:2.29.4"),
            std::string::npos)
      << found.sentence;
  EXPECT_NE(found.sentence.find("there is no image of nvidia-fs for this node's system"), std::string::npos);

  const std::string crashed = driver_pod(
      "ready: false, restartCount: 2, state: {waiting: {reason: CrashLoopBackOff}}, "
      "lastState: {terminated: {exitCode: 127}}");
  const DumpEvidence looping = judged(kNode + kPolicy + crashed);
  EXPECT_EQ(looping.nodes[0].storages[0].paths[1].remedy,
            "kubectl logs -n gpu-operator driver-x7 -c nvidia-fs-ctr --previous | penstock-k8s explain-log");
}

TEST(DumpTest, AContainerThatHasJustBegunLeavesItInDoubtAndOneThatRecoveredIsWell) {
  EXPECT_EQ(nvidia_fs(kNode + kPolicy + driver_pod("ready: false, state: {waiting: {reason: PodInitializing}}")),
            "unknown gds_container");
  EXPECT_EQ(nvidia_fs(kNode + kPolicy +
                      driver_pod("ready: true, restartCount: 3, state: {running: {}}, lastState: {terminated: "
                                 "{exitCode: 1}}")),
            "unknown ");
}

TEST(DumpTest, ADriversPodThatIsMissingOrOlderThanGdsIsTold) {
  const std::string other = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: other}\nspec: {nodeName: one}\n";
  EXPECT_EQ(p2pdma(kNode + kPolicy + other), "closed driver_pod");
  EXPECT_EQ(nvidia_fs(kNode + kPolicy + other), "closed driver_pod");
  EXPECT_EQ(nvidia_fs(kNode + kPolicy + with(kRunning, ", {name: nvidia-fs-ctr}", "")), "closed gds_container_missing");
  EXPECT_EQ(nvidia_fs(kNode + kPolicy), "unknown ") << "nobody asked for pods";
}

TEST(DumpTest, TheRulesOfLintAndChooseAreTheSame) {
  EXPECT_EQ(nvidia_fs(with(kNode, "Ubuntu 24.04.1 LTS", "Rocky Linux 9.4 (Blue Onyx)") + kPolicy + kRunning),
            "closed gds_os");
  EXPECT_EQ(nvidia_fs(with(kNode, "1051-nvidia", "51-generic") + kPolicy + kRunning), "unknown gds_local_nvme");
  EXPECT_EQ(nvidia_fs(kNode + with(kPolicy, "open", "proprietary")), "closed gds_proprietary_modules");
  EXPECT_EQ(nvidia_fs(kNode + with(kPolicy, kGdsParts, "version: 2.29.4")), "closed gds_image_parts");
  EXPECT_EQ(nvidia_fs(kNode + with(kPolicy, "gds: {enabled: true", "gds: {enabled: false")), "closed gds_not_loaded");
  EXPECT_EQ(p2pdma(with(kNode, "6.8.0-1051-nvidia", "5.15.0-51-generic")), "closed p2pdma_needs");
  EXPECT_EQ(p2pdma(kNode + kPolicy), "closed bar_write_combined");
  EXPECT_EQ(p2pdma(kNode), "unknown ") << "nothing tells of the driver";
}

TEST(DumpTest, AnNvidiaDriverCountsForTheNodesThatItSelects) {
  const std::string policy = with(kPolicy, "driver: {", "driver: {useNvidiaDriverCRD: true, ");
  const std::string driver =
      "---\napiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nmetadata: {name: gds}\nspec:\n"
      "  kernelModuleType: open\n  nodeSelector: {gds: 'yes'}\n  gds: {enabled: true, " +
      kGdsParts + "}\n";
  EXPECT_EQ(nvidia_fs(kNode + policy + driver), "unknown gds_not_loaded");
  EXPECT_EQ(nvidia_fs(kNode + "    gds: 'yes'\n" + policy + driver), "unknown ");
  EXPECT_EQ(nvidia_fs(kNode + "    gds: 'yes'\n" + policy + with(driver, "open", "auto")), "closed nvidiadriver_auto");
  EXPECT_EQ(nvidia_fs(kNode + "    gds: 'yes'\n" + policy + driver +
                      "status: {conditions: [{type: Error, status: 'True', reason: ReconcileFailed, message: no}]}\n"),
            "closed operator_refuses");
}

TEST(DumpTest, WhatServeFoundOnTheNodeStandsAboveItsVersions) {
  const auto labeled = [](const std::string& node, const std::string& path, const std::string& standing,
                          const std::string& reason) {
    const std::string label = "    feature.node.kubernetes.io/penstock-path-" + path;
    return node + label + "-standing: " + standing + "\n" + label + "-reason: " + reason + "\n";
  };
  const std::string stock = with(kNode, "1051-nvidia", "51-generic");
  EXPECT_EQ(p2pdma(labeled(kNode, "p2pdma", "closed", "driver_no_export")), "closed driver_no_export");
  EXPECT_EQ(p2pdma(labeled(kNode, "p2pdma", "off", "nvidia_export")), "off nvidia_export");
  EXPECT_EQ(nvidia_fs(labeled(stock, "nvfs", "closed", "nvfs_missing")), "closed nvfs_missing");
  EXPECT_EQ(nvidia_fs(labeled(stock, "nvfs", "usable", "none")), "unknown ") << "a dump proves nothing";
}

TEST(DumpTest, EachVolumeThatTheNodeReachesIsJudgedByItself) {
  const std::string volumes =
      "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\nprovisioner: local\n"
      "parameters: {fsType: ext4}\n"
      "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: here}\nspec:\n  local: {fsType: ext4, path: /d}\n"
      "  mountOptions: [data=ordered]\n  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: "
      "[{key: kubernetes.io/hostname, operator: In, values: [one]}]}]}}\n"
      "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: there}\nspec:\n  local: {path: /d}\n"
      "  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: "
      "[{key: kubernetes.io/hostname, operator: In, values: [two]}]}]}}\n"
      "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: models}\nspec: {nfs: {server: nas, path: /m}}\n";
  const DumpEvidence evidence = judged(kNode + kPolicy + kRunning + volumes);
  const auto& storages = evidence.nodes[0].storages;
  ASSERT_EQ(storages.size(), 3u);
  EXPECT_EQ(storages[0].mount_point, "StorageClass fast");
  EXPECT_EQ(said(evidence, 1, 0), "closed ext4_ordered");
  EXPECT_EQ(said(evidence, 1, 1), "unknown ");
  EXPECT_EQ(said(evidence, 1, 2), "closed nfs_by_tcp");
  EXPECT_EQ(said(evidence, 0, 2), "closed nfs_by_tcp");
}

TEST(DumpTest, ManyVolumesOfWhichTheSameIsToBeSaidAreToldAsOne) {
  std::string volumes;
  for (int i = 0; i < 100; ++i) {
    volumes += "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v" + std::to_string(i) +
               "}\nspec: {csi: {driver: ebs.csi.aws.com, fsType: " + (i == 7 ? "xfs" : "ext4") + "}}\n";
  }
  const DumpEvidence evidence = judged(kNode + kPolicy + kRunning + volumes);
  ASSERT_EQ(evidence.nodes[0].storages.size(), 2u);
  EXPECT_EQ(evidence.nodes[0].storages[0].mount_point, "PersistentVolume v0");
  EXPECT_EQ(evidence.nodes[0].storages[0].alike, 98u);
}

TEST(DumpTest, ADriverThatNoLabelTellsIsTheOneThatIsAskedFor) {
  const std::string unlabelled = with(kNode, "    nvidia.com/cuda.driver-version.full: 580.126.20\n", "");
  EXPECT_EQ(p2pdma(unlabelled + with(kPolicy, "580.126.20", "550.90.07")), "closed p2pdma_needs");
}

TEST(DumpTest, ACufileThatIsNotTakenIsToldOnce) {
  const DumpEvidence evidence = judged(kNode +
                                       "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: cufile}\n"
                                       "data: {cufile.json: '{\"properties\": {\"allow_compat_mode\": 3}}'}\n");
  ASSERT_EQ(evidence.faults.size(), 1u);
  EXPECT_EQ(evidence.faults[0].object, "ConfigMap cufile");
  EXPECT_EQ(evidence.faults[0].rule, "cufile_value");
}

TEST(DumpTest, PeermemThatNothingAsksForAnyMoreIsToldByItsPod) {
  const std::string pod =
      with(kRunning, "{name: nvidia-fs-ctr}]", "{name: nvidia-fs-ctr}, {name: nvidia-peermem-ctr}]");
  const DumpEvidence evidence = judged(kNode + kPolicy + pod);
  ASSERT_EQ(evidence.faults.size(), 1u);
  EXPECT_EQ(evidence.faults[0].object + " " + evidence.faults[0].rule, "Pod driver-x7 peermem_left");
  EXPECT_TRUE(judged(kNode + with(kPolicy, "driver: {", "driver: {rdma: {enabled: true}, ") + pod).faults.empty());
  EXPECT_TRUE(judged(kNode + kPolicy + kRunning).faults.empty());
}

TEST(DumpTest, NodesWithoutAGpuHaveNoPathAndADumpWithoutNodesIsRefused) {
  EXPECT_TRUE(judged("apiVersion: v1\nkind: Node\nmetadata: {name: cpu}\n").nodes.at(0).storages.empty());
  EXPECT_THROW(judged(kPolicy), Failure);
  const DumpEvidence odd = judged(
      "apiVersion: v1\nkind: List\nitems: [3, null, {apiVersion: v1, kind: Node, metadata: [], status: 7}, "
      "{apiVersion: v1, kind: Pod, metadata: {labels: 3}, spec: [], status: {containerStatuses: {a: 1}}}]\n");
  EXPECT_EQ(odd.nodes.size(), 1u);
}

}  // namespace
}  // namespace penstock::tools::k8s
