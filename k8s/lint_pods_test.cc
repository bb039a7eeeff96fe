// SPDX-License-Identifier: Apache-2.0

// The built `penstock-k8s lint` on pods: their variables, the paths that they require, and what they lack.
#include "fakes/lint_fixture.h"

namespace penstock::tools {
namespace {

using LintPodsTest = LintTest;

TEST_F(LintPodsTest, VariablesOfAPodAreJudgedInTheLibrarysWords) {
  std::set<std::string> sentences;
  std::string told;
  const json report = lint_fixture(kFixtures / "wrong/environment.yaml", 1);
  for (const json& one : report["findings"]) {
    told += one["line"].dump() + " " + one["severity"].get<std::string>() + " " + one["rule"].get<std::string>() + "\n";
    sentences.insert(one["sentence"].get<std::string>());
  }
  EXPECT_EQ(told,
            "12 error penstock_value\n13 error penstock_value\n14 warning penstock_name\n15 error penstock_name\n"
            "16 note penstock_name\n");
  EXPECT_TRUE(sentences.contains("PENSTOCK_POLICY=fast: expected throughput, balanced or cpu"));
  EXPECT_TRUE(sentences.contains("PENSTOCK_BOUNCE_MIB=-1: expected a number of MiB, 1 to 65536"));
  EXPECT_TRUE(sentences.contains("PENSTOCK_WORKRES is not a variable of Penstock; did you mean PENSTOCK_WORKERS?"));
  EXPECT_TRUE(sentences.contains("PENSTOCK_SITE_NAME is not a variable of Penstock"));
}

TEST_F(LintPodsTest, APodThatComesAloneIsToldWhatItLacksAndWhatItsFileDoesNotShow) {
  write("pod.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: reader}\nspec:\n  containers: [{name: a, image: a}]\n"
        "  volumes: [{name: data, hostPath: {path: /mnt/nvme}}]\n");
  const json report = lint_json({"pod.yaml"}, 0);
  EXPECT_EQ(rules_of(report, true), (std::set<std::string>{"no_gpu_asked", "io_uring_blocked"}));
  EXPECT_EQ(report["looked_at"], (json{{"objects", 1}, {"pods", 1}, {"gpu_pods", 0}}));
  EXPECT_EQ(report["not_known"].size(), 3u) << report["not_known"];
  const Finished text = lint({"pod.yaml", "--os", "ubuntu24.04", "--kernel", "6.8.0", "--runtime", "docker-25"});
  EXPECT_NE(text.out.find("looked at: 1 object, 1 pod (with templates), of which 0 ask for a GPU"), std::string::npos)
      << text.out;
  EXPECT_NE(text.out.find("not known: how much memory a container may lock"), std::string::npos) << text.out;
  EXPECT_EQ(text.out.find("--kernel"), std::string::npos) << text.out;
}

TEST_F(LintPodsTest, ANameThatNoServerTakesIsAnError) {
  write("pod.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: My_Pod}\nspec:\n  containers: [{name: A.b, image: a}]\n"
        "  volumes: [{name: the_data, persistentVolumeClaim: {claimName: -data}}, {name: fine, emptyDir: {}}]\n"
        "---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: Data, labels: {app: '-'}}\n"
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n");
  std::set<std::string> sentences;
  const json report = lint_json({"pod.yaml"}, 1);
  for (const json& one : report["findings"]) {
    if (one["severity"] == "error") sentences.insert(one["sentence"].get<std::string>());
  }
  const std::string label = "small letters, digits and '-', with a letter or digit at either end",
                    subdomain = "small letters, digits, '-' and '.'";
  EXPECT_EQ(sentences, (std::set<std::string>{
                           "metadata.name must be " + subdomain + ", not 'My_Pod'",
                           "spec.containers[0].name must be " + label + ", not 'A.b'",
                           "spec.volumes[0].name must be " + label + ", not 'the_data'",
                           "spec.volumes[0].persistentVolumeClaim.claimName must be " + subdomain + ", not '-data'",
                           "metadata.name must be " + subdomain + ", not 'Data'",
                           "'app' is no label with a value that Kubernetes takes"}));
}

TEST_F(LintPodsTest, APodThatReadsFilesForAGpuAndHasNoVolumeIsToldSo) {
  const auto notes = [&](const std::string& container, const std::string& more = "") {
    write("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: a, image: a, " +
                          container + "}]\n" + more);
    return rules_of(lint_json({"pod.yaml"}, 0), true);
  };
  const std::string gpu = "resources: {limits: {nvidia.com/gpu: 1}}";
  EXPECT_TRUE(notes(gpu).contains("no_volume"));
  EXPECT_TRUE(notes("env: [{name: PENSTOCK_POLICY, value: cpu}]").contains("no_volume"));
  EXPECT_TRUE(notes("env: [{name: CUFILE_LOGGING_LEVEL, value: INFO}]").contains("no_volume"));
  EXPECT_FALSE(notes("env: [{name: HOME, value: /root}]").contains("no_volume"));
  EXPECT_FALSE(notes(gpu, "  volumes: [{name: data, hostPath: {path: /mnt/nvme}}]\n").contains("no_volume"));
  write("set.yaml",
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec:\n  serviceName: a\n"
        "  selector: {matchLabels: {app: a}}\n  template:\n    metadata: {labels: {app: a}}\n    spec:\n"
        "      containers: [{name: a, image: a, " +
            gpu +
            ", volumeMounts: [{name: data, mountPath: /data}]}]\n"
            "  volumeClaimTemplates: [{metadata: {name: data}}]\n");
  EXPECT_FALSE(rules_of(json::parse(lint({"set.yaml", "--json"}).out), true).contains("no_volume"));
}

TEST_F(LintPodsTest, ARequiredPathThatIsOffIsAnErrorUntilItsSwitchIsThere) {
  const auto is_told = [&](const std::string& container) {
    write("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: a, image: a, " +
                          container + "}]\n");
    return rules_of(json::parse(lint({"pod.yaml", "--json"}).out), true).contains("required_path_off");
  };
  EXPECT_TRUE(is_told("args: [bench, --require, p2pdma]"));
  EXPECT_TRUE(is_told("command: [penstock, bench, --require=p2pdma]"));
  EXPECT_TRUE(is_told("command: [sh, -c, 'penstock bench --require=p2pdma /data/f']"));
  EXPECT_TRUE(is_told("command: [sh, -c, 'penstock bench --require p2pdma /data/f']"));
  EXPECT_TRUE(is_told("command: [sh, -c, 'penstock bench /data/f --require p2pdma; sleep inf']"));
  EXPECT_TRUE(is_told("command: [sh, -c, 'penstock bench /data/f --require=\"p2pdma\"']"));
  EXPECT_FALSE(is_told("command: [penstock, bench, --require=bounce]"));
  EXPECT_TRUE(is_told("env: [{name: PENSTOCK_REQUIRE, value: nvfs}]"));
  EXPECT_TRUE(is_told("args: [bench, --require, p2pdma], env: [{name: PENSTOCK_NVIDIA_EXPORT, value: 'off'}]"));
  EXPECT_TRUE(is_told("args: [bench, --require, p2pdma], env: [{name: PENSTOCK_NVIDIA_EXPORT, value: 'OFF'}]"));
  EXPECT_FALSE(is_told("args: [bench, --require, p2pdma], env: [{name: PENSTOCK_NVIDIA_EXPORT, value: 'on'}]"));
  EXPECT_FALSE(is_told("args: [bench, --require, nvfs], env: [{name: PENSTOCK_NVFS, value: auto}]"));
  EXPECT_FALSE(is_told("args: [bench, --require, p2pdma], envFrom: [{configMapRef: {name: a}}]"));
  EXPECT_FALSE(is_told("args: [bench, --require, bounce]"));
  const std::string on = "env: [{name: PENSTOCK_DMABUF, value: 'on'}]";
  EXPECT_TRUE(is_told("args: [bench, /data/file, --require, dmabuf], " + on));
  EXPECT_FALSE(is_told("args: [bench, /dev/data, --require, dmabuf], " + on));
  const std::string volume = ", volumeDevices: [{name: data, devicePath: /dev/data}]";
  EXPECT_FALSE(is_told("args: [bench, --require, dmabuf], " + on + volume));
  EXPECT_TRUE(is_told("args: [bench, --require, dmabuf]" + volume));
}

TEST_F(LintPodsTest, ARequiredPathThatNoNodesKernelHasIsAnError) {
  write("pod.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - {name: a, image: a, env: "
        "[{name: PENSTOCK_REQUIRE, value: p2pdma}, {name: PENSTOCK_NVIDIA_EXPORT, value: 'on'}]}\n");
  write("dmabuf.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - {name: a, image: a, env: "
        "[{name: PENSTOCK_DMABUF, value: 'on'}, {name: PENSTOCK_DMABUF_FILES, value: 'on'}], "
        "args: [bench, --require, dmabuf]}\n");
  write("nvfs.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    - {name: a, image: a, env: "
        "[{name: PENSTOCK_NVFS, value: 'on'}], args: [bench, --require, nvfs]}\n");
  const auto told = [&](Names arguments) {
    arguments.push_back("--json");
    std::string sentence;
    const json report = json::parse(lint(arguments).out);
    for (const json& one : report["findings"]) {
      if (one["rule"] == "required_path_needs") sentence = one["sentence"];
    }
    return sentence;
  };
  EXPECT_EQ(told({"pod.yaml", "--kernel", "5.15.0"}),
            "p2pdma is required, and Linux 5.15.0: before Linux 6.2 no process can have device pages");
  EXPECT_NE(told({"pod.yaml", "--kernel", "6.16.3"}).find("Linux 6.16 fails transfers"), std::string::npos);
  EXPECT_NE(told({"dmabuf.yaml", "--kernel", "6.8.0"}), "");
  EXPECT_EQ(told({"nvfs.yaml", "--kernel", "7.2.12-1-amd64"}),
            "nvfs is required, and nvidia-fs up to 2.28.4 crashes a machine with Linux 7.2.12-1-amd64");
  EXPECT_EQ(told({"nvfs.yaml", "--kernel", "5.15.0"}), "");
  EXPECT_EQ(told({"pod.yaml", "--kernel", "6.8.0-51-generic"}), "");
  EXPECT_EQ(told({"pod.yaml"}), "");

  const auto node = [](const std::string& name, const std::string& kernel, const std::string& gpus) {
    return "---\napiVersion: v1\nkind: Node\nmetadata: {name: " + name + "}\nstatus:\n  capacity: {nvidia.com/gpu: '" +
           gpus + "'}\n  nodeInfo: {kernelVersion: " + kernel + "}\n";
  };
  write("old.yaml", node("control", "6.8.0", "0") + node("worker", "5.15.0-91", "8"));
  EXPECT_NE(told({"pod.yaml", "old.yaml"}), "") << "only the node without a GPU has the kernel";
  write("new.yaml", node("control", "5.15.0-91", "0") + node("old", "5.15.0-91", "8") + node("new", "6.8.0", "8"));
  EXPECT_EQ(told({"pod.yaml", "new.yaml"}), "") << "one node with a GPU has the kernel";
}

TEST_F(LintPodsTest, ARequiredDirectPathWithoutVolumeIsAnErrorAndWithoutGpuAWarning) {
  const auto severities = [&](const std::string& path, const std::string& more = "") {
    write("pod.yaml",
          "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: a, image: a, " + more +
              "env: [{name: PENSTOCK_NVIDIA_EXPORT, value: 'on'}, {name: PENSTOCK_REQUIRE, value: " + path + "}]}]\n");
    std::string found;
    const json report = json::parse(lint({"pod.yaml", "--json"}).out);
    for (const json& one : report["findings"]) {
      const std::string rule = one["rule"];
      if (rule == "no_gpu_asked" || rule == "no_volume") found += rule + " " + one["severity"].get<std::string>() + " ";
    }
    return found;
  };
  EXPECT_EQ(severities("p2pdma"), "no_gpu_asked warning no_volume error ");
  EXPECT_EQ(severities("bounce"), "no_gpu_asked note no_volume note ");
  EXPECT_EQ(severities("p2pdma", "args: [check], "), "no_gpu_asked note no_volume note ") << "it reads no file";
}

TEST_F(LintPodsTest, AnImageThatMayHaveNoPenstockIsNamedWhereItsVariablesAreSet) {
  const auto is_told = [&](const std::string& image, const std::string& variable) {
    write("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: a, image: " +
                          image + ", env: [{name: " + variable + ", value: cpu}]}]\n");
    return lint({"pod.yaml"}).out.find("not known: whether " + image + " has Penstock") != std::string::npos;
  };
  EXPECT_TRUE(is_told("pytorch/pytorch", "PENSTOCK_POLICY"));
  EXPECT_FALSE(is_told("pytorch/pytorch", "HOME"));
  EXPECT_FALSE(is_told("registry.example/penstock-train:1", "PENSTOCK_POLICY"));
}

}  // namespace
}  // namespace penstock::tools
