// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using nlohmann::json;

class SettingsCommandTest : public Tool {
 protected:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  // With no other settings than these.
  Finished settings(std::vector<std::string> arguments, const Variables& variables = {}) {
    arguments.insert(arguments.begin(), "settings");
    return run(arguments, [&] {
      unsetenv("PENSTOCK_DEVICE");
      for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    });
  }
  static json one(const Finished& finished) { return json::parse(finished.out, nullptr, false)["settings"][0]; }
};

TEST_F(SettingsCommandTest, EachIsToldWithItsValueItsSourceItsDefaultAndItsMeaning) {
  const Finished done = settings({}, {{"PENSTOCK_BOUNCE_MIB", "64"}, {"CUFILE_ALLOW_COMPAT_MODE", "true"}});

  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_NE(done.out.find("bounce_mib = 64 (environment)\n"
                          "    the most pinned host memory for bounce buffers of each device, and of host memory; "
                          "requests on streams may take as much again\n"
                          "    takes a number of MiB, 1 to 65536; by default 256; variable PENSTOCK_BOUNCE_MIB\n"),
            std::string::npos)
      << done.out;
  EXPECT_NE(done.out.find("paths = auto (default)\n"), std::string::npos);
  EXPECT_NE(done.out.find("properties.allow_compat_mode = true (environment)\n"), std::string::npos);
  EXPECT_EQ(done.out.find("has no effect"), std::string::npos);
}

TEST_F(SettingsCommandTest, OneIsToldByItsNameItsKeyItsVariableOrAnOlderName) {
  for (const char* name : {"io_uring", "penstock.io_uring", "PENSTOCK_IO_URING"}) {
    EXPECT_EQ(settings({name}).out.substr(0, 26), "io_uring = auto (default)\n") << name;
  }
  for (const char* name : {"properties.allow_compat_mode", "properties.use_compat_mode", "CUFILE_ALLOW_COMPAT_MODE"}) {
    EXPECT_EQ(settings({name}).out.substr(0, 28), "properties.allow_compat_mode") << name;
  }
  EXPECT_NE(settings({"profile.nvtx"}).out.find("has no effect: "), std::string::npos);
}

TEST_F(SettingsCommandTest, WritesFilesForThisMachineWithAReasonForEachValue) {
  const Finished done = settings({"--write", "conf", "--json"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const json told = json::parse(done.out);
  const std::string file = told["files"][0], text = text_of(path("conf/cufile.json"));

  const json written = json::parse(text, nullptr, true, true);
  for (const json& one : told["values"]) {
    const std::string name = one["name"], reason = one["reason"], value = one["value"];
    EXPECT_GT(reason.size(), 20u) << name;
    const std::string::size_type dot = name.find('.');
    if (dot == std::string::npos) {
      EXPECT_NE(text_of(path("conf/penstock.env")).find("# " + reason + "\nexport " + name + "='" + value + "'\n"),
                std::string::npos);
    } else {
      EXPECT_EQ(written[name.substr(0, dot)][name.substr(dot + 1)].dump(), value);
      EXPECT_NE(text.find("// " + reason + "\n"), std::string::npos) << text;
    }
  }
  const Finished checked = settings({file});
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  EXPECT_EQ(checked.out.find("error"), std::string::npos) << checked.out;
  EXPECT_NE(checked.out.find("execution.max_io_threads = "), std::string::npos) << checked.out;
  EXPECT_EQ(settings({"--write", "conf"}).exit_code, 2);
  EXPECT_EQ(text_of(path("conf/cufile.json")), text);
  EXPECT_EQ(settings({"--write", "conf", "--overwrite"}).exit_code, 0);
  EXPECT_EQ(settings({"--write", "no/such/folder"}).exit_code, 1);
  EXPECT_EQ(settings({"--write", "conf", "bounce_mib"}).exit_code, 2);
}

TEST_F(SettingsCommandTest, OfAVariableOfNvidiasLibraryAloneItIsSaidThatItHasNoEffect) {
  const std::string reason = "cuObject's transfers of objects need NVIDIA's own library";

  const Finished set = settings({}, {{"CUOBJ_LOGGING_LEVEL", "trace"}});
  const Finished asked = settings({"CUOBJ_LOGGING_LEVEL"});

  EXPECT_EQ(set.exit_code, 0) << set.err;
  EXPECT_NE(set.out.find("CUOBJ_LOGGING_LEVEL: without effect: " + reason), std::string::npos) << set.out;
  EXPECT_EQ(asked.out.find("CUOBJ_LOGGING_LEVEL\n    has no effect: " + reason), 0u) << asked.out << asked.err;
  EXPECT_EQ(run({"help", "CUOBJ_LOGGING_LEVEL"}).out, asked.out);
  const Finished checked = run({"check"}, [] { setenv("CUOBJ_LOGGING_LEVEL", "trace", 1); });
  EXPECT_NE(checked.out.find("CUOBJ_LOGGING_LEVEL: without effect: "), std::string::npos) << checked.out;
  EXPECT_EQ(one(settings({"CUFILE_IB_SL", "--json"}))["name"], "CUFILE_IB_SL");
  EXPECT_NE(settings({}, {{"GDS_LOG_LEVEL", "3"}}).out.find("GDS_LOG_LEVEL: without effect: "), std::string::npos);
}

TEST_F(SettingsCommandTest, WordsFindTheSettingsWhoseNameOrSentenceHasThemAll) {
  const auto found = [&](std::vector<std::string> words) {
    words.emplace_back("--json");
    std::vector<std::string> names;
    const json told = json::parse(settings(std::move(words)).out);
    for (const json& setting : told["settings"]) names.push_back(setting["name"]);
    return names;
  };
  const std::vector<std::string> compat = found({"Compat"});
  EXPECT_TRUE(std::ranges::count(compat, "properties.allow_compat_mode")) << json(compat);
  EXPECT_LT(compat.size(), 10u) << json(compat);
  EXPECT_EQ(found({"pinned", "bounce"}).front(), "bounce_mib");
  EXPECT_EQ(found({"io", "threads"}), found({"threads"}));
  EXPECT_TRUE(std::ranges::count(found({"posix_pool"}), "properties.posix_pool_slab_count"));
  EXPECT_NE(settings({"cache", "nosuch"}).err.find("no setting has 'nosuch' in its name or sentence"),
            std::string::npos);
}

TEST_F(SettingsCommandTest, WordsThatNoneHasAreRefusedAndTheNearNameIsProposed) {
  const Finished near = settings({"bounce_mb"});

  EXPECT_EQ(near.exit_code, 2);
  EXPECT_NE(near.err.find("no setting has 'bounce_mb' in its name or sentence; did you mean 'bounce_mib'?"),
            std::string::npos)
      << near.err;
  for (const char* far : {"frobnicate", "foo", "nosuch"}) EXPECT_EQ(settings({far}).exit_code, 2) << far;
}

TEST_F(SettingsCommandTest, WordsThatNoSettingHasAllOfFindThoseOfEachWord) {
  const Finished both = settings({"bounce", "threads"});
  EXPECT_EQ(both.exit_code, 0) << both.err;
  for (const char* name : {"\nbounce_mib = ", "\nworkers = "}) {
    EXPECT_NE(("\n" + both.out).find(name), std::string::npos) << name << both.out;
    EXPECT_EQ(("\n" + both.out).find(name), ("\n" + both.out).rfind(name)) << "told twice";
  }
  EXPECT_EQ(settings({"bounce", "quark"}).exit_code, 2);
  EXPECT_NE(settings({"bounce", "quark"}).err.find("no setting has 'quark' in"), std::string::npos);
}

TEST_F(SettingsCommandTest, AFileIsNamedWhereItSaysSomething) {
  std::ofstream(path("cufile.json")) << R"({"penstock": {"workers": 3}, "properties": {"io_batchsize": 7}})";
  const Variables variables = {{"CUFILE_ENV_PATH_JSON", path("cufile.json")}};

  const Finished done = settings({}, variables);

  EXPECT_EQ(done.exit_code, 0) << done.out;
  EXPECT_NE(done.out.find("workers = 3 (file)\n"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("file: " + path("cufile.json").string() + ", which only programs that use cuFile read; "),
            std::string::npos);
  const json told = one(settings({"properties.io_batchsize", "--json"}, variables));
  EXPECT_EQ(told["value"], "7");
  EXPECT_EQ(told["source"], "file");
}

TEST_F(SettingsCommandTest, WhatAFileWouldChangeIsToldByItsName) {
  const std::string file = path("other.json");
  std::ofstream(file) << R"({"properties": {"allow_compat_mode": false}})";

  const Finished done = settings({file});

  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(done.out.find("properties.allow_compat_mode = false (file)\n"), 0u) << done.out;
  EXPECT_EQ(done.out.find("bounce_mib"), std::string::npos) << "it is at its default";
  EXPECT_NE(done.out.find("file: " + file), std::string::npos) << done.out;
  const Finished nowhere = settings({path("nowhere.json").string()});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_EQ(nowhere.err.find("CUFILE_ENV_PATH_JSON"), std::string::npos) << "nobody set it: " << nowhere.err;
  EXPECT_NE(nowhere.err.find("nowhere.json: "), std::string::npos) << nowhere.err;
}

TEST_F(SettingsCommandTest, WhatFollowsFromAFileOnThisMachineIsTold) {
  const std::string file = path("other.json");
  const auto here = [&](const char* text) {
    std::ofstream(file) << text;
    return settings({file}).out;
  };
  const char* const heading = "\nHow bytes of GPU memory go on this machine, in a program of cuFile with this file\n  ";

  const std::string plain = here(R"({"profile": {"nvtx": true}, "properties": {"use_poll_mode": false}})");
  EXPECT_NE(plain.find("profile.nvtx = true (file)\n    has no effect: "), std::string::npos) << plain;
  EXPECT_EQ(plain.find("use_poll_mode"), std::string::npos) << "it asks for the default";
  EXPECT_NE(plain.find("\nand 1 key of it that has no effect; --all lists it\n"), std::string::npos) << plain;
  const std::string all = settings({file, "--all"}).out;
  EXPECT_NE(all.find("properties.use_poll_mode = false (file)\n    has no effect: "), std::string::npos) << all;
  EXPECT_EQ(all.find("bounce_mib"), std::string::npos) << "the file does not name it";
  EXPECT_NE(plain.find(heading), std::string::npos) << plain;
  EXPECT_NE(plain.find(", as without this file"), std::string::npos) << plain;

  const std::string forbids = here(R"({"properties": {"allow_compat_mode": false}})");
  EXPECT_NE(forbids.find(": no path; without this file by "), std::string::npos) << forbids;
  EXPECT_NE(forbids.find(": properties.allow_compat_mode is false in"), std::string::npos) << forbids;
  EXPECT_EQ(settings({}).out.find(heading), std::string::npos);
}

TEST_F(SettingsCommandTest, WhatAFileHasWrongIsToldFirstAndBesideItsKey) {
  std::ofstream(path("cufile.json")) << R"({"properties": {"allow_compat_mode": 7}})";

  const Finished done = settings({}, {{"CUFILE_ENV_PATH_JSON", path("cufile.json")}});

  EXPECT_EQ(done.exit_code, 1);
  EXPECT_EQ(done.out.find(path("cufile.json").string() + ":1: error: properties.allow_compat_mode: "), 0u) << done.out;
  EXPECT_EQ(done.out.find("error:"), done.out.rfind("error:")) << "told twice";
  EXPECT_NE(done.out.find("\nproperties.allow_compat_mode = true (file: invalid)\n"), std::string::npos) << done.out;
}

TEST_F(SettingsCommandTest, AValueThatMakesNoSenseIsToldAndFails) {
  const Finished done = settings({}, {{"PENSTOCK_REGISTRATION_CACHE_MIB", "a\x1b[2Jb"}});

  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.out.find("PENSTOCK_REGISTRATION_CACHE_MIB=a\\x1b[2Jb: error: expected a number of MiB, 0 to 16777216"),
            std::string::npos)
      << done.out;
}

TEST_F(SettingsCommandTest, AllTellsAProgramOfKeysWithoutEffectAndWhy) {
  const json all = json::parse(settings({"--all", "--json"}).out, nullptr, false);
  const json served = json::parse(settings({"--json"}).out, nullptr, false);

  EXPECT_EQ(all["refused"], false);
  EXPECT_GT(all["settings"].size(), served["settings"].size());
  for (const json& setting : all["settings"]) {
    EXPECT_NE(setting["meaning"].is_null(), setting["without_effect"].is_null()) << setting;
    EXPECT_NE(setting["takes"], "") << setting;
  }
  EXPECT_EQ(served["settings"][0]["name"], "paths");
  EXPECT_EQ(served["settings"][0]["key"], "penstock.paths");
  EXPECT_EQ(served["settings"][0]["variable"], "PENSTOCK_PATHS");
  EXPECT_EQ(served["settings"][0]["source"], "default");
}

}  // namespace
}  // namespace penstock::tools
