// SPDX-License-Identifier: Apache-2.0

// Batches, streams and requests that must go by one path, in every fixture.
#include <gtest/gtest.h>

#include <cstring>

#include "contract/fixture.h"
#include "frontend/frontends.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kBlock = 10'000;  // Not a multiple of anything.
constexpr unsigned kCount = 32;

// ---- Batches -------------------------------------------------------------------------------------------------------

class BatchModeTest : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(Fixtures, BatchModeTest, testing::ValuesIn(all_fixtures()), fixture_name);

TEST_P(BatchModeTest, EveryEntryIsMovedByTheFixturesPath) {
  const std::string content = pattern(kBlock * kCount, 1);
  set_file_content(content);
  std::byte* const memory = allocate(kBlock * kCount);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  Frontends frontends(session());
  const std::uint64_t number = *frontends.open_batch(kCount);
  ThreadedQueue& batch = *frontends.pin_batch(number);
  std::vector<QueuedRequest> entries;
  for (unsigned i = 0; i < kCount; ++i) {
    const auto at = static_cast<std::int64_t>(i * kBlock);
    entries.push_back({.request = {Op::read, file, memory, kBlock, at, at}, .cookie = i});
  }

  ASSERT_TRUE(batch.submit(entries).ok());
  std::vector<QueueEvent> events(kCount);
  ASSERT_EQ(batch.reap(events, kCount, std::nullopt), kCount);

  for (const QueueEvent& event : events) expect_moved(event.outcome, kBlock);
  EXPECT_TRUE(download(memory, kBlock * kCount) == content);
  frontends.unpin_batch(number);
}

// ---- Streams -------------------------------------------------------------------------------------------------------

class StreamModeTest : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    if (IsSkipped()) return;
    if (fixture().is_gpu()) GTEST_SKIP() << "a GPU's streams need the program's own calls of its driver";
    const Result<StreamHome*> home = session().devices().stream_home(&stream_);
    if (!home.ok()) GTEST_SKIP() << "this device has no streams";
    home_ = *home;
  }
  // A stream copies out of pinned memory, which direct paths do without.
  void adjust(Config& config) override {
    if (traits_of(fixture().path).direct) config.paths.insert(config.paths.begin() + 1, PathId::bounce);
  }

  struct Request {
    StreamParameters parameters(Op op, std::uint64_t file, void* base) {
      return {op, file, base, &size, &file_offset, &buffer_offset, this};
    }
    static void deliver(void* request, const RawRequest&, const Outcome& outcome) {
      static_cast<Request*>(request)->outcome = outcome;
    }

    std::uint64_t size = 0;
    std::int64_t file_offset = 0, buffer_offset = 0;
    Outcome outcome;
  };

  int stream_ = 0;  // Any address is a stream.
  StreamHome* home_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Fixtures, StreamModeTest, testing::ValuesIn(all_fixtures()), fixture_name);

TEST_P(StreamModeTest, RequestsOnAStreamAreMovedInItsOrder) {
  const std::string content = pattern(1 << 20, 1);
  std::byte* const memory = allocate(1 << 20);
  upload(memory, content);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);
  Frontends frontends(session());
  Request write{.size = 1 << 20, .file_offset = 77}, read{.size = 1 << 19, .file_offset = 77, .buffer_offset = 1 << 19};

  for (auto& [op, request] : {std::pair<Op, Request*>{Op::write, &write}, {Op::read, &read}}) {
    const Status status = frontends.streams().submit(&stream_, request->parameters(op, file, memory),
                                                     {Request::deliver, nullptr, nullptr});
    ASSERT_TRUE(status.ok()) << describe(status);
  }
  ASSERT_TRUE(home_->drain(&stream_).ok());

  EXPECT_TRUE(write.outcome.status.ok()) << describe(write.outcome.status);
  EXPECT_TRUE(read.outcome.status.ok()) << describe(read.outcome.status);
  EXPECT_EQ(write.outcome.report.bytes, 1u << 20);
  EXPECT_EQ(read.outcome.report.bytes, 1u << 19);
  EXPECT_TRUE(file_content(77, 1 << 20) == content);
  EXPECT_TRUE(download(memory + (1 << 19), 1 << 19) == content.substr(0, 1 << 19));
}

// ---- One path ------------------------------------------------------------------------------------------------------

// PENSTOCK_REQUIRE with the fixture's path.
class RequiredPathTest : public ContractTest {
 protected:
  void adjust(Config& config) override { config.require = fixture().path; }
};
INSTANTIATE_TEST_SUITE_P(Fixtures, RequiredPathTest, testing::ValuesIn(all_fixtures()), fixture_name);

TEST_P(RequiredPathTest, MovesWhatThePathTakesAndRefusesTheRestBeforeItIsMoved) {
  constexpr std::uint64_t kSize = 2 << 20;
  const std::string before = pattern(kSize, 1), data = pattern(kSize, 2);
  set_file_content(before);
  std::byte* const memory = allocate(kSize);
  upload(memory, data);
  const UniqueFd fd = open_fd();
  const std::uint64_t file = register_fd(fd);

  const Outcome unaligned = write(file, memory, 1000, 100);
  std::string expected = before;
  if (unaligned.status.ok()) expected.replace(100, 1000, data.substr(0, 1000));
  EXPECT_TRUE(unaligned.status.ok() || unaligned.status.is(Code::path_refused)) << describe(unaligned.status);
  EXPECT_EQ(unaligned.report.bounced_bytes, 0u);
  EXPECT_TRUE(file_content(0, kSize) == expected);

  const Outcome written = write(file, memory, kSize, 0);
  upload(memory, std::string(kSize, '\x5a'));
  const Outcome got = read(file, memory, kSize, 0);

  for (const Outcome& outcome : {written, got}) {
    EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
    EXPECT_EQ(outcome.report.bytes, kSize);
    EXPECT_EQ(outcome.report.path, fixture().path);
    EXPECT_TRUE(!traits_of(fixture().path).direct || outcome.report.bounced_bytes == 0);
  }
  EXPECT_TRUE(file_content(0, kSize) == data);
  EXPECT_TRUE(download(memory, kSize) == data);
}

}  // namespace
}  // namespace penstock::core
