// SPDX-License-Identifier: Apache-2.0

// Requests on streams that cannot be, go wrong, or find that what they need is gone.
#include <thread>

#include "fakes/forbidden_calls.h"
#include "fakes/stream_fixture.h"
#include "frontend/transfer.h"

namespace penstock::core {
namespace {

constexpr std::size_t kMiB = 1u << 20;

class StreamsFailureTest : public StreamsTest {};
class FakeCudaStreamsTest : public StreamsTest {};
INSTANTIATE_TEST_SUITE_P(On, StreamsFailureTest, testing::Values(On::host, On::cuda12, On::cuda11), name_of);
INSTANTIATE_TEST_SUITE_P(On, FakeCudaStreamsTest, testing::Values(On::cuda12, On::cuda11), name_of);

TEST_P(StreamsFailureTest, WhatTheStreamFindsAndCannotBeIsToldByTheResult) {
  void* const stream = make_stream();
  char* const buffer = memory(kMiB);
  const auto found = [&](Op op, const Parameters& later) {
    Parameters parameters{.size = 4096};
    {
      Hold hold(home(stream), stream);
      expect_begins(op, stream, buffer, parameters);
      parameters = later;
    }
    drain(stream);
    return parameters.result;
  };
  for (const Op op : {Op::read, Op::write}) {
    EXPECT_EQ(found(op, {.size = 4097}), failed(Code::invalid_argument)) << "more than was said at the call";
    EXPECT_EQ(found(op, {.size = 4096, .file_offset = -1}), failed(Code::negative_offset));
    EXPECT_EQ(found(op, {.size = 4096, .buffer_offset = -1}), failed(Code::negative_offset));
    EXPECT_EQ(found(op, {.size = 4096, .buffer_offset = 1 << 20}), failed(Code::past_allocation));
    EXPECT_EQ(found(op, {.size = 4096, .buffer_offset = INT64_MAX}), failed(Code::past_allocation));
    EXPECT_EQ(found(op, {.size = 4096, .file_offset = INT64_MAX}), failed(Code::invalid_argument));
    EXPECT_EQ(found(op, {.size = 4096, .file_offset = 512}), 4096);
  }
}

TEST_P(StreamsFailureTest, ARegisteredBufferBoundsARequest) {
  void* const stream = make_stream();
  char* const buffer = memory(kMiB);
  ASSERT_TRUE(session_->register_buffer(buffer, 8192).ok());
  const std::vector<char> before = storage_->content;
  EXPECT_EQ(run(Op::read, stream, buffer, {.size = 4096, .buffer_offset = 4097}), failed(Code::out_of_range));
  EXPECT_EQ(run(Op::write, stream, buffer, {.size = 4096, .buffer_offset = 4097}), failed(Code::out_of_range));
  EXPECT_EQ(run(Op::read, stream, buffer, {.size = 4096, .buffer_offset = 4096}), 4096);
  EXPECT_EQ(storage_->content, before);
}

TEST_P(StreamsFailureTest, AnErrorOfTheStorageIsToldAndEndsTheRequest) {
  void* const stream = make_stream();
  char* const buffer = memory(16 * kMiB);
  storage_->faults.assign(40, {.error = EIO});
  EXPECT_EQ(run(Op::read, stream, buffer, {.size = 16 * kMiB}), -EIO);
  storage_->faults.assign(40, {.error = ENOSPC});
  EXPECT_EQ(run(Op::write, stream, buffer, {.size = 16 * kMiB}), -ENOSPC);
  storage_->faults.clear();
  EXPECT_EQ(run(Op::read, stream, buffer, {.size = 16 * kMiB}), 16 * kMiB);
}

TEST_P(StreamsFailureTest, AFileThatIsGoneAtTheArrivalIsNotRegistered) {
  void* const stream = make_stream();
  char* const buffer = memory(kMiB);
  Parameters read{.size = 4096}, write{.size = 4096};
  {
    Hold hold(home(stream), stream);
    expect_begins(Op::read, stream, buffer, read);
    expect_begins(Op::write, stream, buffer, write);
    ASSERT_TRUE(session_->deregister_file(file_).ok());
  }
  drain(stream);
  EXPECT_EQ(read.result, failed(Code::not_registered));
  EXPECT_EQ(write.result, failed(Code::not_registered));
  EXPECT_TRUE(submit(Op::read, stream, buffer, read).is(Code::not_registered));
}

TEST_P(StreamsFailureTest, AStreamThatArrivesAfterTheSessionIsClosedGoesOn) {
  void* const stream = make_stream();
  StreamHome& there = home(stream);
  char* const buffer = memory(kMiB);
  std::vector<char> host(4096);
  Parameters read{.size = 4096}, write{.size = 9 * kMiB}, of_host{.size = 4096};
  // The session has page-locked memory then, which the driver takes back only once no stream is held.
  ASSERT_TRUE(transfer(*session_, {.file = file_, .base = buffer, .size = kMiB}).status.ok());
  Hold hold(there, stream);
  expect_begins(Op::read, stream, buffer, read);
  expect_begins(Op::write, stream, memory(9 * kMiB), write);
  expect_begins(Op::read, stream, host.data(), of_host);
  close();
  EXPECT_EQ(read.result, kNothing);
  hold.release();
  ASSERT_TRUE(there.drain(stream).ok());
  EXPECT_EQ(read.result, failed(Code::closed));
  EXPECT_EQ(write.result, failed(Code::closed));
  EXPECT_EQ(of_host.result, failed(Code::closed));
}

TEST_P(StreamsFailureTest, ClosingFinishesWhatHasBegun) {
  std::vector<Parameters> requests(40, {.size = 300'000});
  std::vector<void*> handles;
  char* const buffer = memory(40 * 300'000);
  for (Parameters& request : requests) {
    request.buffer_offset = (&request - requests.data()) * 300'000;
    handles.push_back(make_stream(1));
    expect_begins(Op::read, handles.back(), buffer, request);
  }
  StreamHome& there = home(handles[0]);
  close();
  for (void* const handle : handles) EXPECT_TRUE(there.drain(handle).ok());
  for (const Parameters& request : requests) {
    EXPECT_TRUE(request.result == 300'000 || request.result == failed(Code::closed)) << request.result;
  }
}

TEST_P(StreamsFailureTest, WithoutRoomForStagingARequestIsRefusedUntilThereIsSome) {
  void* const stream = make_stream();
  const std::uint64_t had = home(stream).memory().bytes();
  open(had + 6 * kMiB);  // Memory is kept from session to session.
  char* const buffer = memory(16 * kMiB);
  std::vector<Parameters> requests(1000, {.size = 16 * kMiB});
  std::size_t begun = 0;
  {
    Hold hold(home(stream), stream);
    Status status;
    while (begun < requests.size()) {
      status = submit(Op::read, stream, buffer, requests[begun]);
      if (!status.ok()) break;
      ++begun;
    }
    EXPECT_TRUE(status.is(Code::limit)) << describe(status);
    EXPECT_GE(begun, 1u);
    ASSERT_LT(begun, requests.size());
    EXPECT_EQ(requests[begun].result, kNothing);
  }
  drain(stream);
  for (std::size_t i = 0; i < begun; ++i) EXPECT_EQ(requests[i].result, 16 * kMiB);
  EXPECT_TRUE(is_content(buffer, 0, 16 * kMiB));
  EXPECT_EQ(run(Op::read, stream, buffer, {.size = 16 * kMiB}), 16 * kMiB);
  EXPECT_LE(home(stream).memory().bytes(), had + 6 * kMiB);
}

TEST_P(StreamsFailureTest, SmallRequestsLeaveRoomForOthers) {
  void* const stream = make_stream();
  open(home(stream).memory().bytes() + 16 * kMiB);  // Memory is kept from session to session.
  char* const buffer = memory(kMiB);
  std::vector<Parameters> requests(100'000, {.size = 4096});
  std::size_t begun = 0;
  {
    Hold hold(home(stream), stream);
    while (begun < requests.size() && submit(Op::read, stream, buffer, requests[begun]).ok()) ++begun;
    ASSERT_LT(begun, requests.size());
  }
  drain(stream);
  for (const std::uint64_t size : {std::uint64_t{64} << 10, std::uint64_t{128} << 10, std::uint64_t{1} << 20}) {
    EXPECT_EQ(run(Op::read, stream, buffer, {.size = size}), static_cast<std::int64_t>(size));
  }
}

// It would be cut into more parts than anybody can queue.
TEST_P(StreamsFailureTest, ARequestFarLargerThanItsMemoryIsRefusedAndQueuesNoParts) {
  void* const stream = make_stream();
  char* const buffer = memory(kMiB);
  Parameters request{.size = std::uint64_t{1} << 62};
  ASSERT_TRUE(submit(Op::read, stream, buffer, request).ok());
  drain(stream);
  EXPECT_EQ(request.result, failed(Code::past_allocation));
}

TEST_P(StreamsFailureTest, WhereStreamsAreSwitchedOffAllIsRefused) {
  Config config = session_->config();
  config.streams = false;
  Session without(config, std::make_unique<FakeStorage>(), std::make_unique<HostDeviceSet>());
  Frontends frontends(without);
  EXPECT_TRUE(frontends.streams().register_stream(nullptr, 0).is(Code::unsupported));
}

TEST_P(StreamsFailureTest, WithoutWordsHostFunctionsWaitForStorage) {
  Config config = session_->config();
  config.stream_words = false;
  frontends_.reset();
  auto storage = std::make_unique<FakeStorage>();
  storage->content = storage_->content;
  storage_ = storage.get();
  std::string why_not;
  std::unique_ptr<DeviceSet> devices = std::make_unique<HostDeviceSet>();
  if (is_cuda()) devices = std::move(CudaDeviceSet::open(&why_not, library()).value());
  session_ = std::make_unique<Session>(config, std::move(storage), std::move(devices));
  frontends_ = std::make_unique<Frontends>(*session_);
  file_ = session_->register_file(FakeStorage::kUserFd).value();
  void* const stream = make_stream();
  char* const buffer = memory(16 * kMiB);
  EXPECT_EQ(run(Op::read, stream, buffer, {.size = 13 * kMiB, .file_offset = 5}), 13 * kMiB);
  EXPECT_TRUE(is_content(buffer, 5, 13 * kMiB));
  EXPECT_EQ(run(Op::write, stream, buffer, {.size = 13 * kMiB}), 13 * kMiB);
  EXPECT_TRUE(is_content(buffer, 0, 13 * kMiB));
}

// They learn when a request began and that it is over, before its result is there.
TEST_P(StreamsFailureTest, HooksAreCalledWhereTheStreamReachesTheRequestAndWhereItEnds) {
  static std::uint64_t clock = 0, began = 0, bytes = 0;
  clock = 41, began = bytes = 0;
  const StreamHooks hooks{deliver, [](const Session&) { return ++clock; },
                          [](Session&, const RawRequest&, const Outcome& outcome, std::uint64_t at) {
                            began = at;
                            bytes = outcome.report.bytes;
                          }};
  void* const stream = make_stream();
  char* const buffer = memory(kMiB);
  Parameters read{.size = 4096};
  const StreamParameters wanted{Op::read,    file_, buffer, &read.size, &read.file_offset, &read.buffer_offset,
                                &read.result};
  {
    Hold hold(home(stream), stream);
    ASSERT_TRUE(streams().submit(stream, wanted, hooks).ok());
    EXPECT_EQ(clock, 41u) << "the stream has not reached it";
  }
  drain(stream);
  EXPECT_EQ(read.result, 4096);
  EXPECT_EQ(began, 42u);
  EXPECT_EQ(bytes, 4096u);
}

TEST_P(StreamsFailureTest, AForkedChildHasNoStreams) {
  void* const stream = make_stream();
  char* const buffer = memory(4096);
  Parameters read{.size = 4096};
  ASSERT_EQ(run(Op::read, stream, buffer, read), 4096);
  ASSERT_TRUE(streams().register_stream(stream, 0).ok());
  EXPECT_EQ(in_child([&] {
              frontends_->warm_up();
              return streams().register_stream(stream, 0).is(Code::closed) &&
                             streams().deregister_stream(stream).is(Code::closed) &&
                             submit(Op::read, stream, buffer, read).is(Code::closed)
                         ? 0
                         : 1;
            }),
            0);
}

// ---- Faults of a driver alone

TEST_P(FakeCudaStreamsTest, AStreamThatIsCapturedIsRefusedAndTheCaptureStandsAsItWas) {
  char* const buffer = memory(4096);
  Parameters read{.size = 4096};
  for (const unsigned flags : {0u, 1u}) {
    void* const stream = make_stream(flags);
    void* const beside = make_stream(1);
    (void)home(beside);
    void* graph = nullptr;
    ASSERT_EQ(driver("cuStreamBeginCapture_v2", stream, 0), cuda::CUDA_SUCCESS);
    EXPECT_TRUE(submit(Op::read, stream, buffer, read).is(Code::unsupported));
    EXPECT_TRUE(streams().register_stream(stream, 0).is(Code::unsupported));
    EXPECT_TRUE(flags == 1 || submit(Op::read, nullptr, buffer, read).is(Code::unsupported));
    expect_begins(Op::read, beside, buffer, read);
    EXPECT_EQ(driver("cuStreamEndCapture", stream, &graph), cuda::CUDA_SUCCESS);
    drain(beside);
    EXPECT_EQ(read.result, 4096);
  }
}

TEST_P(FakeCudaStreamsTest, ADefaultStreamWithoutAContextIsTheDriversError) {
  char* const buffer = memory(4096);
  void* const stream = make_stream();
  Parameters read{.size = 4096};
  std::thread([&] {
    const Status status = submit(Op::read, nullptr, buffer, read);
    EXPECT_EQ(status.domain, Domain::driver);
    EXPECT_EQ(status.code, cuda::CUDA_ERROR_INVALID_CONTEXT);
    expect_begins(Op::read, stream, buffer, read);  // A stream knows its own.
    drain(stream);
    EXPECT_EQ(read.result, 4096);
  }).join();
}

TEST_P(FakeCudaStreamsTest, MemoryThatTheStreamsGpuDoesNotReachIsRefused) {
  void* const stream = make_stream();
  Parameters read{.size = 4096};
  EXPECT_TRUE(submit(Op::read, stream, memory(4096, 1), read).is(Code::unsupported));
  cuda::CUcontext users = nullptr;
  cuda::CUdeviceptr elsewhere = 0, managed = 0;
  ASSERT_EQ(driver("cuMemAllocManaged", &managed, std::size_t{4096}, 1u), cuda::CUDA_SUCCESS);
  ASSERT_EQ(driver("cuCtxCreate_v2", &users, 0u, 0), cuda::CUDA_SUCCESS);
  ASSERT_EQ(driver("cuMemAlloc_v2", &elsewhere, std::size_t{4096}), cuda::CUDA_SUCCESS);
  EXPECT_TRUE(submit(Op::read, stream, reinterpret_cast<void*>(elsewhere), read).is(Code::unsupported));
  void* const there = make_stream();
  EXPECT_EQ(run(Op::read, there, reinterpret_cast<void*>(elsewhere), {.size = 4096}), 4096);
  EXPECT_EQ(run(Op::read, there, reinterpret_cast<void*>(managed), {.size = 4096}), 4096);
  EXPECT_EQ(driver("cuCtxDestroy_v2", users), cuda::CUDA_SUCCESS);
}

TEST_P(FakeCudaStreamsTest, AContextThatGoesTakesItsRequestsAlongAndNothingElse) {
  void* const other = make_stream();
  char* const buffer = memory(4096);
  for (int round = 0; round < 20; ++round) {
    cuda::CUcontext users = nullptr;
    ASSERT_EQ(driver("cuCtxCreate_v2", &users, 0u, 0), cuda::CUDA_SUCCESS);
    cuda::CUdeviceptr there = 0;
    ASSERT_EQ(driver("cuMemAlloc_v2", &there, std::size_t{4096}), cuda::CUDA_SUCCESS);
    void* const stream = make_stream(1);
    Parameters done{.size = 4096}, lost{.size = 4096};
    EXPECT_EQ(run(Op::read, stream, reinterpret_cast<void*>(there), done), 4096);
    if (has_words() && round == 0) {
      StreamHome& home_there = home(stream);
      StreamBlock& block = *home_there.memory().take(0, UINT64_MAX).value();
      ASSERT_TRUE(home_there.work().wait(stream, block, block.word(0), ++block.begun[0]).ok());
      expect_begins(Op::read, stream, reinterpret_cast<void*>(there), lost);
    }
    ASSERT_EQ(driver("cuCtxDestroy_v2", users), cuda::CUDA_SUCCESS);
    EXPECT_EQ(lost.result, kNothing);
    EXPECT_EQ(run(Op::read, other, buffer, {.size = 4096}), 4096);
  }
}

// Whatever is refused of what a request queues, its stream goes on and the next request works.
TEST_P(FakeCudaStreamsTest, APieceOfWorkThatTheDriverRefusesFailsTheCallAndHoldsNobodyUp) {
  std::vector<char> host(16 * kMiB);
  char* const buffers[] = {memory(16 * kMiB), host.data()};
  (void)home(make_stream());  // The pieces of requests are refused below, and not the steps before the first.
  for (int i = 0; i < 8; ++i) {
    const Op op = i % 2 == 0 ? Op::read : Op::write;
    char* const buffer = buffers[i / 4];
    for (const std::size_t size : {i % 4 < 2 ? std::size_t{4096} : 13 * kMiB}) {
      bool refused = true;
      for (int piece = 1; refused; ++piece) {
        ASSERT_LT(piece, 40);
        void* const stream = make_stream(1);
        Parameters request{.size = size};
        driver("fake_cuda_fail_at", piece);
        refused = !submit(op, stream, buffer, request).ok();
        driver("fake_cuda_fail_at", 0);
        drain(stream);
        EXPECT_TRUE(refused || request.result == static_cast<std::int64_t>(size));
        EXPECT_EQ(run(op, stream, buffer, {.size = size}), static_cast<std::int64_t>(size));
      }
    }
  }
}

// It had made streams unsupported in that context for good, or had taken words from it.
TEST_P(FakeCudaStreamsTest, AGpuThatIsShortOfMemoryAtTheFirstRequestOfAContextServesTheNext) {
  bool refused = true;
  for (int call = 1; refused; ++call) {
    ASSERT_LT(call, 40);
    cuda::CUcontext users = nullptr;
    ASSERT_EQ(driver("cuCtxCreate_v2", &users, 0u, 0), cuda::CUDA_SUCCESS);
    cuda::CUdeviceptr there = 0;
    ASSERT_EQ(driver("cuMemAlloc_v2", &there, std::size_t{4096}), cuda::CUDA_SUCCESS);
    void* const stream = make_stream();
    Parameters first{.size = 4096};
    driver("fake_cuda_short_at", call);
    const Status status = submit(Op::read, stream, reinterpret_cast<void*>(there), first);
    driver("fake_cuda_short_at", 0);
    refused = !status.ok();
    if (refused) {
      EXPECT_EQ(status.domain, Domain::driver) << call << ": " << describe(status);
      EXPECT_EQ(status.code, cuda::CUDA_ERROR_OUT_OF_MEMORY) << call << ": " << describe(status);
    }
    EXPECT_EQ(run(Op::read, stream, reinterpret_cast<void*>(there), {.size = 4096}), 4096) << call;
    EXPECT_TRUE(is_content(reinterpret_cast<char*>(there), 0, 4096));
    EXPECT_EQ(home(stream).has_words(), has_words()) << call;
    ASSERT_EQ(driver("cuCtxDestroy_v2", users), cuda::CUDA_SUCCESS);
  }
}

// The stream has not reached it, so that not even its beginning is queued where the first piece is refused.
TEST_P(FakeCudaStreamsTest, APieceThatIsRefusedBehindAUsersWorkFailsTheCallAndHoldsNobodyUp) {
  char* const buffer = memory(kMiB);
  (void)home(make_stream());
  for (const Op op : {Op::read, Op::write}) {
    bool refused = true;
    for (int piece = 1; refused; ++piece) {
      ASSERT_LT(piece, 40);
      void* const stream = make_stream(1);
      Parameters request{.size = 4096}, behind{.size = 4096};
      {
        Hold hold(home(stream), stream);
        driver("fake_cuda_fail_at", piece);
        refused = !submit(op, stream, buffer, request).ok();
        driver("fake_cuda_fail_at", 0);
        expect_begins(op, stream, buffer, behind);
        EXPECT_EQ(behind.result, kNothing);
      }
      drain(stream);
      EXPECT_EQ(request.result, refused ? kNothing : 4096) << piece;
      EXPECT_EQ(behind.result, 4096) << piece;
    }
  }
}

TEST_P(FakeCudaStreamsTest, WhereTheDriverRefusesWordsHostFunctionsWait) {
  ::setenv("PENSTOCK_FAKE_CUDA_WORDS", "0", 1);
  cuda::CUcontext users = nullptr;  // A new one, which has no home yet.
  ASSERT_EQ(driver("cuCtxCreate_v2", &users, 0u, 0), cuda::CUDA_SUCCESS);
  cuda::CUdeviceptr there = 0;
  ASSERT_EQ(driver("cuMemAlloc_v2", &there, 16 * kMiB), cuda::CUDA_SUCCESS);
  void* const stream = make_stream();
  EXPECT_FALSE(home(stream).has_words());
  EXPECT_EQ(run(Op::read, stream, reinterpret_cast<void*>(there), {.size = 13 * kMiB, .file_offset = 5}), 13 * kMiB);
  EXPECT_TRUE(is_content(reinterpret_cast<char*>(there), 5, 13 * kMiB));
  EXPECT_EQ(run(Op::write, stream, reinterpret_cast<void*>(there), {.size = 13 * kMiB}), 13 * kMiB);
  EXPECT_TRUE(is_content(reinterpret_cast<char*>(there), 0, 13 * kMiB));
  ::unsetenv("PENSTOCK_FAKE_CUDA_WORDS");
  ASSERT_EQ(driver("cuCtxDestroy_v2", users), cuda::CUDA_SUCCESS);
}

}  // namespace
}  // namespace penstock::core
