// SPDX-License-Identifier: Apache-2.0

// Requests on streams that have nothing else to do, so that they are there already when the call comes; and requests
// that are cut, on such streams and on others.
#include "fakes/stream_fixture.h"
#include "fakes/waiting.h"

namespace penstock::core {
namespace {

constexpr std::size_t kKiB = 1u << 10;
constexpr std::size_t kMiB = 1u << 20;
constexpr unsigned kNonBlocking = cuda::CU_STREAM_NON_BLOCKING;
// One range that FakeStorage has in its page cache, and one that it has not.
constexpr std::int64_t kCached = 512 * 9;
constexpr std::int64_t kNotCached = 512 * 8;

class StreamsThereTest : public StreamsTest {};
INSTANTIATE_TEST_SUITE_P(On, StreamsThereTest, testing::Values(On::host, On::cuda12, On::cuda11), name_of);

TEST_P(StreamsThereTest, AShortReadOfThePageCacheIsStagedInTheCall) {
  void* const stream = make_stream(kNonBlocking);
  char* const buffer = memory(kMiB);
  Parameters read{.size = 64 * kKiB, .file_offset = kCached, .buffer_offset = 7};

  expect_begins(Op::read, stream, buffer, read);

  EXPECT_EQ(read.result, 64 * kKiB);
  drain(stream);
  EXPECT_TRUE(is_content(buffer + 7, kCached, 64 * kKiB));
}

TEST_P(StreamsThereTest, TheEndOfTheFileIsFoundInTheCall) {
  void* const stream = make_stream(kNonBlocking);
  char* const buffer = memory(kMiB);
  Parameters read{.size = 64 * kKiB, .file_offset = static_cast<std::int64_t>(kFileBytes) - 5600};

  expect_begins(Op::read, stream, buffer, read);

  EXPECT_EQ(read.result, 5600);
  drain(stream);
  EXPECT_TRUE(is_content(buffer, kFileBytes - 5600, 5600));
  EXPECT_EQ(buffer[5600], '\0');
}

TEST_P(StreamsThereTest, WhatHasToComeFromStorageDoesNotKeepTheCaller) {
  void* const stream = make_stream(kNonBlocking);
  char* const buffer = memory(kMiB);
  EXPECT_EQ(run(Op::read, stream, buffer, {.size = 9000, .file_offset = kNotCached}), 9000);
  EXPECT_TRUE(is_content(buffer, kNotCached, 9000));
}

TEST_P(StreamsThereTest, AStreamWithWorkBeforeItIsWaitedFor) {
  void* const stream = make_stream(kNonBlocking);
  char* const buffer = memory(kMiB);
  Parameters read{.size = 4096, .file_offset = kCached};
  {
    Hold hold(home(stream), stream);
    EXPECT_FALSE(home(stream).is_through(stream));
    expect_begins(Op::read, stream, buffer, read);
    EXPECT_EQ(read.result, kNothing);
    read.size = 100;
  }
  drain(stream);
  EXPECT_EQ(read.result, 100);
  EXPECT_TRUE(home(stream).is_through(stream));
}

TEST_P(StreamsThereTest, AReadFindsWhatWasWrittenBeforeItOnTheStream) {
  void* const stream = make_stream(kNonBlocking);
  char* const buffer = memory(kMiB);
  for (char value = 1; value < 20; ++value) {
    std::memset(buffer, value, 4096);
    Parameters write{.size = 4096, .file_offset = kCached};
    Parameters read{.size = 4096, .file_offset = kCached, .buffer_offset = 8192};
    expect_begins(Op::write, stream, buffer, write);
    expect_begins(Op::read, stream, buffer, read);
    drain(stream);
    ASSERT_EQ(read.result, 4096);
    ASSERT_EQ(buffer[8192 + 4095], value);
  }
}

TEST_P(StreamsThereTest, OfAStreamThatWaitsForDefaultStreamsNothingIsToldAhead) {
  if (!is_cuda()) GTEST_SKIP() << "all streams of the stand-in are alike";
  void* const blocking = make_stream();
  EXPECT_FALSE(home(blocking).is_through(blocking));
  EXPECT_FALSE(home(nullptr).is_through(nullptr));
}

TEST_P(StreamsThereTest, AFailureIsToldAsEver) {
  void* const stream = make_stream(kNonBlocking);
  char* const buffer = memory(kMiB);
  EXPECT_EQ(run(Op::read, stream, buffer, {.size = 4096, .file_offset = -1}), failed(Code::negative_offset));
  EXPECT_EQ(run(Op::read, stream, buffer, {.size = 4096, .file_offset = kCached, .buffer_offset = kMiB}),
            failed(Code::past_allocation));
  storage_->faults.assign(40, {.error = EIO});
  EXPECT_EQ(run(Op::read, stream, buffer, {.size = 4096, .file_offset = kCached}), -EIO);
}

TEST_P(StreamsThereTest, ReadsAreCutForSeveralThreads) {
  for (const unsigned flags : {0u, kNonBlocking}) {
    void* const stream = make_stream(flags);
    char* const buffer = memory(kFileBytes);
    for (const std::size_t size : {128 * kKiB, 128 * kKiB + 1, 300 * kKiB, 512 * kKiB, kMiB - 1, kMiB, 3 * kMiB,
                                   16 * kMiB, 16 * kMiB + 1, 20 * kMiB + 3}) {
      std::memset(buffer, 0, size);
      ASSERT_EQ(run(Op::read, stream, buffer, {.size = size, .file_offset = 4097}), static_cast<std::int64_t>(size));
      ASSERT_TRUE(is_content(buffer, 4097, size)) << size << " bytes, flags " << flags;
    }
  }
}

TEST_P(StreamsThereTest, ThousandsOfShortReadsOnAFewStreamsArriveInOrder) {
  constexpr unsigned kStreams = 8, kRequests = 2000;
  std::vector<void*> streams;
  for (unsigned i = 0; i < kStreams; ++i) streams.push_back(make_stream(kNonBlocking));
  char* const buffer = memory(kStreams * 8192);
  std::vector<Parameters> requests(kRequests);
  for (unsigned i = 0; i < kRequests; ++i) {
    requests[i] = {.size = 4096, .file_offset = static_cast<std::int64_t>(i) * 512};
    requests[i].buffer_offset = i % kStreams * 8192;
    expect_begins(Op::read, streams[i % kStreams], buffer, requests[i]);
  }
  for (void* const stream : streams) drain(stream);
  for (const Parameters& request : requests) ASSERT_EQ(request.result, 4096);
  for (unsigned i = kRequests - kStreams; i < kRequests; ++i) {
    EXPECT_TRUE(is_content(buffer + requests[i].buffer_offset, std::size_t{i} * 512, 4096)) << i;
  }
}

}  // namespace
}  // namespace penstock::core
