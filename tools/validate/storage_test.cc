// SPDX-License-Identifier: Apache-2.0

// What the built `penstock validate` says of drivers that nvidia-fs lists.
#include "tools/validate/validate_world.h"

namespace penstock::tools {
namespace {

// nvidia-fs lists WekaFS's name whether anybody has registered or not, and others' only while it is open.
TEST_F(Validate, ANameThatIsAlwaysListedServesItsOwnFileSystemAlone) {
  const auto state_on = [&](const char* machine, const char* row) {
    return state_of(rows_of(machine_report(std::string(PENSTOCK_MACHINES) + machine)), row);
  };
  EXPECT_EQ(state_on("weka-unmounted", "path vendor"), "fail");
  EXPECT_EQ(state_on("weka-alone", "path vendor"), "pass");
  EXPECT_EQ(state_on("weka-alone", "path nvfs"), "not_applicable") << "WEKA's client has no hook for it";
  EXPECT_EQ(state_on("weka-alone", "storage /weka"), "pass");
  EXPECT_EQ(state_on("weka-alone", "storage /data/0"), "not_applicable");
  EXPECT_EQ(state_on("nvidia-fs-idle", "path vendor"), "unknown");
  EXPECT_EQ(state_on("nvidia-fs-idle", "storage /data/0"), "pass");
}

}  // namespace
}  // namespace penstock::tools
