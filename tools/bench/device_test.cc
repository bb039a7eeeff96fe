// SPDX-License-Identifier: Apache-2.0

// The built `penstock bench` and block devices.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"
#include "fakes/tool_fixture.h"

namespace penstock::tools {
namespace {

using core::UniqueFd;

// A loop device over "disk", which goes with the last descriptor of it.
class BenchDevice : public Tool {
 protected:
  void SetUp() override {
    const UniqueFd control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    const int number = control.valid() ? ioctl(control.get(), LOOP_CTL_GET_FREE) : -1;
    if (number < 0) GTEST_SKIP() << "needs root and loop devices";
    bytes_ = make("disk", 1 << 20);
    const UniqueFd disk(open(path("disk").c_str(), O_RDWR | O_CLOEXEC));
    device_ = "/dev/loop" + std::to_string(number);
    fd_.reset(open(device_.c_str(), O_RDWR | O_CLOEXEC));
    loop_config config{};
    config.fd = static_cast<std::uint32_t>(disk.get());
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    if (!fd_.valid() || ioctl(fd_.get(), LOOP_CONFIGURE, &config) != 0) GTEST_SKIP() << "no loop device could be made";
  }

  std::string device_;
  UniqueFd fd_;
  std::string bytes_;
};

TEST_F(BenchDevice, ThatIsInUseIsNotWrittenOver) {
  const UniqueFd holder(open(device_.c_str(), O_RDWR | O_EXCL | O_CLOEXEC));  // mount(2) does the same.
  ASSERT_TRUE(holder.valid());
  for (const char* more : {"--overwrite", "--direct"}) {
    const Finished done =
        run({"bench", device_, "--rw", "write", "--size", "64k", "--overwrite", "--repeat", "1", more});
    EXPECT_EQ(done.exit_code, 1);
    EXPECT_TRUE(done.err.starts_with("penstock: " + device_ + ": it is in use (mounted, ")) << done.err;
  }
  EXPECT_EQ(run({"bench", device_, "--size", "64k", "--repeat", "1"}).exit_code, 0);
  EXPECT_TRUE(text_of(path("disk")) == bytes_);
}

TEST_F(BenchDevice, ThatIsFreeIsWrittenOverWhereThatWasAskedFor) {
  EXPECT_EQ(run({"bench", device_, "--rw", "write", "--size", "64k"}).exit_code, 2);
  const Finished done = run({"bench", device_, "--rw", "write", "--size", "64k", "--overwrite", "--repeat", "1"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
}

}  // namespace
}  // namespace penstock::tools
