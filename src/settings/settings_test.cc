// SPDX-License-Identifier: Apache-2.0

#include "settings/settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

namespace penstock::core {
namespace {

LoadedSettings parse(std::string_view text, bool named_by_user = true) {
  return parse_settings(text, "cufile.json", named_by_user);
}

// The notes about a key, as "LINE SEVERITY SENTENCE"; for "" all but those of keys without effect.
std::string notes_of(const LoadedSettings& loaded, std::string_view key) {
  std::string text;
  for (const Note& note : loaded.notes) {
    if (key.empty() ? note.severity == Severity::idle : note.key != key) continue;
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
  EXPECT_EQ(parameters.size(), 12u + 14u + 4u);  // cufile.h's size, boolean and text parameters.
}

TEST(SettingsTableTest, OursAreNamedByOneRule) {
  for (const SettingRow& row : kPenstockRows) {
    std::string variable = "PENSTOCK_" + std::string(row.key.substr(kOwnSection.size()));
    for (char& letter : variable) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    EXPECT_EQ(row.variable, variable);
    EXPECT_EQ(row.idle, "") << row.key;
  }
}

TEST(SettingsTableTest, WhatIsServedHasAMeaningAndWhatIsNotHasAReason) {
  for (const SettingRow& row : kSettingRows) EXPECT_NE(row.meaning.empty(), row.idle.empty()) << row.key;
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

TEST(SettingsFileTest, PenstocksOwnSettingsMayStandInASectionOfTheirs) {
  const LoadedSettings loaded = parse(R"({
    "penstock": {"paths": ["bounce", "Host"], "require": "bounce", "workers": 3, "nvidia_export": true}
  })");

  EXPECT_EQ(notes_of(loaded, ""), "");
  EXPECT_EQ(loaded.settings.texts("penstock.paths"), (Texts{"bounce", "host"}));
  EXPECT_EQ(loaded.settings.text_of("penstock.paths"), "bounce,host");
  EXPECT_EQ(loaded.settings.text("penstock.require"), "bounce");
  EXPECT_EQ(loaded.settings.number("penstock.workers"), 3);
  EXPECT_EQ(loaded.settings.origin("penstock.workers"), Origin::file);
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

TEST(SettingsFileTest, AFaultIsToldByTheKeyThatTheFileHas) {
  const LoadedSettings older = parse(R"({"properties": {"max_batch_io_size": 131072}})");
  ASSERT_EQ(older.notes.size(), 1u);
  EXPECT_EQ(older.notes[0].key, "properties.max_batch_io_size");
  const LoadedSettings misplaced = parse(R"({"execution": {"max_batch_io_size": 131072}})");
  ASSERT_EQ(misplaced.notes.size(), 2u);
  EXPECT_EQ(misplaced.notes[1].key, "execution.max_batch_io_size");
}

TEST(SettingsFileTest, UnknownAndRepeatedKeysAreNotedWithTheirLines) {
  const LoadedSettings loaded = parse(
      "{\n"
      "\"propertees\": {\"depth\": false},\n"
      "\"properties\": {\n"
      "  \"io_batchsize\": 16, \"io_depth\": [1, {}],\n"
      "  \"io_batchsize\": 32},\n"
      "\"properties\": {\"force_compat_mode\": true}}\n");

  EXPECT_FALSE(loaded.must_refuse);
  EXPECT_EQ(loaded.settings.number("properties.io_batchsize"), 32);
  EXPECT_TRUE(loaded.settings.is_on("properties.allow_compat_mode"));
  EXPECT_TRUE(loaded.settings.is_on("properties.force_compat_mode"));
  EXPECT_EQ(notes_of(loaded, "propertees"), "2 note is not a key of cuFile's configuration\n");
  EXPECT_EQ(notes_of(loaded, "properties.io_depth"), "4 note is not a key of cuFile's configuration\n");
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
  for (const char* text :
       {R"({"execution": {"max_io_threads": 1.5}})", R"({"execution": {"max_io_threads": 99999999999999999999}})",
        R"({"execution": {"parallel_io": "no"}})", R"({"properties": {"io_batchsize": null}})"}) {
    const LoadedSettings named = parse(text, true);
    const LoadedSettings unnamed = parse(text, false);

    EXPECT_TRUE(named.must_refuse) << text;
    EXPECT_FALSE(unnamed.must_refuse) << text;
    ASSERT_EQ(unnamed.notes.size(), 1u) << text;
    EXPECT_EQ(unnamed.notes[0].severity, Severity::error) << text;
    EXPECT_EQ(unnamed.settings.number("execution.max_io_threads"), 4) << text;
  }
}

// ---- Settings that may forbid something ----------------------------------------------------------------------------

// One error, and the driver stays closed wherever the file lies.
void expect_refusal(const std::string& text, const std::string& sentence) {
  for (const bool named_by_user : {true, false}) {
    const LoadedSettings loaded = parse(text, named_by_user);
    EXPECT_TRUE(loaded.must_refuse) << text;
    EXPECT_NE(notes_of(loaded, "").find(sentence), std::string::npos) << text << "\n" << notes_of(loaded, "");
    EXPECT_EQ(std::count_if(loaded.notes.begin(), loaded.notes.end(),
                            [](const Note& note) { return note.severity == Severity::error; }),
              1)
        << text;
  }
}

TEST(SettingsFileTest, AProhibitionThatCannotBeUnderstoodKeepsTheDriverClosedWhereverTheFileLies) {
  const char* const broken[] = {R"({"properties": {"allow_compat_mode": "no"}})",
                                R"({"properties": {"allow_compat_mode": 0}})",
                                R"({"properties": {"allow_compat_mode": null}})",
                                R"({"properties": {"allow_compat_mode": [false]}})",
                                R"({"properties": {"allow_compat_mode": {}}})",
                                R"({"execution": {"allow_compat_mode": "no"}})",
                                R"({"denylist": {"mounts": "/data"}})",
                                R"({"denylist": {"mounts": ["/data", 1]}})",
                                R"({"denylist": {"mounts": ["/data\u0000x"]}})",
                                R"({"denylist": ["/data"]})",
                                R"({"properties": true})"};
  for (const char* text : broken) expect_refusal(text, " must be ");
  expect_refusal(R"({"penstock": {"require": "fastest"}})", " must be p2pdma, dmabuf, ");
  expect_refusal(R"({"penstock": {"paths": ["bounce", "bounce"]}})", " must be auto, or some of p2pdma, ");
  expect_refusal(R"({"penstock": {"path": ["bounce"]}})", "did you mean \"paths\" (section \"penstock\")?");
}

TEST(SettingsFileTest, AKeyInTheWrongSectionIsTakenAsMeantAndToldWithItsPlace) {
  for (const char* text : {R"({"execution": {"allow_compat_mode": false}})", R"({"allow_compat_mode": false})",
                           R"({"propertees": {"allow_compat_mode": false, "depth": 1}})",
                           R"({"properties": {"compat": {"use_compat_mode": false}}})",
                           R"({"fs": {"nfs": {"allow_compat_mode": false}}})"}) {
    const LoadedSettings loaded = parse(text);

    EXPECT_FALSE(loaded.must_refuse) << text;
    EXPECT_FALSE(loaded.settings.is_on("properties.allow_compat_mode")) << text;
    EXPECT_NE(notes_of(loaded, "").find("is taken as properties.allow_compat_mode, which is its place"),
              std::string::npos)
        << text << "\n"
        << notes_of(loaded, "");
  }
}

TEST(SettingsFileTest, ANameThatSeveralSectionsHaveOrThatIsOneWordIsNotTakenFromAnother) {
  const LoadedSettings loaded = parse(R"({"execution": {"use_pci_p2pdma": true, "level": "INFO"},
                                          "network": {"devices": ["mlx5_0"]}})");

  EXPECT_FALSE(loaded.must_refuse);
  EXPECT_EQ(loaded.notes.size(), 3u) << notes_of(loaded, "");
  EXPECT_EQ(loaded.settings.texts("denylist.devices"), Texts{});
  EXPECT_EQ(loaded.settings.text("logging.level"), "ERROR");
}

// A common piece of advice gives a number of bytes for a batch's number of entries.
TEST(SettingsFileTest, AMisplacedNumberThatMakesNoSenseIsANoteAndWhatStandsBesideItHolds) {
  const LoadedSettings loaded = parse(R"({"execution": {"max_batch_io_size": 131072, "allow_compat_mode": false}})");

  EXPECT_FALSE(loaded.must_refuse);
  EXPECT_EQ(loaded.settings.number("properties.io_batchsize"), 128);
  EXPECT_FALSE(loaded.settings.is_on("properties.allow_compat_mode"));
}

TEST(SettingsFileTest, AMisspeltProhibitionIsAnErrorThatNamesTheKey) {
  for (const char* name : {"allow_compat_mod", "allow-compat-mode", "allowCompatMode", "ALLOW_COMPAT_MODE",
                           "alow_compat_mode", "_allow_compat_mode", "allow_compatibility_mode", "compat_mode"}) {
    const std::string key = "{\"" + std::string(name) + "\": false}";
    expect_refusal("{\"properties\": " + key + "}", "did you mean \"allow_compat_mode\" (section \"properties\")?");
    expect_refusal("{\"execution\": " + key + "}", "did you mean \"allow_compat_mode\"");
    expect_refusal("{\"propertees\": {\"more\": " + key + "}}", "did you mean \"allow_compat_mode\"");
    expect_refusal(key, "did you mean \"allow_compat_mode\"");
  }
  expect_refusal(R"({"properties": {"force_compatmode": true}})", "did you mean \"force_compat_mode\"");
  expect_refusal(R"({"properties": {"allow_sys_memory": false}})", "did you mean \"allow_system_memory\"");
  expect_refusal(R"({"denylist": {"mount": ["/data"]}})", "did you mean \"mounts\" (section \"denylist\")?");
  expect_refusal(R"({"denylst": {"mounts": ["/data"]}})", "did you mean \"mounts\" (section \"denylist\")?");
  expect_refusal(R"({"blocklist": {"filesystems": ["nfs"]}})", "did you mean \"filesystems\"");
}

TEST(SettingsFileTest, AMisspeltKeyThatForbidsNothingIsANoteThatNamesIt) {
  const LoadedSettings loaded = parse(R"({"properties": {"max_device_cache_size": 134217728}})");

  EXPECT_FALSE(loaded.must_refuse);
  EXPECT_EQ(notes_of(loaded, ""),
            "1 note is not a key of cuFile's configuration; did you mean \"max_device_cache_size_kb\" (section "
            "\"properties\")?\n");
}

TEST(SettingsFileTest, AKeyWithTheWordsOfAnotherIsTakenForIt) {
  const auto note_of = [](const char* key) {
    const LoadedSettings loaded = parse(std::string(R"({"properties": {")") + key + R"(": 64}})");
    return loaded.notes.empty() ? "" : loaded.notes.front().sentence;
  };
  EXPECT_NE(note_of("max_pinned_memory_size").find("did you mean \"max_device_pinned_mem_size_kb\""),
            std::string::npos);
  EXPECT_EQ(note_of("max_pinned_colour_size"), "is not a key of cuFile's configuration");
  EXPECT_EQ(note_of("size_max_pinned"), "is not a key of cuFile's configuration");
}

TEST(SettingsFileTest, AProhibitionThatIsContradictedIsAnErrorInWhateverOrder) {
  for (const char* text : {R"({"properties": {"allow_compat_mode": false}, "execution": {"allow_compat_mode": true}})",
                           R"({"execution": {"allow_compat_mode": true}, "properties": {"allow_compat_mode": false}})",
                           R"({"properties": {"allow_compat_mode": true, "use_compat_mode": false}})",
                           R"({"properties": {"allow_compat_mode": false, "allow_compat_mode": true}})",
                           R"({"denylist": {"mounts": ["/data"]}, "blacklist": {"mounts": []}})"}) {
    expect_refusal(text, "contradicts line 1; say it once");
  }
}

TEST(SettingsFileTest, OfAKeyInItsOwnSectionAndInAnotherItsOwnCounts) {
  for (const char* text : {R"({"properties": {"io_batchsize": 16}, "execution": {"io_batchsize": 32}})",
                           R"({"execution": {"io_batchsize": 32}, "properties": {"io_batchsize": 16}})"}) {
    const LoadedSettings loaded = parse(text);
    EXPECT_FALSE(loaded.must_refuse) << text;
    EXPECT_EQ(loaded.settings.number("properties.io_batchsize"), 16) << text;
    EXPECT_EQ(loaded.notes.size(), 2u) << notes_of(loaded, "");
  }
  const LoadedSettings same =
      parse(R"({"properties": {"allow_compat_mode": false}, "execution": {"allow_compat_mode": false}})");
  EXPECT_FALSE(same.must_refuse);
  EXPECT_FALSE(same.settings.is_on("properties.allow_compat_mode"));
}

TEST(SettingsFileTest, WhatProtectsNothingIsANoteAndTheDefaultHolds) {
  const LoadedSettings loaded = parse(R"({
    "logging": {"level": "LOUD", "dir": {"is": "a table"}},
    "properties": {"use_poll_mode": "yes", "poll_mode_max_size_kb": 6, "io_priority": "urgent"}
  })");

  EXPECT_FALSE(loaded.must_refuse);
  EXPECT_EQ(loaded.notes.size(), 5u);
  EXPECT_EQ(loaded.settings.text("logging.dir"), "");
  EXPECT_EQ(loaded.settings.text("logging.level"), "ERROR");
  EXPECT_EQ(loaded.settings.number("properties.poll_mode_max_size_kb"), 4);
  EXPECT_EQ(notes_of(loaded, "properties.poll_mode_max_size_kb"), "3 note 6 is not a multiple of 4\n");
  EXPECT_EQ(notes_of(loaded, "logging.level"),
            "2 note must be NOTICE, ERROR, WARN, INFO, DEBUG or TRACE; it is \"LOUD\"\n");
}

TEST(SettingsFileTest, AValueOfAnotherKindIsToldAsTheFileHasIt) {
  const LoadedSettings loaded = parse(R"({
    "denylist": {"mounts": ["/a", 5, null]},
    "properties": {"allow_compat_mode": 1.5, "io_batchsize": {"a": 1}, "max_direct_io_size_kb": "64\u001b"}
  })");

  EXPECT_EQ(notes_of(loaded, "denylist.mounts"), "2 error must be a list of texts; it is [\"/a\", 5, null]\n");
  EXPECT_EQ(notes_of(loaded, "properties.allow_compat_mode"), "3 error must be true or false; it is 1.5\n");
  EXPECT_EQ(notes_of(loaded, "properties.io_batchsize"), "3 error must be a number, 1 to 256; it is { ... }\n");
  EXPECT_NE(notes_of(loaded, "properties.max_direct_io_size_kb").find("; it is \"64\\x1b\"\n"), std::string::npos);
}

TEST(SettingsFileTest, AKeyWithoutEffectIsToldWithItsLineWhereItAsksForSomething) {
  const LoadedSettings loaded = parse(R"({"properties": {
    "posix_pool_slab_count": [128, 64, 64],
    "use_poll_mode": true
  }})");

  ASSERT_EQ(loaded.notes.size(), 1u);
  EXPECT_EQ(loaded.notes[0].severity, Severity::idle);
  EXPECT_EQ(loaded.notes[0].key, "properties.use_poll_mode");
  EXPECT_EQ(loaded.notes[0].line, 3);
}

TEST(SettingsFileTest, ANumberOutOfRangeThatMattersIsAnError) {
  const LoadedSettings loaded = parse(R"({
    "properties": {"io_batchsize": 257, "max_direct_io_size_kb": 65, "max_device_pinned_mem_size_kb": 0}
  })");

  EXPECT_TRUE(loaded.must_refuse);
  EXPECT_EQ(loaded.settings.number("properties.io_batchsize"), 128);
  EXPECT_EQ(notes_of(loaded, "properties.io_batchsize"), "2 error 257 is out of range: 1 to 256 entries, not bytes\n");
  EXPECT_EQ(notes_of(loaded, "properties.max_direct_io_size_kb"), "2 error 65 is not a multiple of 64\n");
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
  EXPECT_EQ(describe({Severity::idle, "CUFILE_IB_SL", 0, "", "there is no RDMA"}),
            "CUFILE_IB_SL: without effect: there is no RDMA");
}

TEST(SettingsTest, StagingOneKeyTwiceKeepsTheLater) {
  PendingValues pending;

  set_pending(pending, "properties.io_batchsize", std::int64_t{8});
  set_pending(pending, "properties.use_poll_mode", true);
  set_pending(pending, "properties.io_batchsize", std::int64_t{9});

  ASSERT_EQ(pending.size(), 2u);
  EXPECT_EQ(std::get<std::int64_t>(pending[0].value), 9);
}

}  // namespace
}  // namespace penstock::core
