// SPDX-License-Identifier: Apache-2.0

// Requests in the order of streams: the moments of reads and writes, and that no stream waits for ever.
#include "frontend/streams.h"

#include <thread>

#include "fakes/stream_fixture.h"
#include "fakes/waiting.h"

namespace penstock::core {
namespace {

INSTANTIATE_TEST_SUITE_P(On, StreamsTest, testing::Values(On::host, On::cuda12, On::cuda11), name_of);

constexpr std::size_t kMiB = 1u << 20;

TEST_P(StreamsTest, AReadWaitsForItsStream) {
  void* const stream = make_stream();
  char* const buffer = memory(kMiB);
  Parameters read{.size = 5000, .file_offset = 100, .buffer_offset = 7};
  {
    Hold hold(home(stream), stream);
    expect_begins(Op::read, stream, buffer, read);
    give_time_to_go_wrong(std::chrono::milliseconds(5));
    EXPECT_EQ(read.result, kNothing);
    EXPECT_EQ(buffer[7], '\0');
    hold.release();
    drain(stream);
  }
  EXPECT_EQ(read.result, 5000);
  EXPECT_TRUE(is_content(buffer + 7, 100, 5000));
  EXPECT_EQ(buffer[5007], '\0');
}

TEST_P(StreamsTest, ReadsAndWritesOfAllSizesArrive) {
  void* const stream = make_stream();
  char* const buffer = memory(kFileBytes);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{4095}, std::size_t{65537}, 4 * kMiB,
                                 4 * kMiB + 1, 8 * kMiB, 13 * kMiB + 5}) {
    const Parameters request{.size = size, .file_offset = 4097, .buffer_offset = 33};
    ASSERT_EQ(run(Op::read, stream, buffer, request), static_cast<std::int64_t>(size));
    ASSERT_TRUE(is_content(buffer + 33, 4097, size)) << size;

    for (std::size_t i = 0; i < size; ++i) buffer[33 + i] = static_cast<char>(i * 31 + size);
    ASSERT_EQ(run(Op::write, stream, buffer, request), static_cast<std::int64_t>(size));
    ASSERT_TRUE(is_content(buffer + 33, 4097, size)) << size;
  }
}

TEST_P(StreamsTest, TheEndOfTheFileIsAShortCountThenZero) {
  void* const stream = make_stream();
  char* const buffer = memory(16 * kMiB);
  EXPECT_EQ(run(Op::read, stream, buffer, {.size = 9 * kMiB, .file_offset = kFileBytes - 5 * kMiB}), 5 * kMiB);
  EXPECT_TRUE(is_content(buffer, kFileBytes - 5 * kMiB, 5 * kMiB));
  EXPECT_EQ(buffer[5 * kMiB], '\0');
  EXPECT_EQ(run(Op::read, stream, buffer, {.size = 9 * kMiB, .file_offset = kFileBytes}), 0);
}

TEST_P(StreamsTest, ParametersAreReadWhenTheStreamArrives) {
  void* const stream = make_stream();
  char* const buffer = memory(kMiB);
  Parameters read{.size = 9000, .file_offset = 1, .buffer_offset = 2};
  {
    Hold hold(home(stream), stream);
    expect_begins(Op::read, stream, buffer, read);
    read.size = 600;
    read.file_offset = 10'000;
    read.buffer_offset = 50;
  }
  drain(stream);
  EXPECT_EQ(read.result, 600);
  EXPECT_TRUE(is_content(buffer + 50, 10'000, 600));
  EXPECT_EQ(buffer[2], '\0');
}

TEST_P(StreamsTest, WhatARegisteredStreamFixesIsReadAtTheCall) {
  char* const buffer = memory(kMiB);
  for (const unsigned flags : {0u, 1u, 2u, 4u, 15u}) {
    void* const stream = make_stream();
    ASSERT_TRUE(streams().register_stream(stream, flags).ok());
    Parameters read{.size = 700, .file_offset = 20'000, .buffer_offset = 10};
    {
      Hold hold(home(stream), stream);
      expect_begins(Op::read, stream, buffer, read);
      read.size = 300;
      read.file_offset = 90'000;
      read.buffer_offset = 2000;
    }
    drain(stream);
    EXPECT_EQ(read.result, (flags & 4) != 0 ? 700 : 300);
    EXPECT_TRUE(is_content(buffer + ((flags & 1) != 0 ? 10 : 2000), (flags & 2) != 0 ? 20'000 : 90'000, 300));
  }
}

TEST_P(StreamsTest, WhatTheCallerFixesIsReadAtTheCallWhateverTheStreamsRegistrationSays) {
  void* const stream = make_stream();
  ASSERT_TRUE(streams().register_stream(stream, 0).ok());
  char* const buffer = memory(kMiB);
  std::int64_t result = kNothing;
  {
    Hold hold(home(stream), stream);
    Parameters read{.size = 700, .file_offset = 20'000, .buffer_offset = 10};
    StreamParameters fixed{Op::read, file_, buffer, &read.size, &read.file_offset, &read.buffer_offset, &result, true};
    EXPECT_TRUE(streams().submit(stream, fixed, {deliver, nullptr, nullptr}).ok());
    read = {.size = 300, .file_offset = 90'000, .buffer_offset = 2000};
  }
  drain(stream);
  EXPECT_EQ(result, 700);
  EXPECT_TRUE(is_content(buffer + 10, 20'000, 700));
  EXPECT_EQ(buffer[2000], '\0');
}

// A caller that takes the whole outcome.
struct Delivered {
  static void take(void* result, const RawRequest& request, const Outcome& outcome) {
    *static_cast<Delivered*>(result) = {request, outcome, 1 + static_cast<Delivered*>(result)->times};
  }
  RawRequest request;
  Outcome outcome;
  int times = 0;
};

TEST_P(StreamsTest, AReportIsDeliveredWithTheOutcome) {
  void* const stream = make_stream();
  char* const buffer = memory(16 * kMiB);
  Parameters read{.size = 9 * kMiB, .file_offset = 4096};
  Delivered delivered;
  const StreamParameters wanted{Op::read,  file_, buffer, &read.size, &read.file_offset, &read.buffer_offset,
                                &delivered};

  ASSERT_TRUE(streams().submit(stream, wanted, {Delivered::take, nullptr, nullptr}).ok());
  drain(stream);

  EXPECT_EQ(delivered.times, 1);
  EXPECT_TRUE(delivered.outcome.status.ok());
  EXPECT_EQ(delivered.outcome.report.bytes, 9 * kMiB);
  EXPECT_EQ(delivered.outcome.report.path, PathId::bounce);
  EXPECT_EQ(delivered.request.file_offset, 4096);
}

TEST_P(StreamsTest, AFailureIsDeliveredAsAStatus) {
  void* const stream = make_stream();
  char* const buffer = memory(kMiB);
  Parameters read{.size = 4096, .file_offset = -1};
  Delivered delivered;
  const StreamParameters wanted{Op::read,  file_, buffer, &read.size, &read.file_offset, &read.buffer_offset,
                                &delivered};

  ASSERT_TRUE(streams().submit(stream, wanted, {Delivered::take, nullptr, nullptr}).ok());
  drain(stream);

  EXPECT_EQ(delivered.times, 1);
  EXPECT_TRUE(delivered.outcome.status.is(Code::negative_offset)) << describe(delivered.outcome.status);
}

TEST_P(StreamsTest, ARequestOfNothingIsDeliveredBeforeTheCallReturns) {
  void* const stream = make_stream();
  char* const buffer = memory(kMiB);
  Parameters read{.size = 0, .file_offset = 4096};
  Delivered delivered;
  const StreamParameters wanted{Op::read,  file_, buffer, &read.size, &read.file_offset, &read.buffer_offset,
                                &delivered};

  ASSERT_TRUE(streams().submit(stream, wanted, {Delivered::take, nullptr, nullptr}).ok());

  EXPECT_EQ(delivered.times, 1);
  EXPECT_TRUE(delivered.outcome.status.ok());
  EXPECT_EQ(delivered.outcome.report.bytes, 0u);
  EXPECT_EQ(delivered.request.file_offset, 4096);
}

TEST_P(StreamsTest, TheResultIsWrittenBeforeTheStreamGoesOn) {
  void* const stream = make_stream();
  char* const buffer = memory(16 * kMiB);
  struct Seen {
    Parameters parameters{.size = 9 * kMiB};
    const char* last = nullptr;
    std::int64_t result = 0;
    char byte = 0;
  } seen;
  seen.last = buffer + 9 * kMiB - 1;
  expect_begins(Op::read, stream, buffer, seen.parameters);
  const auto look = [](void* argument) {
    auto& at = *static_cast<Seen*>(argument);
    at.result = at.parameters.result;
    at.byte = *at.last;
  };
  ASSERT_TRUE(home(stream).work().call(stream, look, &seen).ok());
  drain(stream);
  EXPECT_EQ(seen.result, 9 * kMiB);
  EXPECT_EQ(seen.byte, storage_->content[9 * kMiB - 1]);
}

TEST_P(StreamsTest, AWriteTakesWhatTheStreamHasMadeOfTheBuffer) {
  void* const stream = make_stream();
  char* const buffer = memory(kMiB);
  Parameters read{.size = 5000, .file_offset = 0}, write{.size = 5000, .file_offset = 100'000};
  Hold hold(home(stream), stream);
  expect_begins(Op::read, stream, buffer, read);
  expect_begins(Op::write, stream, buffer, write);
  std::memset(buffer, 'x', 5000);
  hold.release();
  drain(stream);
  EXPECT_EQ(write.result, 5000);
  EXPECT_TRUE(is_content(storage_->content.data() + 100'000, 0, 5000));
}

// Each of them waits for the other in the middle of its work.
TEST_P(StreamsTest, TwoStreamsThatWaitForOneAnothersDataComeToAnEnd) {
  if (!has_words()) GTEST_SKIP() << "a stream cannot wait for another by a word here";
  void* const there = make_stream();
  void* const back = make_stream();
  char* const buffer = memory(kMiB);
  StreamHome& one = home(there);
  StreamBlock& block = *one.memory().take(0, UINT64_MAX).value();
  const std::uint32_t filled = ++block.begun[0], written = ++block.begun[1];
  Parameters first{.size = 4096}, copied{.size = 4096, .file_offset = 8 * kMiB}, again{.size = 4096};
  again.file_offset = 8 * kMiB;
  again.buffer_offset = 8192;

  ASSERT_TRUE(one.work().wait(back, block, block.word(0), filled).ok());
  expect_begins(Op::write, back, buffer, copied);
  ASSERT_TRUE(one.work().write(back, block, block.word(1), written).ok());
  expect_begins(Op::read, there, buffer, first);
  ASSERT_TRUE(one.work().write(there, block, block.word(0), filled).ok());
  ASSERT_TRUE(one.work().wait(there, block, block.word(1), written).ok());
  expect_begins(Op::read, there, buffer, again);
  drain(back);
  drain(there);

  EXPECT_EQ(again.result, 4096);
  EXPECT_TRUE(is_content(buffer + 8192, 0, 4096));
  one.memory().give_back(block);
}

TEST_P(StreamsTest, AThousandRequestsOnTwentyStreamsFromFourThreads) {
  constexpr unsigned kThreads = 4, kStreams = 5, kRounds = 50;
  std::vector<void*> handles;
  for (unsigned i = 0; i < kThreads * kStreams; ++i) handles.push_back(make_stream(1));
  char* const buffer = memory(kThreads * kStreams * kRounds * 4096);
  std::vector<Parameters> requests(kThreads * kStreams * kRounds);
  cuda::CUcontext context = nullptr;
  if (is_cuda()) driver("cuCtxGetCurrent", &context);

  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      if (is_cuda()) driver("cuCtxPushCurrent_v2", context);
      for (unsigned i = thread; i < requests.size(); i += kThreads) {
        requests[i].size = 1 + i % 4096;
        requests[i].file_offset = static_cast<std::int64_t>(i * 97);
        requests[i].buffer_offset = static_cast<std::int64_t>(i) * 4096;
        expect_begins(Op::read, handles[i % handles.size()], buffer, requests[i]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (void* const handle : handles) drain(handle);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    ASSERT_EQ(requests[i].result, static_cast<std::int64_t>(requests[i].size));
    ASSERT_TRUE(is_content(buffer + i * 4096, i * 97, requests[i].size)) << i;
  }
}

// So many that on a GPU no copy and no kernel runs beside them.
TEST_P(StreamsTest, ManyHeldStreamsHoldNobodyUp) {
  if (!has_words()) GTEST_SKIP() << "holding a stream holds all host functions up here";
  constexpr unsigned kStreams = 200;
  char* const buffer = memory(kStreams * 8192);
  std::vector<void*> handles;
  std::vector<Parameters> requests(kStreams);
  std::vector<std::unique_ptr<Hold>> holds;
  for (unsigned i = 0; i < kStreams; ++i) {
    handles.push_back(make_stream(1));
    holds.push_back(std::make_unique<Hold>(home(handles[i]), handles[i]));
    requests[i] = {.size = 8192, .file_offset = i * 8192, .buffer_offset = i * 8192};
    expect_begins(i % 2 == 0 ? Op::read : Op::write, handles[i], buffer, requests[i]);
  }
  for (auto& hold : holds) hold->release();
  for (void* const handle : handles) drain(handle);
  for (unsigned i = 0; i < kStreams; ++i) {
    EXPECT_EQ(requests[i].result, 8192);
    EXPECT_TRUE(is_content(buffer + i * 8192, i * 8192, 8192));
  }
}

TEST_P(StreamsTest, HostMemoryNeedsNoStaging) {
  void* const stream = make_stream();
  std::vector<char> buffer(9 * kMiB);
  const std::uint64_t before = home(stream).memory().bytes();
  EXPECT_EQ(run(Op::read, stream, buffer.data(), {.size = buffer.size(), .file_offset = 3}), 9 * kMiB);
  EXPECT_TRUE(is_content(buffer.data(), 3, buffer.size()));
  EXPECT_EQ(run(Op::write, stream, buffer.data(), {.size = buffer.size()}), 9 * kMiB);
  EXPECT_TRUE(is_content(buffer.data(), 0, buffer.size()));
  EXPECT_LE(home(stream).memory().bytes() - before, 2 * kMiB);
}

TEST_P(StreamsTest, DefaultStreamsAreStreamsToo) {
  char* const buffer = memory(kMiB);
  for (const std::uintptr_t handle : {0, 1, 2}) {
    auto* const stream = reinterpret_cast<void*>(handle);
    ASSERT_TRUE(streams().register_stream(stream, 0).ok());
    EXPECT_EQ(run(Op::read, stream, buffer, {.size = 5000, .file_offset = 55}), 5000);
    EXPECT_TRUE(is_content(buffer, 55, 5000));
    EXPECT_TRUE(streams().deregister_stream(stream).ok());
  }
}

TEST_P(StreamsTest, RequestsThroughPathsAreCounted) {
  void* const stream = make_stream();
  char* const buffer = memory(16 * kMiB);
  EXPECT_EQ(run(Op::read, stream, buffer, {.size = 9 * kMiB}), 9 * kMiB);
  std::uint64_t bytes = 0;
  for (unsigned reason = 0; reason < kReasonCount; ++reason) {
    bytes += session_->counters().total(PathId::bounce, static_cast<Reason>(reason), Op::read).bytes;
  }
  EXPECT_EQ(bytes, 9 * kMiB);
}

TEST_P(StreamsTest, DeregisteringWaitsForTheStream) {
  void* const stream = make_stream();
  char* const buffer = memory(16 * kMiB);
  Parameters read{.size = 16 * kMiB};
  ASSERT_TRUE(streams().register_stream(stream, 15).ok());
  expect_begins(Op::read, stream, buffer, read);
  ASSERT_TRUE(streams().deregister_stream(stream).ok());
  EXPECT_EQ(read.result, 16 * kMiB);
  EXPECT_TRUE(is_content(buffer, 0, 16 * kMiB));
}

TEST_P(StreamsTest, AStreamIsRegisteredOnce) {
  void* const stream = make_stream();
  EXPECT_TRUE(streams().deregister_stream(stream).is(Code::invalid_argument));
  EXPECT_TRUE(streams().register_stream(stream, 15).ok());
  EXPECT_TRUE(streams().register_stream(stream, 15).is(Code::invalid_argument));
  EXPECT_TRUE(streams().deregister_stream(stream).ok());
  EXPECT_TRUE(streams().deregister_stream(stream).is(Code::invalid_argument));
}

}  // namespace
}  // namespace penstock::core
