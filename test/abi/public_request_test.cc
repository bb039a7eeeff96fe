// SPDX-License-Identifier: Apache-2.0

// All members of penstock_request, none of which may be silently ignored.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "penstock/penstock.hpp"

namespace {

using penstock::Completion;
using penstock::Config;
using penstock::Request;
using penstock::Session;

class PublicRequestTest : public testing::Test {
 protected:
  void SetUp() override {
    fd_ = ::memfd_create("request", MFD_CLOEXEC);
    ASSERT_GE(fd_, 0);
  }
  void TearDown() override { ::close(fd_); }
  int fd_ = -1;
};

Request requiring(penstock_path path, Request request) {
  request.flags = PENSTOCK_REQUEST_REQUIRES_PATH;
  request.required_path = path;
  return request;
}

TEST_F(PublicRequestTest, ARequestsOwnRequiredPathHoldsForItAlone) {
  auto session = Session::open(Config().set("device", "host").set("paths", "bounce,null"));
  auto file = session->file(fd_);
  auto memory = session->allocate(0, 4096);
  const Request plain = file->request(PENSTOCK_WRITE, memory->data(), 4096, 0);
  const Request by_null = requiring(PENSTOCK_PATH_NULL, plain), by_host = requiring(PENSTOCK_PATH_HOST, plain);
  penstock::Report report;
  penstock::Choice choice;

  EXPECT_EQ(penstock_transfer(&by_host, &report).code, PENSTOCK_PATH_REFUSED);
  EXPECT_EQ(penstock_choose(&by_host, &choice).code, PENSTOCK_PATH_REFUSED);
  ASSERT_EQ(penstock_transfer(&by_null, &report).code, PENSTOCK_OK);
  EXPECT_STREQ(report.path_name(), "null");
  ASSERT_EQ(penstock_transfer(&plain, &report).code, PENSTOCK_OK);
  EXPECT_STREQ(report.path_name(), "bounce");
}

TEST_F(PublicRequestTest, AQueueKeepsApartWhatRequiresAPathAndWhatDoesNot) {
  auto session = Session::open(Config().set("device", "host").set("paths", "bounce,null"));
  auto file = session->file(fd_);
  auto memory = session->allocate(0, 4096);
  auto registered = session->buffer(memory->data(), 4096);
  auto polled = session->polled_queue(4, 4096), threaded = session->queue(4);
  const Request plain = file->request(PENSTOCK_WRITE, memory->data(), 4096, 0);
  const Request requests[] = {plain, requiring(PENSTOCK_PATH_NULL, plain), plain};
  for (penstock::Queue* const queue : {&*polled, &*threaded}) {
    unsigned by_null = 0;
    for (const Request& request : requests) {
      Completion done;
      ASSERT_TRUE(queue->submit(request).ok());
      ASSERT_EQ(*queue->reap(&done, 1, 1), 1u);
      ASSERT_EQ(done.status.code, 0);
      by_null += done.report.path == PENSTOCK_PATH_NULL ? 1 : 0;
    }
    EXPECT_EQ(by_null, 1u);
    const Request refused = requiring(PENSTOCK_PATH_HOST, plain);
    const penstock::Status status = queue->submit(refused);
    Completion done;
    if (status.ok()) {
      ASSERT_EQ(*queue->reap(&done, 1, 1), 1u);
    }
    EXPECT_TRUE((status.ok() ? penstock::Status(done.status) : status).is(PENSTOCK_PATH_REFUSED));
  }
}

TEST_F(PublicRequestTest, WhatARequestSaysThatMeansNothingIsRefused) {
  auto session = Session::open(Config().set("device", "host"));
  auto file = session->file(fd_);
  char memory[16] = {};
  const Request plain = file->request(PENSTOCK_WRITE, memory, 16, 0);
  Request path_without_flag = plain, unknown_flag = plain, no_path = requiring(PENSTOCK_PATH_NULL, plain), late = plain;
  path_without_flag.required_path = PENSTOCK_PATH_HOST;
  unknown_flag.flags = 1u << 31;
  no_path.required_path = 99;
  late.deadline_ns = 1;

  EXPECT_EQ(penstock_transfer(&path_without_flag, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_transfer(&unknown_flag, nullptr).code, PENSTOCK_UNSUPPORTED);
  EXPECT_EQ(penstock_transfer(&no_path, nullptr).code, PENSTOCK_INVALID_ARGUMENT);
  EXPECT_EQ(penstock_transfer(&late, nullptr).code, PENSTOCK_TIMED_OUT);
  EXPECT_EQ(::lseek(fd_, 0, SEEK_END), 0);
}

}  // namespace
