// SPDX-License-Identifier: Apache-2.0

// Structures of callers that were compiled with an older or newer header than the library's.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "penstock/penstock.hpp"

namespace {

using penstock::Config;
using penstock::File;
using penstock::Queue;
using penstock::Session;

// A structure as a later version may have it.
template <typename T>
struct Newer {
  T known{};
  std::uint64_t more = 0;

  Newer() { known.struct_size = sizeof *this; }
};

class PublicStructsTest : public testing::Test {
 protected:
  void SetUp() override {
    fd_ = ::memfd_create("structs", MFD_CLOEXEC);
    ASSERT_EQ(::ftruncate(fd_, 8192), 0);
    auto session = Session::open(Config().set("device", "host"));
    ASSERT_TRUE(session) << session.error().message();
    session_ = std::move(*session);
    auto file = session_.file(fd_);
    ASSERT_TRUE(file) << file.error().message();
    file_ = std::move(*file);
  }
  void TearDown() override { ::close(fd_); }

  int fd_ = -1;
  Session session_{nullptr};
  File file_{nullptr};
  char memory_[8192] = {};
};

TEST_F(PublicStructsTest, AStructureWhoseSizeIsNotSetIsRefused) {
  penstock_report report{};
  penstock_file_info info{};
  penstock_request request{};
  std::uint32_t count = 0;

  EXPECT_EQ(penstock_read(file_.raw(), memory_, 10, 0, 0, &report).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_file_get(file_.raw(), &info).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_explain(&request, nullptr, 0, &count).code, PENSTOCK_INVALID_ARGUMENT);
}

TEST_F(PublicStructsTest, ASizeThatNoVersionEverHadIsRefused) {
  penstock_report report{};
  for (const std::uint32_t size : {1u, 55u, 1u << 20, UINT32_MAX}) {
    report.struct_size = size;
    EXPECT_EQ(penstock_read(file_.raw(), memory_, 10, 0, 0, &report).code, PENSTOCK_INVALID_ARGUMENT) << size;
  }
}

TEST_F(PublicStructsTest, WhatTheLibraryCannotTellIsZeroAfterwards) {
  Newer<penstock_report> newer;
  newer.more = UINT64_MAX;

  ASSERT_EQ(penstock_read(file_.raw(), memory_, 10, 0, 0, &newer.known).code, 0);

  EXPECT_EQ(newer.known.bytes, 10u);
  EXPECT_EQ(newer.known.struct_size, sizeof newer);
  EXPECT_EQ(newer.more, 0u);
}

TEST_F(PublicStructsTest, ANewerRequestIsTakenWhereItSaysNothingMore) {
  Newer<penstock_request> newer;
  newer.known.file = file_.raw();
  penstock::Choice choice;
  ASSERT_EQ(penstock_choose(&newer.known, &choice).code, 0);

  newer.more = 1;

  EXPECT_EQ(penstock_choose(&newer.known, &choice).code, PENSTOCK_UNSUPPORTED);
}

TEST_F(PublicStructsTest, AnArrayOfNewerStructuresIsLaidOutAsItsCallerHasIt) {
  auto queue = session_.polled_queue(4, 4096);
  ASSERT_TRUE(queue) << queue.error().message();
  Newer<penstock_request> requests[2];
  for (unsigned i = 0; i < 2; ++i) {
    requests[i].known.file = file_.raw();
    requests[i].known.base = memory_;
    requests[i].known.size = 100 + i;
    requests[i].known.cookie = 7 + i;
  }
  std::uint32_t submitted = 0, count = 0;
  Newer<penstock_completion> done[2];
  done[1].more = 99;

  ASSERT_EQ(penstock_queue_submit(queue->raw(), &requests[0].known, 2, &submitted).code, 0);
  ASSERT_EQ(penstock_queue_reap(queue->raw(), &done[0].known, 2, 2, Queue::kForever, &count).code, 0);

  EXPECT_EQ(submitted, 2u);
  ASSERT_EQ(count, 2u);
  for (const auto& one : done) {
    EXPECT_EQ(one.known.report.bytes, 100 + one.known.cookie - 7);
    EXPECT_EQ(one.known.report.struct_size, sizeof one - offsetof(penstock_completion, report));
    EXPECT_EQ(one.more, 0u);
  }
}

TEST_F(PublicStructsTest, OfSeveralRequestsThoseBeforeTheFirstBadOneAreTaken) {
  auto queue = session_.polled_queue(4, 4096);
  Newer<penstock_request> requests[3];
  for (auto& request : requests) {
    request.known.file = file_.raw();
    request.known.base = memory_;
    request.known.size = 10;
  }
  requests[1].more = 1;
  std::uint32_t submitted = 0;

  EXPECT_EQ(penstock_queue_submit(queue->raw(), &requests[0].known, 3, &submitted).code, PENSTOCK_UNSUPPORTED);

  EXPECT_EQ(submitted, 1u);
}

TEST_F(PublicStructsTest, WhatAnArrayHasNoRoomForIsCounted) {
  penstock::Verdict one;
  penstock::Request request;
  request.file = file_.raw();
  std::uint32_t count = 0;

  ASSERT_EQ(penstock_explain(&request, &one, 1, &count).code, 0);

  EXPECT_GE(count, 5u);
  EXPECT_STREQ(one.path_name(), "p2pdma");
}

}  // namespace
