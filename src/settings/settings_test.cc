#include "settings/settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace penstock::core {
namespace {

LoadedSettings parse(std::string_view text, bool named_by_user = true) {
  return parse_settings(text, "cufile.json", named_by_user);
}

// The notes about a key, as "LINE SEVERITY SENTENCE"; all of them for "".
std::string notes_of(const LoadedSettings& loaded, std::string_view key) {
  std::string text;
  for (const Note& note : loaded.notes) {
    if (!key.empty() && note.key != key) continue;
    text += std::to_string(note.line) + " " + severity_name(note.severity) + " " + note.sentence + "\n";
  }
  return text;
}

TEST(SettingsTableTest, EveryNameLeadsToOneRow) {
  std::set<std::string> names;
  std::set<std::string> variables;
  std::set<std::pair<SettingKind, int>> parameters;
  for (const SettingRow& row : kSettingRows) {
    std::string words = std::string(row.key) + " " + std::string(row.aliases);
    while (!words.empty()) {
      const std::size_t end = std::min(words.find(' '), words.size());
      if (end > 0) {
        EXPECT_TRUE(names.insert(words.substr(0, end)).second) << words;
      }
      words.erase(0, end + 1);
    }
    if (row.variable[0] != '\0') {
      EXPECT_TRUE(variables.insert(row.variable).second) << row.variable;
    }
    if (row.parameter >= 0) {
      EXPECT_TRUE(parameters.insert({row.kind, row.parameter}).second) << row.key;
    }
    EXPECT_NE(row.key.find('.'), std::string_view::npos) << row.key;
  }
  EXPECT_EQ(parameters.size(), 12u + 12u + 3u);  // cufile.h's size, boolean and text parameters.
}

TEST(SettingsTableTest, DefaultsAreInRangeAndThoseOfTheContract) {
  const Settings settings;

  for (std::size_t i = 0; i < kSettingCount; ++i) {
    EXPECT_EQ(range_fault(kSettingRows[i], settings.value(Setting::at(i))), "") << kSettingRows[i].key;
  }
  EXPECT_TRUE(settings.is_on("properties.allow_compat_mode"));
  EXPECT_FALSE(settings.is_on("properties.force_compat_mode"));
  EXPECT_EQ(settings.number("properties.io_batchsize"), 128);
  EXPECT_EQ(settings.text("logging.level"), "ERROR");
  EXPECT_EQ(settings.text_of("properties.posix_pool_slab_size_kb"), "4 1024 16384");
  EXPECT_EQ(settings.texts("denylist.mounts"), Texts{});
  EXPECT_EQ(printed_name("properties.allow_compat_mode"), "properties.use_compat_mode");
}

TEST(SettingsFileTest, APartialFileWithCommentsSaysWhatItSays) {
  const LoadedSettings loaded = parse(R"({
    // The line that the stock file has.
    "properties": { /* one */ "allow_compat_mode": false, "max_direct_io_size_kb": 1024,
                    "posix_pool_slab_count": [1, 2] },
    "denylist": {"mounts": ["/scratch", "/data \u00e9"], "drivers": []}
  })");

  EXPECT_FALSE(loaded.must_refuse);
  EXPECT_EQ(notes_of(loaded, ""), "");
  EXPECT_FALSE(loaded.settings.is_on("properties.allow_compat_mode"));
  EXPECT_EQ(loaded.settings.origin("properties.allow_compat_mode"), Origin::file);
  EXPECT_EQ(loaded.settings.number("properties.max_direct_io_size_kb"), 1024);
  EXPECT_EQ(loaded.settings.numbers("properties.posix_pool_slab_count"), (Numbers{1, 2}));
  EXPECT_EQ(loaded.settings.texts("denylist.mounts"), (Texts{"/scratch", "/data \u00e9"}));
  EXPECT_TRUE(loaded.settings.was_set("denylist.drivers"));
  EXPECT_FALSE(loaded.settings.was_set("execution.max_io_threads"));
}

TEST(SettingsFileTest, OlderNamesAndSectionsAreUnderstood) {
  const LoadedSettings loaded = parse(R"({
    "blacklist": {"filesystems": ["ext4"]},
    "profile": {"io_batchsize": 64},
    "properties": {"use_compat_mode": false, "gpu_bounce_buffer_slab_config": {"slab_size_kb": [4], "slab_count": [1]}},
    "fs": {"lustre": {"mount_table": {"/mnt": {"rdma_dev_addr_list": ["10.0.0.1", {"deep": [[1]]}]}}}}
  })");

  EXPECT_EQ(notes_of(loaded, ""), "");
  EXPECT_EQ(loaded.settings.texts("denylist.filesystems"), Texts{"ext4"});
  EXPECT_EQ(loaded.settings.number("properties.io_batchsize"), 64);
  EXPECT_FALSE(loaded.settings.is_on("properties.allow_compat_mode"));
  EXPECT_EQ(loaded.settings.text_of("properties.gpu_bounce_buffer_slab_config.slab_size_kb"), "4");
  EXPECT_TRUE(loaded.settings.was_set("fs.lustre.mount_table"));
}

TEST(SettingsFileTest, UnknownAndRepeatedKeysAreNotedWithTheirLines) {
  const LoadedSettings loaded = parse(
      "{\n"
      "\"propertees\": {\"allow_compat_mode\": false},\n"
      "\"properties\": {\n"
      "  \"io_batchsize\": 16, \"io_depth\": [1, {}],\n"
      "  \"io_batchsize\": 32},\n"
      "\"properties\": {\"force_compat_mode\": true}}\n");

  EXPECT_FALSE(loaded.must_refuse);
  EXPECT_EQ(loaded.settings.number("properties.io_batchsize"), 32);
  EXPECT_TRUE(loaded.settings.is_on("properties.allow_compat_mode"));
  EXPECT_TRUE(loaded.settings.is_on("properties.force_compat_mode"));
  EXPECT_EQ(notes_of(loaded, "propertees"), "2 note is no key of cuFile's configuration\n");
  EXPECT_EQ(notes_of(loaded, "properties.io_depth"), "4 note is no key of cuFile's configuration\n");
  EXPECT_EQ(notes_of(loaded, "properties.io_batchsize"),
            "5 note is given twice, in line 4 too: the later one counts\n");
  EXPECT_EQ(loaded.notes.size(), 3u);
}

TEST(SettingsFileTest, WhatANoteShowsOfTheFileCannotMoveATerminalsCursor) {
  EXPECT_EQ(parse("{\"a\\u001b\\u009b2J\": 1}").notes.at(0).key, "a\\x1b\\xc2\\x9b2J");
  const std::string broken = parse("{\"a\": \x9b}").notes.at(0).sentence;
  EXPECT_TRUE(broken.ends_with("\\x9b")) << broken;
}

TEST(SettingsFileTest, AValueThatCannotBeUnderstoodIsAnErrorWhereTheUserNamedTheFile) {
  const char* const broken[] = {R"({"properties": {"allow_compat_mode": "no"}})",
                                R"({"properties": {"allow_compat_mode": 0}})",
                                R"({"properties": {"allow_compat_mode": null}})",
                                R"({"properties": {"allow_compat_mode": [false]}})",
                                R"({"properties": {"allow_compat_mode": {}}})",
                                R"({"denylist": {"mounts": "/data"}})",
                                R"({"denylist": {"mounts": ["/data", 1]}})",
                                R"({"denylist": {"mounts": ["/data\u0000x"]}})",
                                R"({"denylist": ["/data"]})",
                                R"({"properties": true})",
                                R"({"execution": {"max_io_threads": 1.5}})",
                                R"({"execution": {"max_io_threads": 99999999999999999999}})"};
  for (const char* text : broken) {
    const LoadedSettings named = parse(text, true);
    const LoadedSettings unnamed = parse(text, false);

    EXPECT_TRUE(named.must_refuse) << text;
    EXPECT_FALSE(unnamed.must_refuse) << text;
    ASSERT_EQ(unnamed.notes.size(), 1u) << text;
    EXPECT_EQ(unnamed.notes[0].severity, Severity::error) << text;
    EXPECT_TRUE(unnamed.settings.is_on("properties.allow_compat_mode")) << text;
    EXPECT_EQ(unnamed.settings.number("execution.max_io_threads"), 4) << text;
  }
}

TEST(SettingsFileTest, WhatProtectsNothingIsANoteAndTheDefaultHolds) {
  const LoadedSettings loaded = parse(R"({
    "logging": {"level": "LOUD"},
    "properties": {"use_poll_mode": "yes", "poll_mode_max_size_kb": 6, "io_priority": "urgent"}
  })");

  EXPECT_FALSE(loaded.must_refuse);
  EXPECT_EQ(loaded.notes.size(), 4u);
  EXPECT_EQ(loaded.settings.text("logging.level"), "ERROR");
  EXPECT_EQ(loaded.settings.number("properties.poll_mode_max_size_kb"), 4);
  EXPECT_EQ(notes_of(loaded, "properties.poll_mode_max_size_kb"), "3 note 6 is no multiple of 4\n");
  EXPECT_EQ(notes_of(loaded, "logging.level"), "2 note must be one of NOTICE ERROR WARN INFO DEBUG TRACE\n");
}

TEST(SettingsFileTest, ANumberOutOfRangeThatMattersIsAnError) {
  const LoadedSettings loaded = parse(R"({
    "properties": {"io_batchsize": 257, "max_direct_io_size_kb": 65, "max_device_pinned_mem_size_kb": 0}
  })");

  EXPECT_TRUE(loaded.must_refuse);
  EXPECT_EQ(loaded.settings.number("properties.io_batchsize"), 128);
  EXPECT_EQ(notes_of(loaded, "properties.io_batchsize"), "2 error 257 is out of range: 1 to 256\n");
  EXPECT_EQ(notes_of(loaded, "properties.max_direct_io_size_kb"), "2 error 65 is no multiple of 64\n");
  EXPECT_EQ(loaded.settings.number("properties.max_device_pinned_mem_size_kb"), 0);
}

TEST(SettingsFileTest, AKeysOwnNameComesBeforeItsOlderOnes) {
  for (const char* text : {R"({"properties": {"io_batchsize": 16, "max_batch_io_size": 32}})",
                           R"({"properties": {"max_batch_io_size": 32, "io_batchsize": 16}})"}) {
    const LoadedSettings loaded = parse(text);
    EXPECT_EQ(loaded.settings.number("properties.io_batchsize"), 16) << text;
    EXPECT_EQ(loaded.notes.size(), 1u) << text;
  }
}

TEST(SettingsFileTest, TextThatIsNoJsonLeavesTheDefaultsAndNamesTheLine) {
  const std::string prefix = "{\n\"properties\": {\"allow_compat_mode\": false},\n";
  const std::string broken[] = {"",
                                "   \n",
                                "[]",
                                "7",
                                "\"x\"",
                                "null",
                                prefix,
                                prefix + "]",
                                prefix + "x}",
                                "{\"a\":1} {}",
                                "{\"a\" 1}",
                                "{'a': 1}",
                                "{\"a\":1,}",
                                "{\"a\":\"\xff\"}",
                                std::string("{\"a\":\"\0\"}", 9),
                                "{\"a\":1e999}",
                                "{\"a\":\"\\ud800\"}",
                                "{/* open"};
  for (const std::string& text : broken) {
    const LoadedSettings loaded = parse(text);

    EXPECT_TRUE(loaded.must_refuse) << text;
    ASSERT_GE(loaded.notes.size(), 1u) << text;
    EXPECT_EQ(loaded.notes.back().severity, Severity::error);
    EXPECT_TRUE(loaded.settings.is_on("properties.allow_compat_mode")) << text;
    EXPECT_FALSE(loaded.settings.was_set("properties.allow_compat_mode")) << text;
  }
  EXPECT_EQ(parse(prefix + "\n x}").notes.back().line, 4);
}

TEST(SettingsFileTest, NoTextExhaustsTheStackOrTheNotes) {
  const std::string deep = "{\"x\":" + std::string(500000, '[');
  std::string deep_objects;
  for (int i = 0; i < 100000; ++i) deep_objects += "{\"properties\":";
  std::string many = "{";
  for (int i = 0; i < 50000; ++i) many += "\"k" + std::to_string(i) + "\":0,";
  many += "\"end\":0}";

  EXPECT_TRUE(parse(deep).must_refuse);
  EXPECT_TRUE(parse(deep_objects).must_refuse);
  const LoadedSettings noted = parse(many);
  EXPECT_FALSE(noted.must_refuse);
  EXPECT_EQ(noted.notes.size(), kNotesMax);
}

TEST(SettingsFileTest, AnErrorCountsEvenWhereTheNotesAreFull) {
  std::string many = "{";
  for (int i = 0; i < 1000; ++i) many += "\"k" + std::to_string(i) + "\":0,";

  EXPECT_TRUE(parse(many + "\"properties\": {\"allow_compat_mode\": 3}}").must_refuse);
}

TEST(SettingsFileTest, KeysOfCallsAreNoKeysOfFiles) {
  const LoadedSettings loaded = parse(R"({"call": {"logfile_path": "/tmp/x"}})");

  EXPECT_FALSE(loaded.settings.was_set("call.logfile_path"));
  EXPECT_EQ(loaded.notes.size(), 1u);
}

TEST(SettingsTest, ANoteReadsAsOneLine) {
  EXPECT_EQ(describe({Severity::error, "/etc/cufile.json", 12, "denylist.mounts", "must be a list of texts"}),
            "/etc/cufile.json:12: error: denylist.mounts: must be a list of texts");
  EXPECT_EQ(describe({Severity::idle, "CUFILE_IB_SL", 0, "", "has no effect"}),
            "CUFILE_IB_SL: without effect: has no effect");
}

TEST(SettingsTest, StagingOneKeyTwiceKeepsTheLater) {
  Staged staged;

  stage(staged, "properties.io_batchsize", std::int64_t{8});
  stage(staged, "properties.use_poll_mode", true);
  stage(staged, "properties.io_batchsize", std::int64_t{9});

  ASSERT_EQ(staged.size(), 2u);
  EXPECT_EQ(std::get<std::int64_t>(staged[0].value), 9);
}

}  // namespace
}  // namespace penstock::core
