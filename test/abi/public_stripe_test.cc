// SPDX-License-Identifier: Apache-2.0

// One object in files on several drives, through the public face: every byte at its place for any range, and no wrong
// byte whatever happens to a member.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "penstock/penstock.hpp"

namespace {

namespace fs = std::filesystem;
using penstock::Config;
using penstock::File;
using penstock::Outcome;
using penstock::Session;

constexpr std::uint64_t kStripe = 65536;
constexpr std::uint64_t kSize = 300 * kStripe + 12'345;

class PublicStripeTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/stripe_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    for (const char* drive : {"/a", "/b", "/c"}) {
      fs::create_directory(folder_ + drive);
      drives_.push_back(folder_ + drive);
    }
    auto session = Session::open(Config().set("device", "host"));
    ASSERT_TRUE(session) << session.error().message();
    session_.emplace(std::move(*session));
    std::mt19937_64 random(1);
    for (std::size_t i = 0; i < content_.size(); i += 8) {
      const std::uint64_t word = random();
      std::copy_n(reinterpret_cast<const char*>(&word), std::min<std::size_t>(8, content_.size() - i), &content_[i]);
    }
  }
  void TearDown() override {
    session_.reset();
    fs::remove_all(folder_);
  }

  std::string name() const { return folder_ + "/object"; }
  File created(unsigned flags = 0) {
    auto file = session_->create_stripe(name().c_str(), drives_, kSize, kStripe, 0644, flags);
    EXPECT_TRUE(file) << file.error().message();
    return std::move(*file);
  }
  // Written in ranges that begin and end anywhere.
  void publish() {
    const File file = created();
    for (std::uint64_t at = 0, step = 1; at < kSize; at += step, step = step * 3 + 7) {
      step = std::min(step, kSize - at);
      const Outcome outcome =
          file.write(content_.data(), step, static_cast<std::int64_t>(at), static_cast<std::int64_t>(at));
      ASSERT_TRUE(outcome.ok()) << outcome.status.message();
      ASSERT_EQ(outcome.report.bytes, step);
    }
    const penstock::Status status = file.publish();
    ASSERT_TRUE(status.ok()) << status.message();
  }
  File opened() {
    auto file = session_->stripe(name().c_str());
    EXPECT_TRUE(file) << file.error().message();
    return std::move(*file);
  }
  std::string member(unsigned number) {
    const File file = opened();
    const char* member = nullptr;
    EXPECT_TRUE(file.member(number, &member));
    return member;
  }

  std::string folder_;
  std::vector<std::string> drives_;
  std::optional<Session> session_;
  std::vector<char> content_ = std::vector<char>(kSize);
};

TEST_F(PublicStripeTest, EveryRangeComesBackAsItWasWritten) {
  publish();
  const File file = opened();
  std::mt19937_64 random(2);
  std::vector<char> found(kSize);
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t at = random() % kSize,
                        size = i == 0 ? kSize : random() % (random() % 2 == 0 ? 2 * kStripe : kSize);
    const Outcome outcome = file.read(found.data(), size, static_cast<std::int64_t>(at));
    ASSERT_TRUE(outcome.ok()) << outcome.status.message();
    const std::uint64_t expected = std::min(size, kSize - at);
    ASSERT_EQ(outcome.report.bytes, expected) << "a read ends where the object does";
    std::uint64_t by_paths = 0;
    for (unsigned path = 0; path < penstock_path_count(); ++path)
      by_paths += outcome.report.bytes_by(static_cast<int>(path));
    ASSERT_EQ(by_paths, expected);
    ASSERT_TRUE(std::equal(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(expected),
                           content_.begin() + static_cast<std::ptrdiff_t>(at)))
        << at << " " << size;
  }
}

TEST_F(PublicStripeTest, DeviceMemoryIsBouncedAndTheReportSumsAllMembers) {
  publish();
  auto memory = session_->allocate(0, kSize);
  ASSERT_TRUE(memory);
  const Outcome outcome = opened().read(memory->data(), kSize, 0);
  ASSERT_TRUE(outcome.ok()) << outcome.status.message();
  EXPECT_EQ(outcome.report.bytes, kSize);
  EXPECT_EQ(outcome.report.bytes_by(PENSTOCK_PATH_BOUNCE) + outcome.report.bytes_by(PENSTOCK_PATH_PAGECACHE), kSize);
  std::vector<char> found(kSize);
  ASSERT_TRUE(memory->download(0, found.data(), kSize).ok());
  EXPECT_TRUE(found == content_);
}

TEST_F(PublicStripeTest, PiecesOfMemoryThatMeetNoStripesAreFilledInTheirOrder) {
  publish();
  const File file = opened();
  std::vector<char> found(kSize);
  std::vector<iovec> pieces;
  for (std::uint64_t at = 0, size = 1; at < kSize; at += size) {
    size = std::min<std::uint64_t>(size * 7 % 40'009 + 1, kSize - at);
    pieces.push_back({found.data() + at, size});
    if (pieces.size() == 1024) break;
  }
  penstock::Request request;
  request.op = PENSTOCK_READ;
  request.file = file.raw();
  request.pieces = pieces.data();
  request.piece_count = static_cast<std::uint32_t>(pieces.size());
  penstock::Report report;
  const penstock::Status status = penstock_transfer(&request, &report);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_GT(report.bytes, 100 * kStripe);
  EXPECT_TRUE(std::equal(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(report.bytes), content_.begin()));
}

TEST_F(PublicStripeTest, ItIsAnOrdinarySetOfFilesStripeAfterStripe) {
  publish();
  for (unsigned i = 0; i < 3; ++i) {
    std::ifstream file(member(i), std::ios::binary);
    std::vector<char> stripe(kStripe);
    for (std::uint64_t round = 0; round < 100; ++round) {
      file.read(stripe.data(), kStripe);
      ASSERT_TRUE(std::equal(stripe.begin(), stripe.end(),
                             content_.begin() + static_cast<std::ptrdiff_t>((3 * round + i) * kStripe)));
    }
  }
  const auto info = opened().info();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->size, kSize);
  EXPECT_TRUE(info->readable);
  const auto stripe = opened().stripe_info();
  ASSERT_TRUE(stripe);
  EXPECT_EQ(stripe->member_count, 3u);
  EXPECT_EQ(stripe->stripe_bytes, kStripe);
}

TEST_F(PublicStripeTest, AMemberThatIsCutOffWhileTheObjectIsOpenIsNamedAndBytesEndBeforeIt) {
  publish();
  const File file = opened();
  const std::string second = member(1);
  fs::resize_file(second, 10 * kStripe);
  std::vector<char> found(kSize);
  const Outcome outcome = file.read(found.data(), kSize, 0);
  EXPECT_TRUE(outcome.status.is(PENSTOCK_BAD_STRIPE)) << outcome.status.message();
  EXPECT_NE(outcome.status.message().find(second + ": it became shorter"), std::string::npos)
      << outcome.status.message();
  EXPECT_EQ(outcome.report.bytes, 31 * kStripe) << "ten stripes of it, and what lies before the eleventh";
  EXPECT_TRUE(std::equal(found.begin(), found.begin() + 31 * kStripe, content_.begin()));
  const auto again = session_->stripe(name().c_str());
  ASSERT_FALSE(again);
  EXPECT_TRUE(again.error().is(PENSTOCK_BAD_STRIPE));
  EXPECT_NE(again.error().message().find(second), std::string::npos) << again.error().message();
}

TEST_F(PublicStripeTest, BeforeItIsPublishedThereIsNothingAndARefusedReplacementLeavesTheOldOne) {
  {
    const File file = created();
    EXPECT_FALSE(session_->stripe(name().c_str()));
    EXPECT_TRUE(file.write(content_.data(), 1, static_cast<std::int64_t>(kSize)).status.is(PENSTOCK_OUT_OF_RANGE));
  }
  for (const std::string& drive : drives_) EXPECT_TRUE(fs::is_empty(drive));
  publish();
  const auto twice = session_->create_stripe(name().c_str(), drives_, kSize, kStripe);
  ASSERT_FALSE(twice);
  EXPECT_TRUE(twice.error().is_errno(EEXIST)) << twice.error().message();
  const File other = created(PENSTOCK_CREATE_REPLACE | PENSTOCK_CREATE_DIRECT);
  EXPECT_TRUE(other.publish().ok());
  for (const std::string& drive : drives_) EXPECT_EQ(std::distance(fs::directory_iterator(drive), {}), 1);
}

TEST_F(PublicStripeTest, AQueueHasManyRequestsOfItInFlight) {
  publish();
  const File file = opened();
  auto queue = session_->queue(64);
  ASSERT_TRUE(queue);
  std::vector<char> found(kSize);
  const std::uint64_t each = kSize / 64 + 1;
  for (std::uint64_t i = 0; i < 64; ++i) {
    const auto at = static_cast<std::int64_t>(i * each);
    penstock::Request request = file.request(PENSTOCK_READ, found.data(), std::min(each, kSize - i * each), at, at);
    ASSERT_TRUE(queue->submit(request).ok());
  }
  std::uint64_t bytes = 0;
  for (int left = 64; left > 0; --left) {
    penstock::Completion done;
    ASSERT_TRUE(queue->reap(&done, 1, 1));
    EXPECT_EQ(done.status.code, 0);
    bytes += done.report.bytes;
  }
  EXPECT_EQ(bytes, kSize);
  EXPECT_TRUE(found == content_);
}

TEST_F(PublicStripeTest, AnObjectThatIsDeregisteredWithRequestsInTheQueueEndsThem) {
  publish();
  auto queue = session_->queue(64);
  ASSERT_TRUE(queue);
  std::vector<char> found(kSize);
  {
    const File file = opened();
    for (int i = 0; i < 64; ++i) ASSERT_TRUE(queue->submit(file.request(PENSTOCK_READ, found.data(), kSize, 0)).ok());
  }
  for (int left = 64; left > 0; --left) {
    penstock::Completion done;
    ASSERT_TRUE(queue->reap(&done, 1, 1));
    EXPECT_TRUE(done.status.code == 0 || done.status.code == PENSTOCK_NOT_REGISTERED) << done.status.code;
  }
}

TEST_F(PublicStripeTest, WhatTakesNoStripedObjectSaysThatItsMembersDo) {
  publish();
  const File file = opened();
  char byte = 0;
  auto queue = session_->polled_queue(1, 4096);
  ASSERT_TRUE(queue);
  EXPECT_TRUE(queue->submit(file.request(PENSTOCK_READ, &byte, 1, 0)).is(PENSTOCK_UNSUPPORTED));
  EXPECT_TRUE(file.explain().error().is(PENSTOCK_UNSUPPORTED));
  EXPECT_NE(file.explain().error().message().find("its members"), std::string::npos);
  const auto first = file.member(0);
  ASSERT_TRUE(first);
  penstock::Request request = file.request(PENSTOCK_READ, &byte, 1, 0);
  request.file = *first;
  EXPECT_TRUE(queue->submit(request).ok());
  penstock::Completion done;
  ASSERT_TRUE(queue->reap(&done, 1, 1));
  EXPECT_EQ(done.status.code, 0);
  EXPECT_EQ(byte, content_[0]);
  EXPECT_TRUE(file.member(3).error().is(PENSTOCK_INVALID_ARGUMENT));
  const auto plain = session_->create((folder_ + "/plain").c_str());
  ASSERT_TRUE(plain);
  EXPECT_TRUE(plain->stripe_info().error().is(PENSTOCK_UNSUPPORTED_FILE));
  EXPECT_TRUE(session_->create_stripe(name().c_str(), {}, 1, kStripe).error().is(PENSTOCK_INVALID_ARGUMENT));
  EXPECT_TRUE(session_->stripe("/nowhere").error().is_errno(ENOENT));
}

TEST_F(PublicStripeTest, MembersOutliveNothingAndASessionMayGoFirst) {
  publish();
  const File file = opened();
  session_.reset();
  char byte = 0;
  EXPECT_TRUE(file.read(&byte, 1, 0).status.is(PENSTOCK_CLOSED));
}

}  // namespace
