// SPDX-License-Identifier: Apache-2.0

#include "device/providers.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "device/host/host_device.h"

namespace penstock::core {
namespace {

using Opened = Result<std::unique_ptr<DeviceSet>>;

Opened open_two(const DeviceTerms& terms, std::string&) {
  return std::unique_ptr<DeviceSet>(std::make_unique<HostDeviceSet>(terms));
}
Opened open_none(const DeviceTerms&, std::string& why_not) {
  why_not = "the toy's driver is not there";
  return failure(Code::no_device, "open the toy");
}
bool never(const DeviceTerms&) { return false; }
bool where_told(const DeviceTerms& terms) { return terms.export_memory; }

// Each has two devices, except the missing one.
constexpr Provider kToys[] = {
    {.name = "toy", .what = "toys", .unasked = Unasked::opened, .may_map_memory = where_told, .open = open_two},
    {.name = "missing", .what = "no toys", .unasked = Unasked::opened, .may_map_memory = never, .open = open_none},
    {.name = "double",
     .what = "what stands in",
     .unasked = Unasked::stand_in,
     .may_map_memory = never,
     .open = open_two},
    {.name = "shy", .what = "what is shy", .may_map_memory = never, .open = open_two},
};
const Provider& kToy = kToys[0];
const Provider& kMissing = kToys[1];
const Provider& kShy = kToys[3];

OpenedDevices open(const ProviderList& wanted, std::span<const Provider> all = kToys) {
  Result<OpenedDevices> opened = open_devices(wanted, false, all);
  EXPECT_TRUE(opened.ok()) << describe(opened.status());
  return opened.ok() ? std::move(*opened) : OpenedDevices{};
}

TEST(ProvidersTest, NamesAndDriversAreUniqueAndEveryRowIsWhole) {
  std::set<std::string> names;
  std::set<int> drivers;
  for (const Provider& provider : providers()) {
    EXPECT_TRUE(names.insert(provider.name).second) << provider.name;
    EXPECT_STRNE(provider.name, "auto");
    EXPECT_EQ(std::string(provider.name).find(','), std::string::npos);
    EXPECT_LT(std::string(provider.name).size(), 16u) << "penstock_device_info has no room for more";
    EXPECT_NE(provider.what[0], '\0');
    ASSERT_NE(provider.open, nullptr);
    ASSERT_NE(provider.may_map_memory, nullptr);
    if (provider.driver == Provider::kNoDriver) continue;
    EXPECT_TRUE(drivers.insert(provider.driver).second) << provider.name;
    EXPECT_TRUE(provider.driver >= 0 && provider.driver <= UINT8_MAX);
    EXPECT_STREQ(driver_of(driver_failure(static_cast<std::uint8_t>(provider.driver), 1, "")), provider.name);
  }
}

TEST(ProvidersTest, OnlyADriversNumberIsADrivers) {
  EXPECT_STREQ(driver_of(failure(Code::no_device, "look")), "");
  EXPECT_STREQ(driver_of(os_failure(5, "look")), "");
  EXPECT_STREQ(driver_of(driver_failure(UINT8_MAX, 5, "look")), "");
}

TEST(ProvidersTest, EachIsFoundByItsNameAlone) {
  for (const Provider& provider : providers()) EXPECT_EQ(provider_named(provider.name), &provider);
  for (const char* const name : {"", "auto", "gpu", "CUDA", "cud", "cuda,host"}) {
    EXPECT_EQ(provider_named(name), nullptr) << name;
  }
}

TEST(ProvidersTest, WhatIsAskedForIsOpenedInThatOrderWithOrdinalsOfItsOwn) {
  const OpenedDevices opened = open({&kShy, &kToy});
  EXPECT_EQ(opened.kinds, "shy,toy");
  ASSERT_EQ(opened.devices->count(), 4u);
  for (unsigned i = 0; i < 4; ++i) {
    const DeviceFacts& facts = (*opened.devices->device(i))->facts();
    EXPECT_EQ(facts.ordinal, static_cast<int>(i));
    EXPECT_STREQ(facts.kind, i < 2 ? "shy" : "toy");
  }
  EXPECT_EQ(opened.why_no_gpu, "");
}

TEST(ProvidersTest, UnaskedThoseAreOpenedThatThereAre) {
  const OpenedDevices opened = open({});
  EXPECT_EQ(opened.kinds, "toy");
  EXPECT_EQ(opened.why_no_gpu, "");
}

TEST(ProvidersTest, UnaskedTheStandInIsOpenedWhereNothingElseIs) {
  const OpenedDevices opened = open({}, std::span(kToys).subspan(1));
  EXPECT_EQ(opened.kinds, "double");
  EXPECT_EQ(opened.devices->count(), 2u);
  EXPECT_EQ(opened.why_no_gpu, "the toy's driver is not there");
}

TEST(ProvidersTest, WithoutAnyDeviceThereIsNoSession) {
  EXPECT_TRUE(open_devices({}, false, std::span(kToys).subspan(1, 1)).status().is(Code::no_device));
}

TEST(ProvidersTest, WhatIsAskedForAndNotThereIsAFailure) {
  EXPECT_TRUE(open_devices({&kToy, &kMissing}, false, kToys).status().is(Code::no_device));
}

TEST(ProvidersTest, WhoAsksForOtherDevicesIsToldThatTheyDid) {
  EXPECT_EQ(open({&kShy}).why_no_gpu, "the configuration asks for what is shy");
}

// A session with one provider calls its devices directly, without a wrapper.
TEST(ProvidersTest, ASingleProvidersSetIsGivenAsItIs) {
  static DeviceSet* made = nullptr;
  const Provider only{.name = "only",
                      .what = "one",
                      .may_map_memory = never,
                      .open = [](const DeviceTerms& terms, std::string&) -> Opened {
                        auto set = std::make_unique<HostDeviceSet>(terms);
                        made = set.get();
                        return std::unique_ptr<DeviceSet>(std::move(set));
                      }};
  EXPECT_EQ(open({&only}).devices.get(), made);
}

TEST(ProvidersTest, MemoryMayBeMappedWhereOneOfTheProvidersSaysSo) {
  const Provider *const cuda = provider_named("cuda"), *const host = provider_named("host");
  EXPECT_TRUE(may_map_memory({host, provider_named("p2pmem")}, false));
  EXPECT_FALSE(may_map_memory({cuda, host}, false));
  EXPECT_TRUE(may_map_memory({cuda, host}, true));
  EXPECT_FALSE(may_map_memory({}, false));
  EXPECT_TRUE(may_map_memory({}, true));
}

}  // namespace
}  // namespace penstock::core
