// SPDX-License-Identifier: Apache-2.0

// Settings as a session of penstock.h gets them: by name and from the environment.
#include <gtest/gtest.h>

#include <string>

#include "fakes/fake_environment.h"
#include "settings/settings.h"

namespace penstock::core {
namespace {

class SessionSettingsTest : public testing::Test {
 protected:
  void SetUp() override { variables.clear(); }
  static LoadedSettings load(const PendingValues& pending = {}, const char* const* all = nullptr) {
    return load_session_settings(test_environment, pending, all);
  }
  static std::string refusal(const PendingValues& pending = {}, const char* const* all = nullptr) {
    const LoadedSettings loaded = load(pending, all);
    return loaded.must_refuse ? describe(refusal_of(loaded)) : "";
  }
  static std::string staging(std::string_view name, std::string_view value) {
    PendingValues pending;
    const Status status = set_pending_named(pending, name, value);
    EXPECT_EQ(pending.empty(), !status.ok());
    EXPECT_TRUE(status.ok() || status.is(Code::bad_setting));
    return describe(status);
  }
};

TEST_F(SessionSettingsTest, ACallComesBeforeTheEnvironmentAndThatBeforeTheDefault) {
  variables = {{"PENSTOCK_BOUNCE_MIB", "32"}, {"PENSTOCK_POLICY", "cpu"}, {"CUFILE_ALLOW_COMPAT_MODE", "false"}};
  PendingValues pending;
  ASSERT_TRUE(set_pending_named(pending, "bounce_mib", "64").ok());

  const Settings settings = load(pending).settings;

  EXPECT_EQ(settings.number("penstock.bounce_mib"), 64);
  EXPECT_STREQ(origin_name(settings.origin("penstock.bounce_mib")), "call");
  EXPECT_EQ(settings.text("penstock.policy"), "cpu");
  EXPECT_STREQ(origin_name(settings.origin("penstock.policy")), "environment");
  EXPECT_EQ(settings.number("penstock.chunk_kib"), 4096);
  EXPECT_STREQ(origin_name(settings.origin("penstock.chunk_kib")), "default");
  EXPECT_TRUE(settings.is_on("properties.allow_compat_mode"));  // A session ignores cuFile's keys.
}

TEST_F(SessionSettingsTest, MoreThreadsAreWorthItWhereCpuTimeDoesNotCount) {
  EXPECT_EQ(workers_for(1, false), 1u);
  EXPECT_EQ(workers_for(1, true), 1u);
  EXPECT_EQ(workers_for(12, false), 8u);
  EXPECT_EQ(workers_for(12, true), 12u);
  EXPECT_EQ(workers_for(64, true), 16u);
}

TEST_F(SessionSettingsTest, WhatTheMachineDecidesIsFoundOutUnlessSomebodySaysIt) {
  Settings settings = load().settings;
  EXPECT_GE(settings.number("penstock.workers"), 1);
  EXPECT_LE(settings.number("penstock.workers"), 8);
  EXPECT_GT(settings.number("penstock.registration_cache_mib"), 0);
  EXPECT_FALSE(settings.was_set("penstock.workers"));

  variables = {{"PENSTOCK_WORKERS", "100"}, {"PENSTOCK_REGISTRATION_CACHE_MIB", "0"}};

  settings = load().settings;
  EXPECT_EQ(settings.number("penstock.workers"), 100);
  EXPECT_EQ(settings.number("penstock.registration_cache_mib"), 0);
}

TEST_F(SessionSettingsTest, AValueThatMakesNoSenseIsAnErrorThatNamesItAndWhatWasExpected) {
  variables = {{"PENSTOCK_REGISTRATION_CACHE_MIB", "abc"}};
  EXPECT_EQ(refusal(), "could not use PENSTOCK_REGISTRATION_CACHE_MIB=abc: expected a number of MiB, 0 to 16777216");
  EXPECT_EQ(staging("bounce_mib", "abc"), "could not use bounce_mib=abc: expected a number of MiB, 1 to 65536");
  const std::pair<const char*, const char*> bad[] = {
      {"PENSTOCK_BOUNCE_MIB", "many"}, {"PENSTOCK_BOUNCE_MIB", "0"},
      {"PENSTOCK_BOUNCE_MIB", "-1"},   {"PENSTOCK_BOUNCE_MIB", "99999999999999999999"},
      {"PENSTOCK_BOUNCE_MIB", "12 "},  {"PENSTOCK_CHUNK_KIB", "1"},
      {"PENSTOCK_CHUNK_KIB", "100"},   {"PENSTOCK_WORKERS", "0"},
      {"PENSTOCK_WORKERS", "1000000"}, {"PENSTOCK_DEVICE", "gpu"},
      {"PENSTOCK_PATHS", "fastest"},   {"PENSTOCK_PATHS", "bounce,bounce"},
      {"PENSTOCK_REQUIRE", "fastest"}, {"PENSTOCK_DIRECT_IO", "yes"},
      {"PENSTOCK_IO_URING", "maybe"},  {"PENSTOCK_VENDOR_LIBRARY", "libcufile.so.0"},
      {"PENSTOCK_VENDOR", "on"},
  };
  for (const auto& [name, value] : bad) {
    variables = {{name, value}};
    const std::string begin = std::string("could not use ") + name + "=" + value + ": expected ";
    EXPECT_EQ(refusal().substr(0, begin.size()), begin);
  }
}

TEST_F(SessionSettingsTest, AnEmptyVariableIsNotSetAndAnEmptyTextOfACallIsOne) {
  variables = {{"PENSTOCK_PATHS", ""}, {"PENSTOCK_VENDOR", ""}, {"PENSTOCK_WORKERS", ""}, {"PENSTOCK_REQUIRE", "host"}};
  PendingValues pending;
  ASSERT_TRUE(set_pending_named(pending, "require", "").ok());

  const LoadedSettings loaded = load(pending);

  EXPECT_FALSE(loaded.must_refuse);
  EXPECT_EQ(loaded.settings.text("penstock.require"), "");
  EXPECT_FALSE(loaded.settings.was_set("penstock.paths"));
  EXPECT_EQ(staging("workers", ""), "could not use workers=: expected a number, 1 to 256");
}

TEST_F(SessionSettingsTest, AnUnknownNameIsAnErrorThatProposesTheNearOne) {
  EXPECT_EQ(staging("bounc_mib", "3"), "could not use bounc_mib: no setting has this name; did you mean bounce_mib?");
  EXPECT_EQ(staging("frobnicate", "3"), "could not use frobnicate: no setting has this name");
  for (const char* name :
       {"", "penstock.paths", "PENSTOCK_PATHS", "properties.allow_compat_mode", "allow_compat_mode"}) {
    EXPECT_NE(staging(name, "3"), "success") << name;
  }
}

TEST_F(SessionSettingsTest, AHostileValueReachesNoTerminal) {
  const std::string message = staging("bounce_mib", "\x1b]0;title\x07\n" + std::string(10000, 'x'));

  EXPECT_EQ(message.find_first_of("\x1b\x07\n"), std::string::npos);
  EXPECT_NE(message.find("bounce_mib=\\x1b]0;title"), std::string::npos) << message;
  EXPECT_NE(message.find("...: expected a number of MiB, 1 to 65536"), std::string::npos) << message;
  EXPECT_EQ(staging(std::string(100000, '\x1b'), "x").find('\x1b'), std::string::npos);
}

TEST_F(SessionSettingsTest, AVariableThatIsNearlyAProhibitionAndHasAValueOfItsIsAnError) {
  for (const auto& [entry, meant] : {std::pair("PENSTOCK_REQUIR=p2pdma", "PENSTOCK_REQUIRE"),
                                     {"PENSTOCK_REQUIRED=p2pdma", "PENSTOCK_REQUIRE"},
                                     {"PENSTOCK_REQIURE=p2pdma", "PENSTOCK_REQUIRE"},
                                     {"PENSTOCK_PATH=bounce,host", "PENSTOCK_PATHS"},
                                     {"PENSTOCK_DIRECTIO=always", "PENSTOCK_DIRECT_IO"}}) {
    const char* const all[] = {"HOME=/", entry, nullptr};
    EXPECT_NE(refusal({}, all).find(std::string("did you mean ") + meant + "?"), std::string::npos) << entry;
  }
}

TEST_F(SessionSettingsTest, OthersVariablesOfThatBeginningKeepNoSessionClosed) {
  const char* const others[] = {"PENSTOCK_REQUIRE=p2pdma",
                                "PENSTOCK_PATH=/opt/penstock",
                                "PENSTOCK_LIBRARY=/opt/penstock/lib/libpenstock.so",
                                "REQUIRE=p2pdma",
                                "PENSTOCK_",
                                "PENSTOCK_TESTS=on",
                                "CUFILE_ALLOW_COMPAT_MOD=false",
                                nullptr};

  EXPECT_EQ(refusal({}, others), "");
}

TEST_F(SessionSettingsTest, AVariableThatHasAnotherNameNowIsTold) {
  const char* const all[] = {"PENSTOCK_RING_MIB=64", "PENSTOCK_KEPT_MIB=0", nullptr};

  const LoadedSettings loaded = load({}, all);

  EXPECT_FALSE(loaded.must_refuse);
  ASSERT_EQ(loaded.notes.size(), 2u);
  EXPECT_EQ(describe(loaded.notes[0]),
            "PENSTOCK_RING_MIB: note: is not a variable of Penstock; did you mean PENSTOCK_BOUNCE_MIB?");
  EXPECT_EQ(describe(loaded.notes[1]),
            "PENSTOCK_KEPT_MIB: note: is not a variable of Penstock; did you mean PENSTOCK_REGISTRATION_CACHE_MIB?");
}

}  // namespace
}  // namespace penstock::core
