// SPDX-License-Identifier: Apache-2.0

// Leases of several owners on files of whatever file system this is.
#include "storage/lease.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/unique_fd.h"
#include "fakes/waiting.h"

namespace penstock::core {
namespace {

class LeasedFile final : private Lease::Owner {
 public:
  // Tests of other processes run beside this one.
  explicit LeasedFile(const std::string& name)
      : name_(testing::TempDir() + name + "-" + std::to_string(::getpid())),
        fd_(::open(name_.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0644)) {}
  ~LeasedFile() { ::unlink(name_.c_str()); }

  int take(Lease::Wanted wanted = Lease::Wanted::most) { return lease_.take(fd_.get(), wanted); }
  void give_back() { lease_.give_back(true); }
  void give_back_when_asked() { gives_back_ = true; }
  UniqueFd open(int flags) const { return UniqueFd(::open(name_.c_str(), flags | O_CLOEXEC)); }
  const Lease& lease() const { return lease_; }
  bool was_asked() const { return was_asked_; }
  bool has_given_back() const { return has_given_back_; }

 private:
  std::chrono::nanoseconds look(bool is_asked_back) override {
    if (is_asked_back) was_asked_ = true;
    if (is_asked_back && gives_back_) {
      lease_.give_back(true);
      has_given_back_ = true;
    }
    return std::chrono::hours(1);
  }

  const std::string name_;
  const UniqueFd fd_;
  std::atomic<bool> was_asked_{false};
  std::atomic<bool> gives_back_{false};
  std::atomic<bool> has_given_back_{false};
  Lease lease_{*this};
};

class LeaseTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const int error = one_.take(); error != 0) GTEST_SKIP() << "no leases here: errno " << error;
    ASSERT_EQ(other_.take(), 0);
  }
  LeasedFile one_{"penstock-lease-one"};
  LeasedFile other_{"penstock-lease-other"};
};

TEST_F(LeaseTest, TheOwnerWhoseFileIsWantedIsTold) {
  EXPECT_FALSE(one_.open(O_WRONLY | O_NONBLOCK).valid());

  EXPECT_TRUE(wait_until([&] { return one_.was_asked(); }));

  EXPECT_FALSE(one_.lease().is_held());
  EXPECT_TRUE(other_.lease().is_held());
  one_.give_back();
  EXPECT_TRUE(one_.open(O_WRONLY).valid());
  give_time_to_go_wrong();
  EXPECT_FALSE(other_.was_asked());
  other_.give_back();
}

TEST_F(LeaseTest, AnOwnerMayGiveItsLeaseBackAtOnce) {
  one_.give_back_when_asked();

  const UniqueFd writer = one_.open(O_WRONLY);

  EXPECT_TRUE(writer.valid());
  ASSERT_TRUE(wait_until([&] { return one_.has_given_back(); })) << "the kernel lets the writer in before";
  EXPECT_EQ(one_.take(), EAGAIN);
  EXPECT_TRUE(other_.lease().is_held());
  other_.give_back();
}

TEST_F(LeaseTest, ItKeepsReadersOutIfThereIsNoOtherOpenFile) {
  EXPECT_TRUE(one_.lease().is_exclusive());
  one_.give_back();
  const UniqueFd reader = one_.open(O_RDONLY);

  EXPECT_EQ(one_.take(), 0);

  EXPECT_FALSE(one_.lease().is_exclusive());
  EXPECT_TRUE(one_.lease().is_held());
  one_.give_back();
  EXPECT_FALSE(one_.open(O_RDONLY).get() < 0);
  other_.give_back();
}

TEST_F(LeaseTest, OneThatIsWantedSharedLetsReadersInThoughItIsAlone) {
  one_.give_back();

  EXPECT_EQ(one_.take(Lease::Wanted::shared), 0);

  EXPECT_FALSE(one_.lease().is_exclusive());
  EXPECT_TRUE(one_.open(O_RDONLY | O_NONBLOCK).valid());
  EXPECT_TRUE(one_.lease().is_held());
  one_.give_back();
  one_.give_back();
  EXPECT_TRUE(one_.open(O_WRONLY).valid());
  other_.give_back();
}

}  // namespace
}  // namespace penstock::core
