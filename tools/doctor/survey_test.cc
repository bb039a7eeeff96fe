// SPDX-License-Identifier: Apache-2.0

#include "tools/doctor/survey.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "tools/common/residency.h"

namespace penstock::tools {
namespace {

constexpr std::uint64_t kMebibyte = 1u << 20;

// Eight mebibytes, of which the first four are cached.
class RestorePageCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "survey_XXXXXX";
    fd_ = core::UniqueFd(::mkstemp(name));
    ASSERT_TRUE(fd_.valid());
    path_ = name;
    const std::string content(8 * kMebibyte, 'x');
    ASSERT_EQ(::pwrite(fd_.get(), content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
    ASSERT_EQ(::fsync(fd_.get()), 0);
    ASSERT_EQ(::posix_fadvise(fd_.get(), 4 * kMebibyte, 0, POSIX_FADV_DONTNEED), 0);
    if (cached(0, 8) != 4 * kMebibyte) GTEST_SKIP() << "the file system does not keep half of it cached";
    survey_.shards = {{path_, 8 * kMebibyte, 4 * kMebibyte, {}}};
    for (std::uint64_t at = 4; at < 8; ++at) survey_.uncached.push_back({0, at * kMebibyte, kMebibyte, 0});
  }
  void TearDown() override { ::unlink(path_.c_str()); }

  void read_one_byte(off_t mebibyte) {
    char byte = 0;
    ASSERT_EQ(::pread(fd_.get(), &byte, 1, mebibyte * static_cast<off_t>(kMebibyte)), 1);
  }
  std::uint64_t cached(std::uint64_t from_mebibyte, std::uint64_t mebibytes) const {
    return cached_bytes(fd_.get(), from_mebibyte * kMebibyte, mebibytes * kMebibyte).value_or(0);
  }

  core::UniqueFd fd_;
  std::string path_;
  Survey survey_;
};

TEST_F(RestorePageCacheTest, WhatIsJustBeingReadGoesWhenItHasCome) {
  ASSERT_EQ(::readahead(fd_.get(), 4 * kMebibyte, kMebibyte / 2), 0);

  restore_page_cache(survey_, 1);

  EXPECT_EQ(cached(4, 4), 0u);
  EXPECT_EQ(cached(0, 4), 4 * kMebibyte);
}

TEST_F(RestorePageCacheTest, WhatWasReadAheadInTheNextPieceGoes) {
  ASSERT_EQ(::readahead(fd_.get(), 5 * kMebibyte, kMebibyte / 2), 0);

  restore_page_cache(survey_, 1);

  EXPECT_EQ(cached(4, 4), 0u);
}

TEST_F(RestorePageCacheTest, WhatOthersHaveReadStays) {
  read_one_byte(7);
  const std::uint64_t before = cached(6, 2);
  ASSERT_GT(before, 0u);

  restore_page_cache(survey_, 1);

  EXPECT_EQ(cached(6, 2), before);
}

TEST_F(RestorePageCacheTest, WhereNothingWasReadNothingGoes) {
  read_one_byte(4);

  restore_page_cache(survey_, 0);
  survey_.is_residency_known = false;
  restore_page_cache(survey_, 2);

  EXPECT_GT(cached(4, 4), 0u);
}

TEST_F(RestorePageCacheTest, SmallFilesBesideOneThatIsPartlyCachedDoNotStandForIt) {
  char name[] = "survey_small_XXXXXX";
  const core::UniqueFd small(::mkstemp(name));
  ASSERT_EQ(::pwrite(small.get(), "abc", 3, 0), 3);
  survey_.shards.push_back({name, 3, 0, {}});
  survey_.uncached.clear();

  find_pieces(survey_);
  ::unlink(name);

  std::uint64_t bytes = 0;
  for (const auto* pieces : {&survey_.cached, &survey_.uncached}) {
    for (const Piece& piece : *pieces) bytes += piece.size;
  }
  EXPECT_EQ(bytes, 8 * kMebibyte + 3);
}

TEST_F(RestorePageCacheTest, AFileThatIsGoneHoldsNothingUp) {
  survey_.shards[0].path += ".gone";

  restore_page_cache(survey_, 2);

  EXPECT_EQ(cached(0, 4), 4 * kMebibyte);
}

}  // namespace
}  // namespace penstock::tools
