// SPDX-License-Identifier: Apache-2.0

// Handles that are closed in any order, used after their session's end, or in a forked child.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "penstock/penstock.hpp"

namespace {

using penstock::Completion;
using penstock::Config;
using penstock::Request;
using penstock::Session;

constexpr std::uint64_t kSize = 1 << 20;

class PublicLifetimeTest : public testing::Test {
 protected:
  void SetUp() override {
    fd_ = ::memfd_create("lifetime", MFD_CLOEXEC);
    ASSERT_EQ(::ftruncate(fd_, kSize), 0);
  }
  void TearDown() override { ::close(fd_); }

  static penstock::Result<Session> open() { return Session::open(Config().set("device", "host")); }

  int fd_ = -1;
  std::vector<char> memory_ = std::vector<char>(kSize);
};

TEST_F(PublicLifetimeTest, AFileThatOutlivesItsSessionAnswersClosed) {
  std::optional<Session> session(std::move(*open()));
  auto file = session->file(fd_);
  ASSERT_TRUE(file);

  session.reset();

  EXPECT_TRUE(file->read(memory_.data(), 10, 0).status.is(PENSTOCK_CLOSED));
  EXPECT_TRUE(file->info().error().is(PENSTOCK_CLOSED));
  EXPECT_TRUE(file->explain().error().is(PENSTOCK_CLOSED));
  EXPECT_TRUE(file->choose({}, 10, 0).error().is(PENSTOCK_CLOSED));
}

TEST_F(PublicLifetimeTest, AReferenceDoesNotKeepItsSessionOpen) {
  std::optional<Session> session(std::move(*open()));
  auto reference = session->reference();
  ASSERT_TRUE(reference);
  penstock::SessionInfo info;
  ASSERT_EQ(penstock_session_get(reference->raw(), &info).code, 0);

  session.reset();

  EXPECT_EQ(penstock_session_get(reference->raw(), &info).code, PENSTOCK_CLOSED);
  penstock_file* file = nullptr;
  EXPECT_EQ(penstock_file_register(reference->raw(), fd_, &file).code, PENSTOCK_CLOSED);
}

TEST_F(PublicLifetimeTest, GivingBackAReferenceClosesNothing) {
  auto session = open();
  ASSERT_TRUE(session->reference());

  EXPECT_TRUE(session->info());
}

TEST_F(PublicLifetimeTest, BuffersAndDeviceMemoryMayGoLast) {
  std::optional<Session> session(std::move(*open()));
  auto memory = session->allocate(0, 4096);
  auto buffer = session->buffer(memory_.data(), kSize);
  ASSERT_TRUE(memory && buffer);

  session.reset();

  EXPECT_TRUE(memory->upload(0, memory_.data(), 10).is(PENSTOCK_CLOSED));
}

TEST_F(PublicLifetimeTest, WhatAQueueHadDoneIsStillReapedAfterItsSession) {
  std::optional<Session> session(std::move(*open()));
  auto file = session->file(fd_);
  auto queue = session->polled_queue(4, 4096);
  ASSERT_TRUE(file && queue);
  ASSERT_TRUE(queue->submit(file->request(PENSTOCK_READ, memory_.data(), 4096, 0)).ok());

  session.reset();

  EXPECT_TRUE(queue->submit(file->request(PENSTOCK_READ, memory_.data(), 4096, 0)).is(PENSTOCK_CLOSED));
  Completion done;
  ASSERT_EQ(*queue->reap(&done, 1, 1), 1u);
  EXPECT_EQ(done.status.code, 0);
  EXPECT_EQ(done.report.bytes, 4096u);
}

TEST_F(PublicLifetimeTest, ARequestOnAnotherSessionsFileIsRefused) {
  auto one = open(), other = open();
  auto file = other->file(fd_);
  auto queue = one->polled_queue(4, 4096);
  ASSERT_TRUE(file && queue);

  EXPECT_TRUE(queue->submit(file->request(PENSTOCK_READ, memory_.data(), 4096, 0)).is(PENSTOCK_INVALID_ARGUMENT));
}

TEST_F(PublicLifetimeTest, ClosingBesideReadsLetsThemEndAndRefusesTheRest) {
  std::optional<Session> session(std::move(*open()));
  auto file = session->file(fd_);
  std::atomic<unsigned> begun{0};
  std::atomic<bool> has_failed{false};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (;;) {
        const penstock::Outcome outcome = file->read(memory_.data(), kSize, 0);
        ++begun;
        if (outcome.ok() && outcome.report.bytes == kSize) continue;
        if (!outcome.status.is(PENSTOCK_CLOSED)) has_failed = true;
        return;
      }
    });
  }
  while (begun < 16) std::this_thread::yield();

  session.reset();
  for (std::thread& thread : threads) thread.join();

  EXPECT_FALSE(has_failed);
}

TEST_F(PublicLifetimeTest, InAForkedChildEveryCallAnswersClosed) {
  auto session = open();
  auto file = session->file(fd_);
  auto queue = session->polled_queue(4, 4096);
  ASSERT_TRUE(file && queue);
  const pid_t child = ::fork();
  if (child == 0) {
    bool good = file->read(memory_.data(), 10, 0).status.is(PENSTOCK_CLOSED);
    good = good && session->info().error().is(PENSTOCK_CLOSED);
    good = good && queue->submit(file->request(PENSTOCK_READ, memory_.data(), 10, 0)).is(PENSTOCK_CLOSED);
    *file = penstock::File(nullptr);
    *queue = penstock::Queue(nullptr);
    *session = Session(nullptr);
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);

  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(file->read(memory_.data(), 10, 0).ok());
}

}  // namespace
