// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "fakes/fake_environment.h"
#include "settings/settings.h"

namespace penstock::core {
namespace {

class LoadTest : public testing::Test {
 protected:
  void SetUp() override {
    variables.clear();
    char name[] = "/tmp/penstock_settings_XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ + "/" + name) << text;
    return directory_ + "/" + name;
  }
  LoadedSettings load(const PendingValues& pending = {}) {
    return load_settings(test_environment, pending, (directory_ + "/cufile.json").c_str());
  }

  std::string directory_;
};

TEST_F(LoadTest, NothingSaidMeansTheDefaultsAndNoNotes) {
  const LoadedSettings loaded = load();

  EXPECT_FALSE(loaded.must_refuse);
  EXPECT_TRUE(loaded.notes.empty());
  EXPECT_EQ(loaded.file, "");
  EXPECT_FALSE(loaded.settings.was_set("properties.allow_compat_mode"));
}

TEST_F(LoadTest, ALogThatIsAnotherFileIsReported) {
  const std::string data = write("data.bin", "somebody's data");
  variables = {{"CUFILE_LOGFILE_PATH", data}};

  const LoadedSettings loaded = load();

  EXPECT_FALSE(loaded.must_refuse);
  ASSERT_EQ(loaded.notes.size(), 1u);
  EXPECT_EQ(describe(loaded.notes[0]),
            "CUFILE_LOGFILE_PATH: note: call.logfile_path: " + data +
                " is there already and is not a log, so nothing is written to it; move it away, "
                "or name another log");
}

TEST_F(LoadTest, CallsComeBeforeTheEnvironmentBeforeTheFile) {
  write("cufile.json", R"({"properties": {"force_compat_mode": false, "allow_compat_mode": true, "io_batchsize": 7},
                           "logging": {"level": "INFO"}})");
  variables = {
      {"CUFILE_FORCE_COMPAT_MODE", "On"}, {"CUFILE_ALLOW_COMPAT_MODE", "0"}, {"CUFILE_LOGGING_LEVEL", "debug"}};

  const LoadedSettings loaded = load({{"properties.allow_compat_mode", true}});

  EXPECT_TRUE(loaded.settings.is_on("properties.force_compat_mode"));
  EXPECT_EQ(loaded.settings.origin("properties.force_compat_mode"), Origin::environment);
  EXPECT_TRUE(loaded.settings.is_on("properties.allow_compat_mode"));
  EXPECT_EQ(loaded.settings.origin("properties.allow_compat_mode"), Origin::call);
  EXPECT_EQ(loaded.settings.origin("properties.io_batchsize"), Origin::installed);
  EXPECT_EQ(loaded.settings.number("properties.io_batchsize"), 7);
  EXPECT_EQ(loaded.settings.text("logging.level"), "DEBUG");
}

TEST_F(LoadTest, TheFileThatTheUserNamesTakesThePlaceOfTheDefaultOne) {
  write("cufile.json", R"({"properties": {"io_batchsize": 7}})");
  variables["CUFILE_ENV_PATH_JSON"] = write("mine.json", R"({"properties": {"force_compat_mode": true}})");

  const LoadedSettings loaded = load();

  EXPECT_EQ(loaded.file, directory_ + "/mine.json");
  EXPECT_TRUE(loaded.settings.is_on("properties.force_compat_mode"));
  EXPECT_EQ(loaded.settings.number("properties.io_batchsize"), 128);
}

TEST_F(LoadTest, AVariableLeftInTheNameIsFilledIn) {
  write("mine.json", R"({"properties": {"force_compat_mode": true}})");
  variables = {{"PWD", directory_}, {"PART", "mine"}};
  for (const char* name : {"$PWD/mine.json", "${PWD}/mine.json", "$PWD/${PART}.json"}) {
    variables["CUFILE_ENV_PATH_JSON"] = name;
    EXPECT_TRUE(load().settings.is_on("properties.force_compat_mode")) << name;
  }
  for (const char* name : {"$NOWHERE/mine.json", "${PWD/mine.json", "$", "$/mine.json", "${}/mine.json"}) {
    variables["CUFILE_ENV_PATH_JSON"] = name;
    EXPECT_TRUE(load().must_refuse) << name;
  }
}

// DeepSpeed names $PWD/local_cufile.json, and Python starts processes elsewhere without telling them so by PWD.
TEST_F(LoadTest, AnothersPwdInTheNameIsTheWorkingDirectory) {
  write("mine.json", R"({"properties": {"force_compat_mode": true}})");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(directory_);
  variables = {{"PWD", "/nonexistent"}, {"CUFILE_ENV_PATH_JSON", "$PWD/mine.json"}};

  const LoadedSettings loaded = load();
  std::filesystem::current_path(before);

  EXPECT_TRUE(loaded.settings.is_on("properties.force_compat_mode"));
  EXPECT_FALSE(loaded.must_refuse);
}

TEST_F(LoadTest, AFileThatTheUserNamesMustBeThereAndBeReadable) {
  const std::string empty = write("empty.json", "");
  const std::string large = write("large.json", "{}" + std::string(kSettingsFileBytesMax, ' '));
  const std::string pipe = directory_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& name :
       {directory_ + "/missing.json", empty, large, pipe, directory_, std::string("/dev/zero")}) {
    variables["CUFILE_ENV_PATH_JSON"] = name;

    const LoadedSettings loaded = load();

    EXPECT_TRUE(loaded.must_refuse) << name;
    ASSERT_EQ(loaded.notes.size(), 1u) << name;
    EXPECT_EQ(loaded.notes[0].place, name);
    EXPECT_EQ(loaded.notes[0].severity, Severity::error);
  }
}

TEST_F(LoadTest, WhatKeepsTheDriverClosedIsToldWithItsPlaceAndWhatWasExpected) {
  const std::string name = write("cufile.json", "{\"properties\": {\n\"allow_compat_mode\": 7}}");
  EXPECT_EQ(describe(refusal_of(load())),
            "could not use " + name + ":2: properties.allow_compat_mode: must be true or false; it is 7");

  write("cufile.json", "{}");
  variables = {{"CUFILE_ALLOW_COMPAT_MODE", "maybe"}};
  EXPECT_EQ(describe(refusal_of(load())),
            "could not use CUFILE_ALLOW_COMPAT_MODE=maybe: "
            "expected true or false, in a variable also on or off");
}

TEST_F(LoadTest, PenstocksOwnSettingsComeOfFileAndEnvironmentAsAllDo) {
  write("cufile.json", R"({"penstock": {"workers": 3, "bounce_mib": 64, "chunk_kib": 1}})");
  variables = {{"PENSTOCK_WORKERS", "5"}};

  const LoadedSettings loaded = load();

  EXPECT_FALSE(loaded.must_refuse);
  EXPECT_EQ(loaded.settings.number("penstock.workers"), 5);
  EXPECT_EQ(loaded.settings.number("penstock.bounce_mib"), 64);
  EXPECT_EQ(loaded.settings.origin("penstock.bounce_mib"), Origin::installed);
  EXPECT_EQ(loaded.settings.number("penstock.chunk_kib"), 4096);  // An installed file's mistake is reported.
  ASSERT_EQ(loaded.notes.size(), 1u);
  EXPECT_EQ(loaded.notes[0].key, "penstock.chunk_kib");
}

// The file may have forbidden the fallback through host memory.
TEST_F(LoadTest, ADefaultFileThatCannotBeReadOrIsNoJsonKeepsTheDriverClosed) {
  write("cufile.json", R"({"properties": {"io_batchsize": 7}, oops)");

  const LoadedSettings broken = load();

  EXPECT_TRUE(broken.must_refuse);
  ASSERT_EQ(broken.notes.size(), 1u);
  EXPECT_EQ(broken.notes[0].line, 1);
  EXPECT_EQ(broken.settings.number("properties.io_batchsize"), 128);
  std::filesystem::remove(directory_ + "/cufile.json");
  std::filesystem::create_directory(directory_ + "/cufile.json");
  EXPECT_TRUE(load().must_refuse);
}

TEST_F(LoadTest, AVariableThatIsNoneOfCufilesIsToldAndClosesTheDriverWhereItIsNearlyAProhibition) {
  const auto load_with = [&](const char* entry) {
    const char* const entries[] = {"PATH=/bin", entry, nullptr};
    return load_settings(test_environment, {}, (directory_ + "/cufile.json").c_str(), entries);
  };
  for (const auto& [entry, meant] : {std::pair("CUFILE_ALLOW_COMPAT_MOD=false", "CUFILE_ALLOW_COMPAT_MODE"),
                                     {"CUFILE_FORCE_COMPAT=1", "CUFILE_FORCE_COMPAT_MODE"},
                                     {"CUFILE_ENV_PATH_JASON=/x", "CUFILE_ENV_PATH_JSON"}}) {
    const LoadedSettings loaded = load_with(entry);
    EXPECT_TRUE(loaded.must_refuse) << entry;
    ASSERT_EQ(loaded.notes.size(), 1u) << entry;
    EXPECT_EQ(loaded.notes[0].severity, Severity::error) << entry;
    EXPECT_EQ(loaded.notes[0].sentence, std::string("is not a variable of cuFile; did you mean ") + meant + "?");
  }
  const LoadedSettings other = load_with("CUFILE_LIBRARY_DIR=/x");
  EXPECT_FALSE(other.must_refuse);
  EXPECT_EQ(other.notes.size(), 1u);
  for (const char* entry : {"CUFILE_ALLOW_COMPAT_MODE=true", "CUFILE_IB_SL=1", "CUFILE_ENV_PATH_JSON=x", "CUDA=1"}) {
    EXPECT_TRUE(load_with(entry).notes.empty()) << entry;
  }
}

TEST_F(LoadTest, AVariableThatMakesNoSenseIsAnErrorUnlessItIsAboutTheLog) {
  for (const char* value : {"maybe", "2", "tru", " 1", "01"}) {
    variables = {{"CUFILE_ALLOW_COMPAT_MODE", value}};
    EXPECT_TRUE(load().must_refuse) << value;
  }
  variables = {{"CUFILE_ALLOW_COMPAT_MODE", ""}};
  EXPECT_FALSE(load().must_refuse);
  variables = {{"CUFILE_LOGGING_LEVEL", "loud"}, {"CUFILE_LOGFILE_MAX_SIZE_MB", "5000"}};
  const LoadedSettings loaded = load();
  EXPECT_FALSE(loaded.must_refuse);
  EXPECT_EQ(loaded.notes.size(), 2u);
}

TEST_F(LoadTest, AWaitForAValueOnStreamsIsForbiddenByAVariable) {
  variables = {{"CUFILE_STREAM_MEMOPS_BYPASS", "true"}};
  const LoadedSettings loaded = load();
  EXPECT_TRUE(loaded.settings.is_on("miscellaneous.stream_memops_bypass"));
  EXPECT_TRUE(loaded.notes.empty());
}

TEST_F(LoadTest, WhatIsWithoutEffectIsReportedWhereItAsksForSomething) {
  write("cufile.json",
        R"({"properties": {"use_poll_mode": true, "prefer_iouring": false, "max_device_cache_size_kb": 4}})");
  variables = {
      {"CUFILE_USE_PCIP2PDMA", "true"}, {"CUFILE_RDMA_HOP_LIMIT", "3"}, {"CUOBJ_ENV_PATH_JSON", "/etc/cuobj.json"}};

  const LoadedSettings loaded = load();

  std::string keys;
  for (const Note& note : loaded.notes) {
    EXPECT_EQ(note.severity, Severity::idle);
    keys += note.place.substr(note.place.rfind('/') + 1) + " " + note.key + "\n";
  }
  EXPECT_EQ(keys,
            "cufile.json properties.use_poll_mode\n"
            "cufile.json properties.max_device_cache_size_kb\n"
            "CUFILE_RDMA_HOP_LIMIT \n"
            "CUOBJ_ENV_PATH_JSON \n"
            "CUFILE_USE_PCIP2PDMA properties.use_pci_p2pdma\n");
  EXPECT_FALSE(loaded.must_refuse);
}

TEST_F(LoadTest, ACallsNumberOutOfRangeGivesWayToWhatTheOthersSay) {
  write("cufile.json", R"({"properties": {"io_batchsize": 7}})");

  const LoadedSettings loaded = load({{"properties.io_batchsize", std::int64_t{5000}}});

  EXPECT_EQ(loaded.settings.number("properties.io_batchsize"), 7);
  ASSERT_EQ(loaded.notes.size(), 1u);
  EXPECT_EQ(loaded.notes[0].severity, Severity::note);
}

}  // namespace
}  // namespace penstock::core
