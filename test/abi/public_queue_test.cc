// SPDX-License-Identifier: Apache-2.0

// Threaded queues of the public face: reaped with a limit of time, watched, canceled, overtaken by deadlines, vectored.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "fakes/waiting.h"
#include "penstock/penstock.hpp"

namespace {

using penstock::Completion;
using penstock::Config;
using penstock::File;
using penstock::Queue;
using penstock::Request;
using penstock::Session;

constexpr std::uint64_t kSize = 1 << 20;

class PublicQueueTest : public testing::Test {
 protected:
  void SetUp() override {
    fd_ = ::memfd_create("queue", MFD_CLOEXEC);
    std::iota(content_.begin(), content_.end(), char{});
    ASSERT_EQ(::pwrite(fd_, content_.data(), kSize, 0), static_cast<ssize_t>(kSize));
    auto session = Session::open(Config().set("device", "host"));
    ASSERT_TRUE(session) << session.error().message();
    session_.emplace(std::move(*session));
    file_ = std::move(*session_->file(fd_));
    auto queue = session_->queue(8);
    ASSERT_TRUE(queue) << queue.error().message();
    queue_ = std::move(*queue);
  }
  void TearDown() override { ::close(fd_); }

  Request read_of(std::uint64_t size, std::int64_t offset, std::uint64_t cookie) {
    Request request = file_.request(PENSTOCK_READ, memory_.data(), size, offset, offset);
    request.cookie = cookie;
    return request;
  }
  Completion reap_one() {
    Completion done;
    const auto count = queue_.reap(&done, 1, 1);
    EXPECT_TRUE(count && *count == 1u);
    return done;
  }
  bool is_readable(int timeout_ms) {
    pollfd watched{*queue_.eventfd(), POLLIN, 0};
    return ::poll(&watched, 1, timeout_ms) == 1;
  }

  int fd_ = -1;
  std::optional<Session> session_;
  File file_{nullptr};
  Queue queue_{nullptr};
  std::vector<char> content_ = std::vector<char>(kSize), memory_ = std::vector<char>(kSize);
};

TEST_F(PublicQueueTest, RequestsAreCarriedOutWithoutTheirCaller) {
  ASSERT_TRUE(queue_.submit(read_of(5000, 10, 7)).ok());

  ASSERT_TRUE(is_readable(-1));
  const Completion done = reap_one();

  EXPECT_EQ(done.cookie, 7u);
  EXPECT_EQ(done.status.code, 0);
  EXPECT_EQ(done.report.bytes, 5000u);
  EXPECT_EQ(std::memcmp(memory_.data() + 10, content_.data() + 10, 5000), 0);
}

TEST_F(PublicQueueTest, RequestsWithoutBytesEndAlsoWhereEveryThreadSleeps) {
  for (std::uint64_t cookie = 1; cookie <= 3; ++cookie) {
    penstock::give_time_to_go_wrong();  // Time for idle threads to go to sleep.
    ASSERT_TRUE(queue_.submit(read_of(0, 10, cookie)).ok());

    ASSERT_TRUE(is_readable(120'000));
    const Completion done = reap_one();

    EXPECT_EQ(done.cookie, cookie);
    EXPECT_EQ(done.status.code, 0);
    EXPECT_EQ(done.report.bytes, 0u);
  }
}

TEST_F(PublicQueueTest, ItsDescriptorIsReadableOnlyWhileThereIsSomethingToReap) {
  EXPECT_FALSE(is_readable(0));
  ASSERT_TRUE(queue_.submit(read_of(100, 0, 1)).ok());
  EXPECT_TRUE(is_readable(-1));
  EXPECT_TRUE(is_readable(0));

  (void)reap_one();

  EXPECT_FALSE(is_readable(0));
}

TEST_F(PublicQueueTest, WaitingForNothingEndsAtOnceAndForTimeWithIt) {
  Completion done;
  EXPECT_EQ(*queue_.reap(&done, 1, 1), 0u);
  EXPECT_EQ(*queue_.reap(&done, 1, 1, 0), 0u);
  EXPECT_TRUE(queue_.reap(&done, 1, 1, -2).error().is(PENSTOCK_INVALID_ARGUMENT));
}

TEST_F(PublicQueueTest, MoreThanItsDepthIsNotTakenUntilSomeAreReaped) {
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < 10; ++i) requests.push_back(read_of(100, 0, i));
  std::uint32_t submitted = 0;

  const penstock::Status status = penstock_queue_submit(queue_.raw(), requests.data(), 10, &submitted);

  EXPECT_TRUE(status.is(PENSTOCK_LIMIT)) << status.message();
  EXPECT_EQ(submitted, 8u);
  std::vector<Completion> done(10);
  EXPECT_EQ(*queue_.reap(done.data(), 10, 8), 8u);
  EXPECT_EQ(penstock_queue_submit(queue_.raw(), requests.data() + 8, 2, &submitted).code, 0);
  EXPECT_EQ(submitted, 2u);
}

TEST_F(PublicQueueTest, ThoseBeforeARequestThatMakesNoSenseAreTakenAndThoseBehindItAreNot) {
  std::vector<Request> requests;
  for (std::uint64_t i = 0; i < 8; ++i) requests.push_back(read_of(100, 0, i));
  requests[3].file = nullptr;
  std::uint32_t submitted = 0;
  for (int round = 0; round < 10; ++round) {  // More than the depth: what a submission takes is given back.
    const penstock::Status status = penstock_queue_submit(queue_.raw(), requests.data(), 8, &submitted);

    EXPECT_TRUE(status.is(PENSTOCK_INVALID_ARGUMENT)) << status.message();
    EXPECT_EQ(submitted, 3u);
    std::vector<Completion> done(8);
    EXPECT_EQ(*queue_.reap(done.data(), 8, 8), 3u);
    EXPECT_TRUE(penstock::Status(penstock_queue_submit(queue_.raw(), &requests[3], 5, &submitted))
                    .is(PENSTOCK_INVALID_ARGUMENT));
    EXPECT_EQ(submitted, 0u);
  }
}

TEST_F(PublicQueueTest, AFullQueueSaysWhatIsFullAndWhatMakesRoom) {
  auto threaded = session_->queue(2);
  auto polled = session_->polled_queue(2, kSize);
  ASSERT_TRUE(threaded && polled);
  for (Queue* queue : {&*threaded, &*polled}) {
    const Request request = read_of(4096, 0, 1);
    ASSERT_TRUE(queue->submit(request).ok() && queue->submit(request).ok());

    const penstock::Status status = queue->submit(request);

    EXPECT_TRUE(status.is(PENSTOCK_LIMIT));
    EXPECT_EQ(status.message(),
              "could not submit to the queue: its depth is 2, and as many requests are not reaped; reap some of them "
              "first, or open a queue with a larger depth");
  }
}

TEST_F(PublicQueueTest, WhatIsRefusedComesAsACompletion) {
  Request request = read_of(100, 0, 3);
  request.file_offset = -1;
  ASSERT_TRUE(queue_.submit(request).ok());

  const Completion done = reap_one();

  EXPECT_EQ(done.cookie, 3u);
  EXPECT_EQ(done.status.code, PENSTOCK_NEGATIVE_OFFSET);
  EXPECT_EQ(done.report.bytes, 0u);
}

TEST_F(PublicQueueTest, ADeadlineThatHasPassedEndsARequestBeforeItBegins) {
  Request request = read_of(100, 0, 4);
  request.deadline_ns = 1;
  ASSERT_TRUE(queue_.submit(request).ok());

  const Completion done = reap_one();

  EXPECT_EQ(done.status.code, PENSTOCK_TIMED_OUT) << penstock::Status(done.status).message();
  EXPECT_EQ(done.report.bytes, 0u);
}

TEST_F(PublicQueueTest, EveryRequestIsReapedOnceWhetherCanceledOrNot) {
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(queue_.submit(read_of(kSize, 0, i % 2)).ok());

  const auto canceled = queue_.cancel(1);

  ASSERT_TRUE(canceled);
  std::vector<Completion> done(8);
  ASSERT_EQ(*queue_.reap(done.data(), 8, 8), 8u);
  unsigned ended_so = 0;
  for (const Completion& one : done) {
    const bool is_canceled = one.status.code == PENSTOCK_CANCELED;
    ended_so += is_canceled ? 1 : 0;
    EXPECT_EQ(one.report.bytes, is_canceled ? 0 : kSize);
    EXPECT_TRUE(!is_canceled || one.cookie == 1);
  }
  EXPECT_EQ(ended_so, *canceled);
}

TEST_F(PublicQueueTest, OneRangeOfTheFileGoesToSeveralPiecesOfMemory) {
  std::vector<iovec> pieces;
  for (char* each : {memory_.data() + 500'000, memory_.data(), memory_.data() + 200'000})
    pieces.push_back({each, 7001});
  Request request = file_.request(PENSTOCK_READ, nullptr, 0, 333);
  request.pieces = pieces.data();
  request.piece_count = 3;
  ASSERT_TRUE(queue_.submit(request).ok());
  pieces.assign(3, {nullptr, 0});

  const Completion done = reap_one();

  EXPECT_EQ(done.status.code, 0);
  EXPECT_EQ(done.report.bytes, 3u * 7001);
  EXPECT_EQ(std::memcmp(memory_.data() + 500'000, content_.data() + 333, 7001), 0);
  EXPECT_EQ(std::memcmp(memory_.data(), content_.data() + 333 + 7001, 7001), 0);
  EXPECT_EQ(std::memcmp(memory_.data() + 200'000, content_.data() + 333 + 2 * 7001, 7001), 0);
}

TEST_F(PublicQueueTest, VectorsBesideABaseAreRefused) {
  const iovec piece{memory_.data(), 10};
  Request request = read_of(100, 0, 1);
  request.pieces = &piece;
  request.piece_count = 1;

  EXPECT_TRUE(queue_.submit(request).is(PENSTOCK_INVALID_ARGUMENT));
}

TEST_F(PublicQueueTest, ATransferTakesVectorsAsWell) {
  iovec pieces[] = {{memory_.data(), 100}, {nullptr, 0}, {memory_.data() + 5000, 50}};
  Request request = file_.request(PENSTOCK_READ, nullptr, 0, static_cast<std::int64_t>(kSize - 120));
  request.pieces = pieces;
  request.piece_count = 3;
  penstock::Report report;

  EXPECT_EQ(penstock_transfer(&request, &report).code, 0);

  EXPECT_EQ(report.bytes, 120u);
  EXPECT_EQ(std::memcmp(memory_.data() + 5000, content_.data() + kSize - 20, 20), 0);
}

TEST_F(PublicQueueTest, APolledQueueSaysWhatItCannotDoWithoutThreads) {
  auto polled = session_->polled_queue(2, 4096);
  ASSERT_TRUE(polled);
  iovec piece{memory_.data(), 10};
  Request request = file_.request(PENSTOCK_READ, nullptr, 0, 0);
  request.pieces = &piece;
  request.piece_count = 1;

  EXPECT_TRUE(polled->submit(request).is(PENSTOCK_UNSUPPORTED));
  EXPECT_TRUE(polled->eventfd().error().is(PENSTOCK_UNSUPPORTED));
  EXPECT_EQ(*polled->cancel(0), 0u);
}

TEST_F(PublicQueueTest, WhatWasSubmittedIsCarriedOutAndReapedThoughItsSessionCloses) {
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(queue_.submit(read_of(kSize, 0, i)).ok());

  session_.reset();

  std::vector<Completion> done(8);
  ASSERT_EQ(*queue_.reap(done.data(), 8, 8), 8u);
  for (const Completion& one : done) EXPECT_EQ(one.report.bytes, kSize) << penstock::Status(one.status).message();
  EXPECT_TRUE(queue_.submit(read_of(10, 0, 0)).is(PENSTOCK_CLOSED));
}

class PublishTest : public PublicQueueTest {
 protected:
  void SetUp() override {
    PublicQueueTest::SetUp();
    folder_ = testing::TempDir() + "penstock_publish_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    name_ = folder_ + "/checkpoint";
  }
  void TearDown() override {
    ::unlink(name_.c_str());
    EXPECT_EQ(::rmdir(folder_.c_str()), 0) << "something was left behind";
    PublicQueueTest::TearDown();
  }
  std::optional<std::uint64_t> size_of_published() const {
    struct stat facts {};
    if (::stat(name_.c_str(), &facts) != 0) return std::nullopt;
    return static_cast<std::uint64_t>(facts.st_size);
  }
  std::string folder_, name_;
};

TEST_F(PublishTest, AFileAppearsUnderItsNameWhenItIsPublished) {
  auto file = session_->create(name_.c_str(), 0640, PENSTOCK_CREATE_DIRECT);
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_TRUE(file->write(content_.data(), kSize, 0).ok());
  EXPECT_EQ(size_of_published(), std::nullopt);

  const penstock::Status status = file->publish();

  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(size_of_published(), kSize);
}

TEST_F(PublishTest, WhatIsNotPublishedLeavesNothing) {
  auto file = session_->create(name_.c_str());
  ASSERT_TRUE(file && file->write(content_.data(), 1000, 0).ok());

  *file = File(nullptr);

  EXPECT_EQ(size_of_published(), std::nullopt);
}

TEST_F(PublishTest, ASecondFileReplacesTheFirstOnlyWhereThatWasWanted) {
  ASSERT_TRUE(session_->create(name_.c_str())->publish().ok());
  auto kept = session_->create(name_.c_str()),
       replacing = session_->create(name_.c_str(), 0600, PENSTOCK_CREATE_REPLACE);
  ASSERT_TRUE(kept && replacing && replacing->write(content_.data(), 77, 0).ok());

  EXPECT_TRUE(kept->publish().is_errno(EEXIST));
  EXPECT_TRUE(replacing->publish().ok());

  EXPECT_EQ(size_of_published(), 77u);
}

// As after closefrom(3), where the program opened another file since.
TEST_F(PublishTest, AnotherFileThatHasGotItsDescriptorsIsNotPublished) {
  auto file = session_->create(name_.c_str());
  ASSERT_TRUE(file && file->write(content_.data(), 1000, 0).ok());
  const int other = ::memfd_create("other", MFD_CLOEXEC);
  ASSERT_GE(other, 0);
  struct stat own {};
  int taken = 0;
  for (int fd = 3; fd < other; ++fd) {  // A file without a name has no link.
    if (::fstat(fd, &own) == 0 && S_ISREG(own.st_mode) && own.st_nlink == 0 && own.st_size == 1000)
      taken += ::dup2(other, fd) == fd ? 1 : 0;
  }
  if (taken == 0) GTEST_SKIP() << "files have a name from the start here";

  const penstock::Status status = file->publish();

  EXPECT_TRUE(status.is(PENSTOCK_DESCRIPTOR_LOST)) << status.message();
  EXPECT_EQ(size_of_published(), std::nullopt);
  ::close(other);
}

TEST_F(PublishTest, AFileThatWasRegisteredCannotBePublishedButSynced) {
  EXPECT_TRUE(file_.publish().is(PENSTOCK_INVALID_ARGUMENT));
  EXPECT_TRUE(file_.sync().ok());
}

TEST_F(PublishTest, AFlagThatIsNoneIsRefused) {
  EXPECT_TRUE(session_->create(name_.c_str(), 0600, 4).error().is(PENSTOCK_INVALID_ARGUMENT));
}

TEST_F(PublishTest, AFolderThatIsNotThereIsToldAsSuch) {
  EXPECT_TRUE(session_->create((folder_ + "/none/file").c_str()).error().is_errno(ENOENT));
}

}  // namespace
