// SPDX-License-Identifier: Apache-2.0

// The built `penstock-k8s lint` on files: circulating recipes, correct examples, and other files.
#include "fakes/lint_fixture.h"

namespace penstock::tools {
namespace {

std::vector<fs::path> fixtures(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kFixtures / folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

TEST_F(LintTest, AReleaseThatIsNotKnownIsToldWhereItsLabelStands) {
  write("policy.yaml",
        "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata:\n  name: a\n  labels:\n"
        "    app.kubernetes.io/name: gpu-operator\n    app.kubernetes.io/version: v31.1.0\nspec: {}\n");
  const json report = json::parse(lint({"policy.yaml", "--json"}).out);
  for (const json& one : report["findings"]) {
    if (one["rule"] == "unknown_operator_version") {
      EXPECT_EQ(one["line"], 7);
      return;
    }
  }
  ADD_FAILURE() << report;
}

TEST_F(LintTest, EachWrongRecipeIsFoundAndNothingElseIsWrongInIt) {
  std::set<std::string> found;
  for (const fs::path& file : fixtures("wrong")) {
    SCOPED_TRACE(file.filename());
    const Names listed = words_after(text_of(file), "expects");
    const std::set<std::string> expected(listed.begin(), listed.end());
    ASSERT_FALSE(expected.empty());
    const bool is_strict = text_of(file).find("--strict") != std::string::npos;
    Names arguments = words_after(text_of(file), "options");
    arguments.insert(arguments.begin(), {file.string(), "--json"});
    const Finished done = lint(arguments);
    const json report = json::parse(done.out, nullptr, false);
    ASSERT_TRUE(report.is_object()) << done.out << done.err;

    EXPECT_EQ(done.exit_code, report["errors"] > 0 || (is_strict && report["warnings"] > 0) ? 1 : 0) << done.err;
    const std::set<std::string> with_notes = rules_of(report, true);
    for (const std::string& rule : expected) EXPECT_TRUE(with_notes.contains(rule)) << rule << "\n" << report.dump(1);
    for (const std::string& rule : rules_of(report, false)) EXPECT_TRUE(expected.contains(rule)) << rule;
    for (const json& one : report["findings"]) {
      EXPECT_GT(one["line"], 0);
      EXPECT_GT(one["column"], 0);
      for (const char* key : {"sentence", "remedy", "source"}) EXPECT_NE(one[key], "") << one;
    }
    found.insert(with_notes.begin(), with_notes.end());
  }
  // Each rule of the table has a fixture, or a test below, in lint_pods_test or in dump_test.
  found.insert({"unreadable_file", "yaml_syntax", "json_syntax", "helm_template", "required_path_off",
                "cufile_denylist", "gds_not_loaded", "driver_pod", "gds_container", "gds_container_missing",
                "operator_refuses", "peermem_left"});
  const json report = json::parse(lint({"--rules", "--json"}).out);
  for (const json& rule : report["rules"]) {
    EXPECT_TRUE(found.contains(rule["rule"].get<std::string>())) << rule["rule"];
  }
}

TEST_F(LintTest, ExamplesThatAreRightHaveNeitherErrorNorWarning) {
  for (const fs::path& file : fixtures("right")) {
    SCOPED_TRACE(file.filename());
    EXPECT_EQ(rules_of(lint_fixture(file, 0), false), std::set<std::string>{});
  }
}

TEST_F(LintTest, TheReportsAreAsTheyWere) {
  fs::copy_file(kFixtures / "wrong/recipe-mofed.yaml", path("gds.yaml"));
  for (const char* format : {"text", "json", "sarif"}) {
    std::string out = lint({"gds.yaml", "--os", "ubuntu24.04", "--format", format}).out;
    if (std::string(format) != "text") {
      json report = json::parse(out);
      const char* where = report.contains("runs") ? "/runs/0/tool/driver/version" : "/version";
      EXPECT_EQ(report[json::json_pointer(where)], PENSTOCK_PROJECT_VERSION);
      report[json::json_pointer(where)] = "VERSION";
      if (report.contains("runs")) report["runs"][0]["tool"]["driver"]["rules"] = json::array();
      out = report.dump(2) + "\n";
    }
    const fs::path golden = kFixtures / "golden" / (std::string("gds.") + format);
    EXPECT_EQ(out, text_of(golden)) << "if this is meant, make " << golden << " so";
  }
}

TEST_F(LintTest, KindsOfOthersAreNamedAsPassedOver) {
  write("all.yaml",
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec: {}\n---\n"
        "apiVersion: eksctl.io/v1alpha5\nkind: ClusterConfig\nmetadata: {name: a}\n---\n"
        "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: a}\n---\n"
        "apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: a}\n---\n"
        "resources: {accelerators: 'H100:8'}\nrun: python train.py\n");
  EXPECT_EQ(lint_json({"all.yaml"}, 0)["not_judged"], json({"1 ClusterConfig", "1 ClusterQueue", "1 NodePool"}));
  const std::string out = lint({"all.yaml"}).out;
  EXPECT_NE(out.find("passed over: 1 ClusterConfig, 1 ClusterQueue, 1 NodePool"), std::string::npos) << out;
  EXPECT_NE(out.find("a task of SkyPilot's"), std::string::npos) << out;
}

TEST_F(LintTest, SarifNamesARuleForEachResult) {
  const json run =
      json::parse(lint({(kFixtures / "wrong/workload.yaml").string(), "--format", "sarif"}).out)["runs"][0];
  ASSERT_FALSE(run["results"].empty());
  for (const json& result : run["results"]) {
    EXPECT_EQ(run["tool"]["driver"]["rules"][result["ruleIndex"].get<std::size_t>()]["id"], result["ruleId"]);
    EXPECT_TRUE(result["level"] == "error" || result["level"] == "warning" || result["level"] == "note");
    EXPECT_GT(result["locations"][0]["physicalLocation"]["region"]["startLine"], 0);
  }
}

TEST_F(LintTest, FilesOfAFolderAndOfStandardInputAreLookedAtTogether) {
  write("all/policy.yaml", text_of(kFixtures / "wrong/rdma-without-ofed.yaml"));
  write("all/below/nic.yml",
        "apiVersion: mellanox.com/v1alpha1\nkind: NicClusterPolicy\nmetadata: {name: nic}\n"
        "spec:\n  ofedDriver: {image: doca-driver, repository: nvcr.io, version: 1-2}\n");
  write("all/notes.txt", "no: [manifest");
  write("empty/notes.txt", "");

  EXPECT_FALSE(rules_of(lint_json({"all"}, 0), true).contains("rdma_without_ofed"));
  EXPECT_TRUE(rules_of(lint_json({"all/policy.yaml"}, 0), true).contains("rdma_without_ofed"));
  EXPECT_EQ(lint({"empty"}).exit_code, 2);
  const auto from_file = [&] { dup2(open(path("all/policy.yaml").c_str(), O_RDONLY), STDIN_FILENO); };
  const Finished piped = run({"lint", "-"}, from_file);
  EXPECT_EQ(piped.exit_code, 0) << piped.err;
  EXPECT_NE(piped.out.find("<stdin>:"), std::string::npos) << piped.out;
}

TEST_F(LintTest, WhatIsPassedOverNeedsAReason) {
  const std::string spec = "spec: {driverType: gpu, image: driver, default: false, a: 1}";
  const auto driver = [&](const std::string& annotation, const std::string& behind) {
    return "apiVersion: nvidia.com/v1alpha1\nkind: NVIDIADriver\nmetadata:\n  name: a\n  annotations: {" + annotation +
           "}\n" + spec + behind + "\n";
  };
  write("plain.yaml", driver("", ""));
  write("annotated.yaml", driver("penstock.io/lint-ignore: \"unknown_key: our fork has it\"", ""));
  write("unsaid.yaml", driver("penstock.io/lint-ignore: unknown_key", ""));
  write("remarked.yaml", driver("", "  # penstock-lint: ignore unknown_key: our fork has it"));

  EXPECT_EQ(lint({"plain.yaml"}).exit_code, 1);
  EXPECT_EQ(lint_json({"annotated.yaml"}, 0)["passed_over"], 1);
  EXPECT_EQ(lint_json({"remarked.yaml"}, 0)["passed_over"], 1);
  EXPECT_EQ(lint_json({"plain.yaml", "--ignore", "unknown_key"}, 0)["passed_over"], 1);
  EXPECT_TRUE(rules_of(lint_json({"unsaid.yaml"}, 1), true).contains("ignore_without_reason"));
  const Finished misspelt = lint({"plain.yaml", "--ignore", "unknown_kye"});
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_NE(misspelt.err.find("did you mean unknown_key?"), std::string::npos) << misspelt.err;
}

TEST_F(LintTest, StrictFailsForWarningsToo) {
  const std::string file = kFixtures / "wrong/with-gds.yaml";
  EXPECT_EQ(lint({file}).exit_code, 0);
  EXPECT_EQ(lint({file, "--strict"}).exit_code, 1);
}

TEST_F(LintTest, TemplatesAreToldAndPassedOver) {
  write("templates/policy.yaml", "{{- if .Values.gds }}\nkind: ClusterPolicy\nname: {{ .Release.Name }}\n{{- end }}\n");
  EXPECT_EQ(rules_of(lint_json({"templates"}, 0), true), std::set<std::string>{"helm_template"});
}

TEST_F(LintTest, WhatIsNoYamlIsNoTemplateForTwoBraces) {
  std::string bytes = "{{ .a }}";
  for (int i = 1; i < 256; ++i) bytes += static_cast<char>(i);
  write("random.yaml", bytes);
  EXPECT_EQ(rules_of(lint_json({"random.yaml"}, 2), true), std::set<std::string>{"unreadable_file"});
  write("broken.yaml", "kind: Pod\nspec: [1 # {{\n");
  EXPECT_EQ(rules_of(lint_json({"broken.yaml"}, 2), true), std::set<std::string>{"yaml_syntax"});
}

TEST_F(LintTest, AQuantityIsWhatAServerTakes) {
  const auto rules = [&](const std::string& resources) {
    write("pod.yaml",
          "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n"
          "    - {name: a, image: a, resources: " +
              resources + "}\n");
    return rules_of(json::parse(lint({"pod.yaml", "--json"}).out, nullptr, false), false);
  };
  using Rules = std::set<std::string>;
  EXPECT_EQ(rules("{limits: {nvidia.com/gpu: \"1.5\"}}"), Rules{"wrong_value"});
  EXPECT_EQ(rules("{limits: {memory: \"-5Gi\"}}"), Rules{"out_of_range"});
  EXPECT_EQ(rules("{limits: {cpu: \"1e308Ki\"}}"), Rules{"wrong_value"});
  EXPECT_EQ(rules("{limits: {cpu: yes}}"), Rules{"wrong_value"});
  EXPECT_EQ(rules("{limits: {gpu: 1}}"), Rules{"wrong_value"});
  EXPECT_EQ(rules("{limits: {memory: 1Gi}, requests: {memory: 1.1Gi}}"), Rules{"resource_limits"});
  EXPECT_EQ(rules("{requests: {nvidia.com/gpu: 1}}"), Rules{"resource_limits"});
  EXPECT_EQ(rules("{limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 1}}"), Rules{"resource_limits"});
  EXPECT_EQ(rules("{limits: {hugepages-2Mi: 4Mi}}"), Rules{"resource_limits"});
  EXPECT_EQ(rules("{limits: {nvidia.com/gpu: 1000m, memory: 1e9, cpu: 0.5, hugepages-1Gi: 1Gi},"
                  " requests: {nvidia.com/gpu: 1, memory: 1G, cpu: 500m}}"),
            Rules{});
}

TEST_F(LintTest, AKeyOfCufileJsonIsToldAsItStandsThere) {
  write("cufile.json", R"({"properties": {"max_batch_io_size": 131072}, "execution": {"allow_compat_mode": false}})");
  const json report = lint_json({"cufile.json"}, 1);
  std::string sentences;
  for (const json& one : report["findings"]) {
    sentences += one["sentence"].get<std::string>() + "\n" + one["remedy"].get<std::string>() + "\n";
  }
  EXPECT_NE(sentences.find("properties.max_batch_io_size 131072 is out of range"), std::string::npos) << sentences;
  EXPECT_NE(sentences.find("Its name is properties.allow_compat_mode."), std::string::npos) << sentences;
  EXPECT_EQ(sentences.find("use_compat_mode"), std::string::npos) << sentences;
  EXPECT_EQ(sentences.find("io_batchsize"), std::string::npos) << sentences;
}

TEST_F(LintTest, ACufileJsonIsToldLineByLineWithWhatItHasAndWhatToWrite) {
  write("cufile.json", R"({
  // A comment, as NVIDIA's own file has them: "x": {
  "properties": { /* another
    of two lines */ "use_poll_mod": true,
    "allow_compat_mode": "yes//no",
    "posix_pool_slab_count": [1, 2, 3],
    "nothing_like_it": 1
  }
})");
  const json report = lint_json({"cufile.json"}, 1);
  std::string told;
  for (const json& one : report["findings"]) {
    told += one["line"].dump() + " " + one["severity"].get<std::string>() + " " + one["sentence"].get<std::string>() +
            "\n  " + one["remedy"].get<std::string>() + "\n";
  }
  EXPECT_EQ(
      told,
      "4 warning properties.use_poll_mod is not a key of cuFile's configuration; did you mean \"use_poll_mode\" "
      "(section \"properties\")?\n"
      "  Write properties.use_poll_mode if that was meant, else remove it.\n"
      "5 error properties.allow_compat_mode must be true or false; it is "
      "\"yes//no\"\n"
      "  Write true or false, or remove properties.allow_compat_mode: by default it "
      "is true.\n"
      "6 note properties.posix_pool_slab_count has no effect with Penstock: PENSTOCK_BOUNCE_MIB bounds the pinned host "
      "memory of each "
      "GPU, and as much again that requests on streams may take\n"
      "  Leave it for NVIDIA's library, which reads it; Penstock does without.\n"
      "7 warning properties.nothing_like_it is not a key of cuFile's configuration\n"
      "  Remove it: nothing reads it.\n");
}

TEST_F(LintTest, AKeyThatIsTooLongToBeShownWholeIsToldAllTheSame) {
  write("map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  cufile.json: '{\"logging\": {}, \"" +
            std::string(5000, 's') + "\": {\"allow_compat_mode\": false}}'\n");
  EXPECT_LE(lint({"map.yaml"}).exit_code, 1);
}

TEST_F(LintTest, AnOptionThatNamesNothingKnownIsRefusedWithWhatWasExpected) {
  write("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}\n");
  const std::pair<const char*, const char*> wrong[] = {
      {"--kernel", "banana"}, {"--os", "windows11"}, {"--os", "24.04"}, {"--runtime", "docker"}, {"--runtime", "x-1"}};
  for (const auto& [option, value] : wrong) {
    const Finished done = lint({"pod.yaml", option, value});
    EXPECT_EQ(done.exit_code, 2) << option << value;
    EXPECT_NE(done.err.find(std::string(option) + " " + value + ": expected a "), std::string::npos) << done.err;
  }
  const std::pair<const char*, const char*> right[] = {{"--kernel", "6.8.0-51-generic"}, {"--os", "rhcos"},
                                                       {"--os", "opensuse-leap15.6"},    {"--os", "rocky9"},
                                                       {"--runtime", "cri-o"},           {"--runtime", "docker-25"}};
  for (const auto& [option, value] : right) EXPECT_EQ(lint({"pod.yaml", option, value}).exit_code, 0) << value;
}

TEST_F(LintTest, ADenylistThatBarsFilesFromDirectPathsIsAWarning) {
  for (const char* list : {"filesystems", "devices", "mounts", "drivers"}) {
    write("cufile.json", std::string(R"({"properties": {}, "denylist": {")") + list + R"(": ["/dev/nvme0n1"]}})");
    EXPECT_TRUE(rules_of(lint_json({"cufile.json"}, 0), false).contains("cufile_denylist")) << list;
  }
  write("cufile.json", R"({"properties": {}, "denylist": {"filesystems": []}})");
  EXPECT_FALSE(rules_of(lint_json({"cufile.json"}, 0), false).contains("cufile_denylist"));
}

TEST_F(LintTest, AHostPathWithDataIsNotTheCaseForDevicesOfCdi) {
  const auto remedy = [&](const std::string& folder) {
    write("pod.yaml",
          "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n"
          "    - {name: a, image: a, resources: {limits: {nvidia.com/gpu: 1}}}\n"
          "  volumes: [{name: a, hostPath: {path: " +
              folder + "}}]\n");
    const json findings = lint_json({"pod.yaml"}, 0)["findings"];
    for (const json& one : findings) {
      if (one["rule"] == "pod_security_level") return one["remedy"].get<std::string>();
    }
    return std::string();
  };
  EXPECT_NE(remedy("/mnt/nvme").find("PersistentVolumeClaim"), std::string::npos);
  EXPECT_EQ(remedy("/mnt/nvme").find("CDI"), std::string::npos);
  EXPECT_NE(remedy("/dev/nvidia-fs0").find("CDI"), std::string::npos);
}

TEST_F(LintTest, NodesTellWhatTheyAre) {
  write("nodes.json", R"nodes({"apiVersion": "v1", "kind": "NodeList", "items": [{"apiVersion": "v1", "kind": "Node",
    "metadata": {"name": "a"}, "status": {"nodeInfo": {"osImage": "Rocky Linux 9.4 (Blue Onyx)",
    "kernelVersion": "5.14.0", "containerRuntimeVersion": "containerd://2.1.4"}}}]})nodes");
  const json report = lint_json(
      {"nodes.json", (kFixtures / "right/values.yaml").string(), (kFixtures / "wrong/seccomp.yaml").string()}, 1);
  std::string sentences;
  for (const json& one : report["findings"]) sentences += one["sentence"].get<std::string>() + "\n";
  EXPECT_NE(sentences.find("no nvidia-fs image for rocky9"), std::string::npos) << sentences;
  EXPECT_NE(sentences.find("RuntimeDefault of containerd-2.1.4 blocks io_uring"), std::string::npos) << sentences;
}

TEST_F(LintTest, ARenderedChartTellsItsRelease) {
  write("policy.yaml",
        "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata:\n  name: cluster-policy\n"
        "  labels: {app.kubernetes.io/name: gpu-operator, app.kubernetes.io/version: v25.10.1}\n"
        "spec: {operator: {defaultRuntime: docker}}\n");
  const json report = lint_json({"policy.yaml"}, 1);
  EXPECT_EQ(report["gpu_operator"], "v25.10.1");
  EXPECT_FALSE(rules_of(report, true).contains("dead_key"));
  EXPECT_TRUE(rules_of(lint_json({"policy.yaml", "--operator-version", "v26.3.3"}, 1), true).contains("dead_key"));
}

TEST_F(LintTest, WhatCannotBeReadIsExitCodeTwoWithItsPlace) {
  write("broken.yaml", "kind: Pod\nspec: [1\n");
  const Finished broken = lint({"broken.yaml"});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_NE(broken.out.find("broken.yaml:3:1: error: is no YAML here"), std::string::npos) << broken.out;
  write("nul.yaml", std::string("a: \0b", 5));
  EXPECT_NE(lint({"nul.yaml"}).out.find("nul.yaml:1:4: error: has the control character"), std::string::npos);
  EXPECT_EQ(lint({"nul.yaml"}).exit_code, 2);
  EXPECT_EQ(lint({"missing.yaml"}).exit_code, 2);
  EXPECT_EQ(lint({}).exit_code, 2);
  mkfifo(path("pipe.yaml").c_str(), 0600);
  EXPECT_EQ(lint({"pipe.yaml"}).exit_code, 2);
}

TEST_F(LintTest, AFileOfJsonIsToldWhatIsWrongWithItAsJson) {
  const auto told = [&](const std::string& text) {
    write("cufile.json", text);
    const json report = lint_json({"cufile.json"}, 2);
    const json& one = report["findings"].at(0);
    return one["line"].dump() + " " + one["rule"].get<std::string>() + " " + one["sentence"].get<std::string>();
  };
  const std::string open = "{\n  \"properties\": {\n    \"use_poll_mode\": true\n  // a comment\n,\n  \"fs\": {}\n";
  EXPECT_EQ(told(open), "7 json_syntax is no JSON here: unexpected end of input; expected '}'");
  EXPECT_TRUE(told("{\"properties\": {]}").starts_with("1 json_syntax is no JSON here: unexpected ']'"));
  EXPECT_EQ(told(""), "1 json_syntax is empty, which is no JSON");
  EXPECT_EQ(told("  // nothing\n"), "1 json_syntax is empty, which is no JSON");
  EXPECT_EQ(lint({"cufile.json"}).out.find("nothing to lint"), std::string::npos) << "it could not be read";
}

TEST_F(LintTest, WhatHasNothingToLintIsToldSo) {
  write("empty.yaml", "# nothing\n---\n");
  const Finished done = lint({"empty.yaml"});
  EXPECT_EQ(done.exit_code, 0);
  EXPECT_NE(done.out.find("looked at: 0 objects: there was nothing to lint"), std::string::npos) << done.out;
}

TEST_F(LintTest, ACufileJsonAloneAsksForNoFactsOfNodes) {
  write("cufile.json", R"({"properties": {"use_poll_mode": true}})");
  EXPECT_EQ(lint_json({"cufile.json"}, 0)["not_known"],
            json::array({"how bytes go by cufile.json: 'penstock settings cufile.json' tells it on a machine"}));
  EXPECT_NE(lint_json({(kFixtures / "right/values.yaml").string()}, 0)["not_known"], json::array());
}

TEST_F(LintTest, HostileInputEndsSoonAndReachesNoTerminal) {
  std::string bombs;
  for (int document = 0; document < 2000; ++document) {
    bombs +=
        "---\na: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b]\n"
        "d: [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n";
  }
  write("bombs.yaml", bombs);
  EXPECT_NE(lint({"bombs.yaml"}).out.find("more than 1000000 values"), std::string::npos);
  std::string pods, ignores = "a: 1\n";
  for (int i = 0; i < 5000; ++i) {
    pods += "---\nkind: Pod\napiVersion: v1\nmetadata: {name: p" + std::to_string(i) +
            "}\nspec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}\n";
    ignores += "# penstock-lint: ignore unknown_kye: because\n";
  }
  write("pods.yaml", pods);
  EXPECT_EQ(lint({"pods.yaml"}).exit_code, 0);
  write("ignores.yaml", ignores);
  EXPECT_EQ(lint_json({"ignores.yaml"}, 0)["findings"].size(), 2000u);
  std::string many = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: a}\nspec:\n";
  for (int i = 0; i < 20'000; ++i) many += "  key" + std::to_string(i) + ": {}\n";
  write("many.yaml", many);
  EXPECT_EQ(lint_json({"many.yaml"}, 1)["findings"].size(), 2000u);
  write("escape.yaml",
        "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: \"\\e[2J\"}\n"
        "spec: {\"\\e[2J\\u202e\": 1, gds: {version: \"\\a\"}}\n");
  const Finished done = lint({"escape.yaml"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_EQ(done.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(done.out.find('\a'), std::string::npos);
}

}  // namespace
}  // namespace penstock::tools
