// SPDX-License-Identifier: Apache-2.0

#include "topology/nvidia_fs_version.h"

#include <gtest/gtest.h>

namespace penstock::core {
namespace {

TEST(NvidiaFsVersionTest, IsReadAsTheModuleWritesItAndNothingElseIs) {
  EXPECT_EQ(parse_nvidia_fs_version("2.28.4"), (NvidiaFsVersion{2, 28, 4}));
  EXPECT_EQ(parse_nvidia_fs_version(" 2.28\n"), (NvidiaFsVersion{2, 28, 0}));
  EXPECT_EQ(parse_nvidia_fs_version("0.1.0\n"), (NvidiaFsVersion{0, 1, 0}));
  for (const char* text : {"", "2", "2.", "x.1", "2.x", "-2.1", "2.1000", "99999999999999999999.1", "\n2.1"}) {
    EXPECT_EQ(parse_nvidia_fs_version(text), std::nullopt) << text;
  }
}

TEST(NvidiaFsVersionTest, OnlyVersionsWhoseInterfaceIsKnownAreCalled) {
  const std::pair<NvidiaFsVersion, NvidiaFsStanding> cases[] = {
      {{2, 28, 4}, NvidiaFsStanding::known},   {{2, 25, 7}, NvidiaFsStanding::known},
      {{2, 17, 5}, NvidiaFsStanding::aged},    {{2, 25, 6}, NvidiaFsStanding::unknown},
      {{3, 0, 1}, NvidiaFsStanding::unknown},  {{1, 9, 0}, NvidiaFsStanding::unknown},
      {{0, 1, 0}, NvidiaFsStanding::stand_in},
  };
  for (const auto& [version, standing] : cases) {
    EXPECT_EQ(standing_of(version), standing) << version.major << '.' << version.minor << '.' << version.patch;
  }
  EXPECT_EQ(number_of({2, 25, 6}), 2'025'006);
}

}  // namespace
}  // namespace penstock::core
