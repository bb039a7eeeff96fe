// SPDX-License-Identifier: Apache-2.0

#include "tools/doctor/meter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tools/common/context.h"
#include "tools/common/failure.h"

namespace penstock::tools {
namespace {

TEST(DoctorMemory, IsADevicesForTheSessionThatReadsIntoIt) {
  setenv("PENSTOCK_DEVICE", "host", 1);
  const Session first = open_session({}), second = open_session({});
  const core::UniqueFd fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const File file = require(second.file(fd.get()), "file");

  const Arena own = memory_of(&second, first, Into::device, 0), other = memory_of(nullptr, first, Into::device, 0);

  EXPECT_EQ(file.read(own.data(), 4096, 0).report.path, PENSTOCK_PATH_BOUNCE);
  EXPECT_EQ(file.read(other.data(), 4096, 0).report.path, PENSTOCK_PATH_HOST);
}

}  // namespace
}  // namespace penstock::tools
