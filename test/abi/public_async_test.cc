// SPDX-License-Identifier: Apache-2.0

// Futures and callbacks of the C++ interface, and the other additions of penstock.hpp to penstock.h.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "penstock/futures.hpp"

namespace {

using penstock::AsyncQueue;
using penstock::Config;
using penstock::DeviceMemory;
using penstock::File;
using penstock::Future;
using penstock::Outcome;
using penstock::Request;
using penstock::Session;

constexpr std::uint64_t kPart = 64 << 10;
constexpr unsigned kParts = 8;

class PublicAsyncTest : public testing::Test {
 protected:
  void SetUp() override {
    fd_ = ::memfd_create("async", MFD_CLOEXEC);
    for (std::size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<char>(i * 40503u >> 7);
    ASSERT_EQ(::pwrite(fd_, content_.data(), content_.size(), 0), static_cast<ssize_t>(content_.size()));
    auto session = Session::open(Config().set("device", "host"));
    ASSERT_TRUE(session) << session.error().message();
    session_.emplace(std::move(*session));
    file_.emplace(std::move(*session_->file(fd_)));
    queue_.emplace(std::move(*session_->queue(kParts)));
  }
  void TearDown() override { ::close(fd_); }

  Request read_of(unsigned part) {
    const auto at = static_cast<std::int64_t>(part * kPart);
    return file_->request(PENSTOCK_READ, memory_.data(), kPart, at, at);
  }

  int fd_ = -1;
  std::string content_ = std::string(kPart * kParts, '\0'), memory_ = std::string(kPart * kParts, '\0');
  std::optional<Session> session_;
  std::optional<File> file_;
  std::optional<AsyncQueue> queue_;
};

TEST_F(PublicAsyncTest, FuturesTellOfTheirOwnRequestsInAnyOrder) {
  std::vector<Future> futures;
  for (unsigned part = 0; part < kParts; ++part) futures.push_back(*queue_->submit(read_of(part)));

  for (unsigned part = kParts; part-- > 0;) {
    const Outcome outcome = futures[part].get();
    ASSERT_TRUE(outcome.ok()) << outcome.status.message();
    EXPECT_EQ(outcome.report.bytes, kPart);
    EXPECT_TRUE(futures[part].is_done());
  }
  EXPECT_TRUE(memory_ == content_);
  EXPECT_EQ(futures[0].get().report.bytes, kPart) << "it may be asked again";
}

TEST_F(PublicAsyncTest, CallbacksAreCalledByRunUntilNoneIsLeft) {
  std::uint64_t bytes = 0;
  for (unsigned part = 0; part < kParts; ++part) {
    ASSERT_TRUE(queue_->submit(read_of(part), [&](const Outcome& outcome) { bytes += outcome.report.bytes; }).ok());
  }

  while (*queue_->run() > 0) {
  }

  EXPECT_EQ(bytes, content_.size());
  EXPECT_TRUE(memory_ == content_);
}

TEST_F(PublicAsyncTest, ACallbackMaySubmitTheNext) {
  unsigned part = 0;
  std::function<void(const Outcome&)> next = [&](const Outcome&) {
    if (++part == kParts) return;
    EXPECT_TRUE(queue_->submit(read_of(part), next).ok());
  };
  ASSERT_TRUE(queue_->submit(read_of(0), next).ok());

  while (*queue_->run() > 0) {
  }

  EXPECT_EQ(part, kParts);
  EXPECT_TRUE(memory_ == content_);
}

TEST_F(PublicAsyncTest, AnEventLoopIsToldByTheDescriptor) {
  bool is_done = false;
  ASSERT_TRUE(queue_->submit(read_of(0), [&](const Outcome&) { is_done = true; }).ok());
  pollfd watched{*queue_->eventfd(), POLLIN, 0};

  ASSERT_EQ(::poll(&watched, 1, -1), 1);

  EXPECT_EQ(*queue_->run(0), 1u);
  EXPECT_TRUE(is_done);
}

TEST_F(PublicAsyncTest, ThreadsThatWaitTakeWhatIsForOthers) {
  for (unsigned round = 0; round < 50; ++round) {
    std::vector<Future> futures;
    for (unsigned part = 0; part < kParts; ++part) futures.push_back(*queue_->submit(read_of(part)));
    std::vector<std::thread> threads;
    std::array<std::uint64_t, kParts> bytes{};
    for (unsigned part = 0; part < kParts; ++part) {
      threads.emplace_back([&, part] { bytes[part] = futures[part].get().report.bytes; });
    }
    threads.emplace_back([&] { (void)queue_->run(0); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0}), content_.size());
  }
}

TEST_F(PublicAsyncTest, WhatTheQueueRefusesHasNoFutureAndNoCallback) {
  Request odd = read_of(0);
  odd.op = 77;
  bool is_called = false;

  EXPECT_TRUE(queue_->submit(odd).error().is(PENSTOCK_INVALID_ARGUMENT));
  EXPECT_TRUE(queue_->submit(odd, [&](const Outcome&) { is_called = true; }).is(PENSTOCK_INVALID_ARGUMENT));

  EXPECT_EQ(*queue_->run(), 0u);
  EXPECT_FALSE(is_called);
}

TEST_F(PublicAsyncTest, ADeadlineThatHasPassedIsTheOutcome) {
  const auto future = queue_->submit(read_of(0).begin_before({}));
  ASSERT_TRUE(future);

  EXPECT_TRUE(future->get().status.is(PENSTOCK_TIMED_OUT));
}

TEST_F(PublicAsyncTest, AFutureOutlivesItsQueueAndItsSession) {
  const Future future = *queue_->submit(read_of(3));

  queue_.reset();
  session_.reset();

  EXPECT_EQ(future.get().report.bytes, kPart);
}

// A session with every kind of object, and requests in flight.
class Objects {
 public:
  static constexpr unsigned kCount = 5;

  Objects(int fd, std::uint64_t size) {
    session_.emplace(std::move(*Session::open(Config().set("device", "host").set("workers", "1"))));
    file_.emplace(std::move(*session_->file(fd)));
    memory_.emplace(std::move(*session_->allocate(0, size)));
    queue_.emplace(std::move(*session_->queue(kParts)));
    for (unsigned part = 0; part < kParts; part += 2) {
      EXPECT_TRUE(queue_->submit(read_of(part), [](const Outcome&) {}).ok());
      future_.emplace(*queue_->submit(read_of(part + 1)));
    }
  }
  void destroy(unsigned which) {
    const std::array<std::function<void()>, kCount> ways = {[this] { session_.reset(); }, [this] { file_.reset(); },
                                                            [this] { memory_.reset(); }, [this] { queue_.reset(); },
                                                            [this] { future_.reset(); }};
    ways[which]();
  }

 private:
  Request read_of(unsigned part) const {
    const auto at = static_cast<std::int64_t>(part * kPart);
    return file_->request(PENSTOCK_READ, memory_->data(), kPart, at, at);
  }

  std::optional<Session> session_;
  std::optional<File> file_;
  std::optional<DeviceMemory> memory_;
  std::optional<AsyncQueue> queue_;
  std::optional<Future> future_;
};

TEST_F(PublicAsyncTest, EveryOrderOfDestructionIsSafeWhileRequestsAreInFlight) {
  std::array<unsigned, Objects::kCount> order;
  std::iota(order.begin(), order.end(), 0u);
  do {
    Objects objects(fd_, content_.size());
    for (const unsigned which : order) objects.destroy(which);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(PublicAsyncTest, SeveralRequestsAreSubmittedByOneCall) {
  auto queue = session_->queue(kParts);
  std::vector<Request> requests;
  for (unsigned part = 0; part < kParts; ++part) requests.push_back(read_of(part));
  std::uint32_t submitted = 0;

  ASSERT_TRUE(queue->submit(requests.data(), kParts, &submitted).ok());

  std::vector<penstock::Completion> done(kParts);
  ASSERT_EQ(submitted, kParts);
  ASSERT_EQ(*queue->reap(done.data(), kParts, kParts), kParts);
  for (const auto& each : done) EXPECT_EQ(each.outcome().report.bytes, kPart);
}

TEST_F(PublicAsyncTest, PiecesOfMemoryAreOneRequest) {
  const iovec pieces[] = {{memory_.data() + kPart, kPart}, {memory_.data(), kPart}};

  const Outcome outcome = penstock::transfer(file_->vectored_request(PENSTOCK_READ, pieces, 2, 0));

  ASSERT_TRUE(outcome.ok()) << outcome.status.message();
  EXPECT_EQ(outcome.report.bytes, 2 * kPart);
  EXPECT_EQ(memory_.compare(kPart, kPart, content_, 0, kPart), 0);
  EXPECT_EQ(memory_.compare(0, kPart, content_, kPart, kPart), 0);
}

TEST_F(PublicAsyncTest, ARequestMayRequireItsPath) {
  EXPECT_TRUE(penstock::transfer(read_of(0).require(PENSTOCK_PATH_P2PDMA)).status.is(PENSTOCK_PATH_REFUSED));
  EXPECT_TRUE(penstock::transfer(read_of(0).require(PENSTOCK_PATH_HOST)).ok());
}

TEST_F(PublicAsyncTest, ABufferThatIsClosedMayBeRegisteredAgain) {
  auto buffer = session_->buffer(memory_.data(), memory_.size());
  ASSERT_TRUE(buffer);
  EXPECT_TRUE(session_->buffer(memory_.data(), memory_.size()).error().is(PENSTOCK_ALREADY_REGISTERED));

  *buffer = penstock::Buffer(nullptr);

  EXPECT_TRUE(session_->buffer(memory_.data(), memory_.size()));
}

TEST_F(PublicAsyncTest, TheLibraryTellsItsVersionAndSettings) {
  const auto settings = penstock::settings();
  ASSERT_TRUE(settings);
  EXPECT_GT(settings->size(), 10u);
  EXPECT_STREQ(penstock::version(), penstock_version());
}

}  // namespace
