// SPDX-License-Identifier: Apache-2.0

// Extents of a file in memory, whose pages go without a change that the file's stamp shows: the end of a long direct
// write has this effect.
#include "path/pagecache/extent_watch.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>

#include "base/page_size.h"
#include "device/host/host_device.h"
#include "fakes/waiting.h"
#include "path/pagecache/registration_cache.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

constexpr std::chrono::milliseconds kSettlesAfter{20};

class ExtentWatchTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string content(64 * page_size(), 's');
    ASSERT_EQ(storage_.write(fd_.get(), content.data(), content.size(), 0).value(), content.size());
    file_ = std::move(File::open(storage_, fd_.get()).value());
    if (watch().error() != 0) GTEST_SKIP() << "a process cannot see its own pages here";
  }
  void open(std::chrono::milliseconds settles_after) {
    cached_ = cache_.find_or_make(*file_, *devices_.device(0).value(), {.settles_after = settles_after});
  }
  void register_settled() {
    open(kSettlesAfter);
    ASSERT_TRUE(wait_until([&] { return file_->stamp()->is_settled(kSettlesAfter); }));
    cache_.register_now(*cached_, 0);
  }
  ExtentWatch& watch() { return cache_.watch(); }
  Extent& extent() { return *cached_->extent(0); }
  ExtentWatch::Presence look(std::uint64_t page) {
    return watch().look(*cached_, extent(), page * page_size(), page_size(), *file_->stamp());
  }
  void drop_page(std::uint64_t page) {
    ASSERT_TRUE(extent().hold(0));
    EXPECT_EQ(::madvise(extent().at(page * page_size()), page_size(), MADV_DONTNEED), 0);
    extent().release();
  }

  PosixStorage storage_{false};
  HostDeviceSet devices_;
  const UniqueFd fd_{::memfd_create("extent_watch_test", MFD_CLOEXEC)};
  std::unique_ptr<File> file_;
  RegistrationCache cache_{{.bytes_max = 1u << 30}};
  CachedFile* cached_ = nullptr;
};

TEST_F(ExtentWatchTest, AnExtentIsSettledOnceItsFileHasNotChangedForLong) {
  register_settled();

  EXPECT_TRUE(extent().is_settled());
  EXPECT_TRUE(ExtentWatch::is_settled(*cached_, {Op::read, 0, 64 * page_size()}));
  EXPECT_FALSE(ExtentWatch::is_settled(*cached_, {Op::read, Extent::kBytes - 1, 2}));
}

TEST_F(ExtentWatchTest, WithoutStampsThatShowChangesThePagesThemselvesAreLookedAt) {
  open({});
  cache_.register_now(*cached_, 0);
  EXPECT_FALSE(extent().is_settled());
  EXPECT_EQ(look(3), ExtentWatch::Presence::there);

  drop_page(3);

  EXPECT_EQ(look(3), ExtentWatch::Presence::gone);
  EXPECT_EQ(look(4), ExtentWatch::Presence::there);
  EXPECT_FALSE(watch().are_of_file(*cached_, extent(), 3 * page_size(), page_size(), *file_->stamp()));
}

// So that all of them are not looked at again for each of its requests.
TEST_F(ExtentWatchTest, AnExtentThatLacksAPageIsNotSettledByItsOthers) {
  open(kSettlesAfter);
  cache_.register_now(*cached_, 0);
  drop_page(3);
  ASSERT_TRUE(wait_until([&] { return file_->stamp()->is_settled(kSettlesAfter); }));

  for (int i = 0; i < 3; ++i) EXPECT_EQ(look(4), ExtentWatch::Presence::there);

  EXPECT_FALSE(extent().is_settled());
  EXPECT_EQ(look(3), ExtentWatch::Presence::gone);
}

TEST_F(ExtentWatchTest, AnotherLookFindsPagesThatWentWithoutAChange) {
  register_settled();
  drop_page(0);

  watch().look_again(extent());

  EXPECT_FALSE(extent().is_settled());
}

TEST_F(ExtentWatchTest, TheCacheLooksAgainByItself) {
  register_settled();

  drop_page(0);

  EXPECT_TRUE(wait_until([&] { return !extent().is_settled(); }));
}

}  // namespace
}  // namespace penstock::core
