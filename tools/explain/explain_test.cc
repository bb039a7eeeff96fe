// SPDX-License-Identifier: Apache-2.0

// The built `penstock explain` on files of this machine.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

class ExplainTool : public Tool {
 protected:
  Finished explain(std::vector<std::string> words, const char* required) {
    words.insert(words.begin(), "explain");
    return run(words, [required] { setenv("PENSTOCK_REQUIRE", required, 1); });
  }
};

TEST_F(ExplainTool, ARequirementThatNoPathMeetsIsExplainedInOneCall) {
  make("data", 5000);

  const Finished text = explain({"data"}, "p2pdma"), document = explain({"data", "--json"}, "p2pdma");

  EXPECT_EQ(text.exit_code, 1);
  EXPECT_EQ(text.err, "");
  for (const char* part : {"goes by none\n", "not p2pdma", "PENSTOCK_REQUIRE=p2pdma allows no other path",
                           "[required_path]", "-> Unset PENSTOCK_REQUIRE.\n"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << " is missing in\n" << text.out;
  }
  const json told = json::parse(document.out);
  EXPECT_TRUE(told["would_use"].is_null());
  for (const json& path : told["paths"]) EXPECT_FALSE(path["usable"].get<bool>()) << path;
}

TEST_F(ExplainTool, AFolderWithTooManyFilesIsJudgedByOneOfThem) {
  fs::create_directory(path("many"));
  for (unsigned i = 0; i <= 10'000; ++i) std::ofstream(path("many") / std::to_string(i)) << "x";

  const Finished text = run({"explain", "many"});
  const json document = json::parse(run({"explain", "many", "--json"}).out);

  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.out.find("many has more than 10000 files: many/"), 0u) << text.out;
  EXPECT_NE(text.out.find("goes by "), std::string::npos) << text.out;
  EXPECT_EQ(document["stands_for"], "many");
}

TEST_F(ExplainTool, ADiskThatNoDirectPathServesIsToldBesideTheKernel) {
  for (const char* machine : {"cloud-vm", "firecracker-vm"}) {
    const Finished done = run({"explain", "/data/x", "--root", std::string(PENSTOCK_MACHINES) + machine});
    EXPECT_NE(done.out.find(": a virtio disk refuses device pages [virtio]\n"
                            "    -> Give the virtual machine an NVMe drive of its own by PCI passthrough.\n"),
              std::string::npos)
        << done.out;
  }
}

TEST_F(ExplainTool, ACapturedFileIsJudgedByItsDirectionAndItsDrivesLinkIsTold) {
  const std::string root = std::string(PENSTOCK_MACHINES) + "drive-link-x1";
  const Finished read = run({"explain", "/data/0/w", "--root", root});
  const Finished write = run({"explain", "/data/0/w", "--write", "--root", root});

  EXPECT_NE(read.out.find("pagecache (not direct"), std::string::npos) << read.out;
  EXPECT_NE(write.out.find("bounce (not direct"), std::string::npos) << write.out;
  EXPECT_NE(write.out.find("not pagecache: it writes to files in memory alone (tmpfs, hugetlbfs) [reads_only]"),
            std::string::npos)
      << write.out;
  EXPECT_NE(read.out.find("slower on any path: drive 0000:19:00.0: x1 at"), std::string::npos) << read.out;
}

TEST_F(ExplainTool, WhyHostMemoryStandsInForAGpuIsToldAtOnce) {
  make("data", 5000);
  const std::string text = run({"explain", "data"}, [] { unsetenv("PENSTOCK_DEVICE"); }).out;
  if (text.find("[stand_in]") == std::string::npos) GTEST_SKIP() << "there is a GPU here";
  EXPECT_EQ(text.find("penstock check"), std::string::npos) << "nobody is sent elsewhere\n" << text;
  EXPECT_NE(text.find("standing in for a GPU: "), std::string::npos) << text;
  EXPECT_NE(text.find("    -> "), std::string::npos) << text;
}

TEST_F(ExplainTool, ALogIsKnownByItsNameOrItsLinesAndExplained) {
  const std::string line =
      "07-11-2023 16:58:54:420 [pid=4 tid=4] ERROR  cufio-fs:199 NVMe Driver not registered with "
      "nvidia-fs!!!\n";
  std::ofstream(path("cufile.log")) << line;
  std::ofstream(path("saved")) << line;
  std::ofstream(path("quiet.log")) << "all is well\n";
  make("data", 5000);

  const Finished log = run({"explain", "cufile.log"});
  EXPECT_EQ(log.exit_code, 0) << log.err;
  EXPECT_EQ(log.out.find("cufile.log:1: 07-11-2023"), 0u) << log.out;
  EXPECT_NE(log.out.find("  remedy  "), std::string::npos) << log.out;
  EXPECT_EQ(json::parse(run({"explain", "saved", "--json"}).out)["findings"].size(), 1u);
  EXPECT_EQ(run({"explain", "quiet.log"}).exit_code, 1) << "none of its lines is known";
  EXPECT_NE(run({"explain", "data", "cufile.log"}).out.find("2 files"), std::string::npos) << "among other files";
}

TEST_F(ExplainTool, ALogThatWasWrittenWithOtherSettingsThanTheFileBesideItIsToldSo) {
  const auto told = [&](const std::string& line, const char* allow) {
    std::ofstream(path("cufile.log")) << " 30-11-2026 01:00:00:000 [pid=7 tid=7] " << line << "\n";
    std::ofstream(path("cufile.json")) << R"({"properties": {"allow_compat_mode": )" << allow << "}}";
    const json document = json::parse(run({"explain", "cufile.log", "--json"}).out);
    return document["other_settings"].is_null() ? "" : document["other_settings"].get<std::string>();
  };
  const std::string on = "NOTICE  cufio-drv:720 running in compatible mode";
  const std::string off = "ERROR  driver.cc:96 no direct path; set allow_compat_mode to true in cufile.json";
  EXPECT_EQ(told(on, "true"), "");
  EXPECT_EQ(told(off, "false"), "");
  EXPECT_EQ(told("ERROR  cufio:1 something else", "false"), "");
  EXPECT_EQ(told(on, "false").find("cufile.log:1 was written while compatibility mode was allowed, and cufile.json"),
            0u)
      << told(on, "false");
  EXPECT_NE(told(off, "true").find("was forbidden"), std::string::npos);
  EXPECT_NE(run({"explain", "cufile.log"}).out.find("the log is older than"), std::string::npos);
}

TEST_F(ExplainTool, ALogIsHeldAgainstTheSettingsThatAreNamedAndAgainstItself) {
  const std::string head = " 30-11-2026 01:00:00:000 [pid=7 tid=7] ";
  const std::string on = head + "NOTICE  cufio-drv:720 running in compatible mode\n";
  const std::string off = head + "ERROR  driver.cc:96 no direct path; set allow_compat_mode to true in cufile.json\n";
  std::ofstream(path("other.json")) << R"({"properties": {"allow_compat_mode": false}})";
  std::ofstream(path("cufile.log")) << on;
  const json named = json::parse(run({"explain", "other.json", "cufile.log", "--json"}).out, nullptr, false);
  EXPECT_NE(named["other_settings"].get<std::string>().find("and other.json says"), std::string::npos) << named;
  EXPECT_TRUE(named["contradiction"].is_null());
  std::ofstream(path("cufile.log")) << on << off << off;
  const json both = json::parse(run({"explain", "cufile.log", "--json"}).out, nullptr, false);
  EXPECT_EQ(both["contradiction"].get<std::string>().find(
                "cufile.log:1 was written while compatibility mode was allowed, and line 3 while it was forbidden"),
            0u)
      << both;
  EXPECT_NE(run({"explain", "cufile.log"}).out.find("runs with several settings"), std::string::npos);
  std::ofstream(path("next.log")) << on;
  EXPECT_TRUE(json::parse(run({"explain", "cufile.log", "next.log", "--json"}).out)["contradiction"].is_null());
}

TEST_F(ExplainTool, WhatIsWrongInTheSettingsThatALogIsHeldAgainstIsToldFirst) {
  std::ofstream(path("cufile.log")) << "ERROR  cufio-fs:199 NVMe Driver not registered with nvidia-fs!!!\n";
  std::ofstream(path("other.json")) << "{\n\"properties\": {\"allow_compat_mode\": true,,}}";
  const Finished broken = run({"explain", "other.json", "cufile.log"});
  EXPECT_EQ(broken.out.find("other.json:2: "), 0u) << broken.out;
  EXPECT_NE(broken.out.find("\ncufile.log:1: "), std::string::npos) << "and the log: " << broken.out;
  std::ofstream(path("other.json")) << R"({"properties": {"alow_compat_mode": true}})";
  const json misspelt = json::parse(run({"explain", "other.json", "cufile.log", "--json"}).out, nullptr, false);
  EXPECT_EQ(misspelt["settings_faults"].size(), 1u) << misspelt;
  const Finished missing = run({"explain", "nowhere.json", "cufile.log"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(missing.err.find("nowhere.json: "), std::string::npos) << missing.err;
}

TEST_F(ExplainTool, OfACufileJsonTheCommandThatJudgesItIsNamed) {
  std::ofstream(path("cufile.json")) << "{}";
  EXPECT_NE(run({"explain", "cufile.json"}).out.find("'penstock settings cufile.json'"), std::string::npos);
}

TEST_F(ExplainTool, TheFolderThatCannotBeListedIsNamed) {
  std::filesystem::create_directories(path("model/closed"));
  std::filesystem::permissions(path("model/closed"), std::filesystem::perms::none);
  constexpr uid_t kNobody = 65534;  // Root may list any folder.
  const Finished told = run({"explain", "model"}, [] {
    if (getuid() == 0 && setuid(kNobody) != 0) _exit(2);
  });
  EXPECT_NE(told.err.find("model/closed: cannot be listed: "), std::string::npos) << told.err;
}

TEST_F(ExplainTool, ARequirementThatIsMetIsThePathThatIsTold) {
  make("data", 5000);

  const Finished done = explain({"data"}, "bounce");

  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.out.find("goes by bounce"), std::string::npos) << done.out;
}

TEST_F(ExplainTool, APathThatCufileJsonForbidsIsNotToldAsTaken) {
  make("data", 5000);

  const Finished forbidden = run({"explain", "data", "--env", "CUFILE_ALLOW_COMPAT_MODE=false"});
  const Finished broken = run({"explain", "data"}, [] { setenv("CUFILE_ENV_PATH_JSON", "/nowhere/cufile.json", 1); });

  EXPECT_EQ(forbidden.exit_code, 1);
  EXPECT_EQ(forbidden.out, "");
  EXPECT_NE(
      forbidden.err.find("no path can move bytes between files and device memory for programs that call cuFile: "),
      std::string::npos)
      << forbidden.err;
  EXPECT_FALSE(std::filesystem::exists(path("cufile.log"))) << "a question leaves no log";
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_NE(broken.err.find("/nowhere/cufile.json"), std::string::npos) << broken.err;
}

}  // namespace
}  // namespace penstock::tools
