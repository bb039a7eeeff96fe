// SPDX-License-Identifier: Apache-2.0

#include "session/config.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fakes/fake_environment.h"
#include "fakes/test_config.h"
#include "settings/words.h"

namespace penstock::core {
namespace {

class ConfigTest : public testing::Test {
 protected:
  void SetUp() override { variables.clear(); }
  static Config make(SaidByName said = {}) { return test_config(said, test_environment); }
};

TEST_F(ConfigTest, DefaultsAreBounded) {
  const Config config = make();

  EXPECT_EQ(config.bounce_bytes, 256u << 20);
  EXPECT_GE(config.workers, 1u);
  EXPECT_LE(config.workers, 8u);
  std::vector<PathId> moving;
  for (const PathRow& row : kPaths) {
    if (row.traits.by_default()) moving.push_back(row.id);
  }
  EXPECT_EQ(config.paths, moving);
  EXPECT_FALSE(config.paths_said);
  EXPECT_FALSE(config.require.has_value());
  EXPECT_TRUE(config.devices.empty());
}

TEST_F(ConfigTest, TheEnvironmentOverridesDefaultsAndTheCallerOverridesBoth) {
  variables = {{"PENSTOCK_BOUNCE_MIB", "32"},  {"PENSTOCK_WORKERS", "3"},       {"PENSTOCK_PATHS", "bounce,host"},
               {"PENSTOCK_REQUIRE", "bounce"}, {"PENSTOCK_DIRECT_IO", "never"}, {"PENSTOCK_IO_URING", "off"},
               {"PENSTOCK_DEVICE", "host"},    {"PENSTOCK_CHUNK_KIB", "1024"}};

  const Config config = make({{"workers", "5"}, {"require", ""}});

  EXPECT_EQ(config.bounce_bytes, 32u << 20);
  EXPECT_EQ(config.chunk_bytes, 1u << 20);
  EXPECT_EQ(config.workers, 5u);
  EXPECT_EQ(config.paths, (std::vector{PathId::bounce, PathId::host}));
  EXPECT_TRUE(config.paths_said);
  EXPECT_FALSE(config.require.has_value());
  EXPECT_EQ(config.direct_io, DirectIo::never);
  EXPECT_FALSE(config.io_uring);
  ASSERT_EQ(config.devices.size(), 1u);
  EXPECT_STREQ(config.devices[0]->name, "host");
  ASSERT_EQ(make({{"device", "p2pmem,cuda"}}).devices.size(), 2u);
  EXPECT_STREQ(make({{"device", "p2pmem,cuda"}}).devices[0]->name, "p2pmem");
  EXPECT_TRUE(make({{"device", "auto"}}).devices.empty());
}

TEST_F(ConfigTest, AutoOverAListOfPathsIsWhatSayingNothingIs) {
  const Config unsaid = make();
  variables = {{"PENSTOCK_PATHS", "bounce,host"}};

  const Config config = make({{"paths", "auto"}});

  EXPECT_EQ(config.paths, unsaid.paths);
  EXPECT_FALSE(config.paths_said);
  const Config of_one = make({{"paths", "host"}});
  EXPECT_EQ(of_one.paths, std::vector{PathId::host});
  EXPECT_TRUE(of_one.paths_said);
}

TEST_F(ConfigTest, APolicyDecidesWhatCpuTimeIsWorth) {
  struct Row {
    const char* policy;
    double engine, paths;
  };
  for (const Row& row : {Row{"throughput", 0.02, 0}, {"balanced", 0.1, 0.1}, {"cpu", 4, 4}}) {
    const Config config = make({{"policy", row.policy}});
    EXPECT_EQ(engine_rules(config).cpu_weight, row.engine) << row.policy;
    EXPECT_STREQ(engine_rules(config).policy, row.policy);
    EXPECT_EQ(path_settings(config).cpu_weight, row.paths) << row.policy;
  }
}

TEST_F(ConfigTest, EveryWordThatTheTableTakesMeansSomething) {
  for (const SettingRow& row : kPenstockRows) {
    any_word(row.words, [&](std::string_view word) {
      (void)make({{row.key.substr(kOwnSection.size()), word}});  // Aborts if a word of the table has no meaning.
      return false;
    });
  }
  EXPECT_EQ(make({{"direct_io", "always"}}).direct_io, DirectIo::always);
  EXPECT_EQ(make({{"policy", "cpu"}}).policy, Policy::cpu);
  EXPECT_EQ(make({{"vendor", "force"}}).vendor, VendorUse::force);
  EXPECT_TRUE(make({{"nvidia_export", "on"}}).nvidia_export);
  EXPECT_EQ(make({{"registration_cache_mib", "3"}}).registration_cache_bytes, 3u << 20);
  EXPECT_EQ(make({{"require", "null"}}).require, PathId::null);
}

}  // namespace
}  // namespace penstock::core
