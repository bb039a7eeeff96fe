// SPDX-License-Identifier: Apache-2.0

#include "session/config.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fakes/fake_environment.h"

namespace penstock::core {
namespace {

class ConfigTest : public testing::Test {
 protected:
  void SetUp() override { variables.clear(); }
  Result<Config> make(const ConfigWishes& wishes = {}) { return make_config(wishes, test_environment); }
};

TEST_F(ConfigTest, DefaultsAreBounded) {
  const Config config = *make();

  EXPECT_EQ(config.bounce_bytes, 256u << 20);
  EXPECT_GE(config.workers, 1u);
  EXPECT_LE(config.workers, 8u);
  EXPECT_EQ(config.paths,
            (std::vector{PathId::p2pdma, PathId::pagecache, PathId::vendor, PathId::bounce, PathId::host}));
  EXPECT_FALSE(config.require.has_value());
}

TEST_F(ConfigTest, TheEnvironmentOverridesDefaultsAndTheCallerOverridesBoth) {
  variables = {{"PENSTOCK_RING_MIB", "32"},    {"PENSTOCK_WORKERS", "3"},       {"PENSTOCK_PATHS", "bounce,host"},
               {"PENSTOCK_REQUIRE", "bounce"}, {"PENSTOCK_DIRECT_IO", "never"}, {"PENSTOCK_IO_URING", "off"},
               {"PENSTOCK_DEVICE", "host"},    {"PENSTOCK_CHUNK_KIB", "1024"}};

  const Config config = *make({.workers = 5, .require = ""});

  EXPECT_EQ(config.bounce_bytes, 32u << 20);
  EXPECT_EQ(config.chunk_bytes, 1u << 20);
  EXPECT_EQ(config.workers, 5u);
  EXPECT_EQ(config.paths, (std::vector{PathId::bounce, PathId::host}));
  EXPECT_FALSE(config.require.has_value());
  EXPECT_EQ(config.direct_io, DirectIo::never);
  EXPECT_FALSE(config.io_uring);
  ASSERT_EQ(config.devices.size(), 1u);
  EXPECT_STREQ(config.devices[0]->name, "host");
}

TEST_F(ConfigTest, AVariableThatIsNearlyCalledRequireIsAnError) {
  for (const char* const wrong : {"PENSTOCK_REQUIR=p2pdma", "PENSTOCK_REQUIRED=p2pdma", "PENSTOCK_REQIURE=p2pdma"}) {
    const char* const variables_of_process[] = {"HOME=/", wrong, nullptr};

    const Status status = check_variables(variables_of_process);

    EXPECT_TRUE(status.is(Code::bad_setting)) << wrong;
    EXPECT_NE(describe(status).find("PENSTOCK_REQUIRE"), std::string::npos);
  }
}

TEST_F(ConfigTest, OtherVariablesAreNoneOfOurs) {
  const char* const others[] = {"PENSTOCK_REQUIRE=p2pdma", "PENSTOCK_PATH=/opt/penstock",
                                "REQUIRE=p2pdma",          "PENSTOCK_",
                                "PENSTOCK_TESTS=on",       nullptr};

  EXPECT_TRUE(check_variables(others).ok());
}

TEST_F(ConfigTest, AValueThatMakesNoSenseIsAnErrorThatNamesIt) {
  const std::pair<const char*, const char*> bad[] = {
      {"PENSTOCK_RING_MIB", "many"}, {"PENSTOCK_RING_MIB", "0"},
      {"PENSTOCK_RING_MIB", "-1"},   {"PENSTOCK_RING_MIB", "99999999999999999999"},
      {"PENSTOCK_RING_MIB", "12 "},  {"PENSTOCK_CHUNK_KIB", "1"},
      {"PENSTOCK_WORKERS", "0"},     {"PENSTOCK_WORKERS", "1000000"},
      {"PENSTOCK_DEVICE", "gpu"},    {"PENSTOCK_PATHS", ""},
      {"PENSTOCK_PATHS", "bounce,"}, {"PENSTOCK_PATHS", "bounce,bounce"},
      {"PENSTOCK_PATHS", "fastest"}, {"PENSTOCK_REQUIRE", "fastest"},
      {"PENSTOCK_DIRECT_IO", "yes"}, {"PENSTOCK_IO_URING", "maybe"},
  };
  for (const auto& [name, value] : bad) {
    variables = {{name, value}};
    const Result<Config> config = make();
    ASSERT_FALSE(config.ok()) << name << "=" << value;
    EXPECT_TRUE(config.status().is(Code::bad_setting));
    EXPECT_NE(describe(config.status()).find(name), std::string::npos) << describe(config.status());
  }
}

TEST_F(ConfigTest, NvidiasLibraryIsNamedByAnAbsolutePathAndUsedAsItIsSaid) {
  EXPECT_EQ(make()->vendor, VendorUse::automatic);
  EXPECT_EQ(make()->vendor_library, "");
  const std::pair<const char*, VendorUse> uses[] = {
      {"auto", VendorUse::automatic}, {"force", VendorUse::force}, {"off", VendorUse::off}};
  for (const auto& [word, use] : uses) {
    variables = {{"PENSTOCK_VENDOR", word}, {"PENSTOCK_VENDOR_LIBRARY", ""}};
    EXPECT_EQ(make()->vendor, use);
    EXPECT_EQ(make()->vendor_library, "");
  }
  variables = {{"PENSTOCK_VENDOR_LIBRARY", "/opt/cuda/libcufile.so.0"}, {"PENSTOCK_PATHS", "vendor,bounce"}};
  const Config config = *make();
  EXPECT_EQ(config.vendor_library, "/opt/cuda/libcufile.so.0");
  EXPECT_EQ(config.paths, (std::vector{PathId::vendor, PathId::bounce}));
  // A name alone would find ours.
  for (const auto& [name, value] : {std::pair("PENSTOCK_VENDOR_LIBRARY", "libcufile.so.0"),
                                    std::pair("PENSTOCK_VENDOR_LIBRARY", "./libcufile.so.0"),
                                    std::pair("PENSTOCK_VENDOR", "on"), std::pair("PENSTOCK_VENDOR", "")}) {
    variables = {{name, value}};
    ASSERT_FALSE(make().ok()) << name << "=" << value;
    EXPECT_NE(describe(make().status()).find(name), std::string::npos);
  }
}

}  // namespace
}  // namespace penstock::core
