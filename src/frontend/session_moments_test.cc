// SPDX-License-Identifier: Apache-2.0

// A session that stops while a client is asked, warms up on a device that refuses, and reads what is cached at once.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "fakes/fake_storage.h"
#include "fakes/refusing_device.h"
#include "fakes/test_config.h"
#include "fakes/waiting.h"
#include "frontend/admission.h"
#include "frontend/frontends.h"
#include "frontend/transfer.h"
#include "stats/usage.h"

namespace penstock::core {
namespace {

// Tells a file's end with its descriptor, where that is known, allocates blocks in advance, and counts their release.
class EndingStorage final : public FakeStorage {
 public:
  bool is_descriptor_of(int, const FileFacts&, std::uint64_t* reached) override {
    if (reached != nullptr) *reached = content.size();
    return true;
  }
  Result<std::uint64_t> size(int fd) override {
    return knows_sizes ? FakeStorage::size(fd) : os_failure(EIO, "look at the file");
  }
  bool preallocate(int, std::uint64_t, std::uint64_t) override { return true; }
  bool release_blocks_behind_end(int) override { return ++released > 0; }

  bool knows_sizes = true;
  unsigned released = 0;
};

TEST(SessionMoments, AStopWaitsForTheClientThatIsBeingAsked) {
  class WaitingClient final : public Client {
   public:
    void forget_file(const File&) override {
      is_asked = true;
      while (!may_go) std::this_thread::yield();
    }
    void stop() override { is_stopped = true; }
    std::atomic<bool> is_asked{false}, may_go{false}, is_stopped{false};
  } client;
  Session session(test_config(), std::make_unique<FakeStorage>(), std::make_unique<HostDeviceSet>());
  const std::uint64_t file = session.register_file(FakeStorage::kUserFd).value();
  session.add(&client);
  std::thread closing([&] { EXPECT_TRUE(session.deregister_file(file).ok()); });
  ASSERT_TRUE(wait_until([&] { return client.is_asked.load(); }));
  std::thread stopping([&] { session.stop(); });
  give_time_to_go_wrong();

  EXPECT_FALSE(client.is_stopped) << "it may be gone when it has stopped";
  client.may_go = true;
  closing.join();
  stopping.join();
  EXPECT_TRUE(client.is_stopped);
}

TEST(SessionMoments, AWarmUpThatIsRefusedOrServesNobodyOpensNothing) {
  struct Row {
    const char *paths, *require;
    unsigned refused;
    bool is_open;
  };
  for (const Row& row : {Row{"host", "", 0, false},
                         {"bounce,host", "host", 0, false},
                         {"bounce,host", "bounce", 0, true},
                         {"bounce,host", "", 1, false},
                         {"bounce,host", "", 2, false},
                         {"bounce,host", "", 0, true}}) {
    Refusals refusals;
    Session session(test_config({{"workers", "2"}, {"paths", row.paths}, {"require", row.require}}),
                    std::make_unique<FakeStorage>(), std::make_unique<RefusingDevices>(refusals));
    refusals.refuse(row.refused);
    session.engine().warm_up(*session.devices().device(0).value());
    EXPECT_EQ(session.engine().bounce_bytes() > 0, row.is_open) << row.paths << " " << row.refused;
    EXPECT_EQ(refusals.queues > 0, row.is_open) << row.paths << " " << row.refused;
  }
}

TEST(SessionMoments, AReadOfTheCacheIsMadeAtOnceOrNotAtAll) {
  constexpr std::size_t kFileBytes = 1 << 20, kSize = 4096;
  Usage usage;
  struct Row {
    const char* name;
    std::function<void(Config&, FakeStorage&, RawRequest&)> change;
    std::optional<std::uint64_t> bytes;  // None: it is not made.
  };
  const Row rows[] = {
      {"of what is cached", [](Config&, FakeStorage&, RawRequest&) {}, kSize},
      {"over the file's end",
       [](auto&, FakeStorage& s, RawRequest& r) { s.seed = 0, r.file_offset = kFileBytes - 100; }, 100},
      {"of what is not cached", [](auto&, FakeStorage& s, auto&) { s.seed = 3; }, std::nullopt},
      {"of a file whose descriptors are lost", [](auto&, FakeStorage& s, auto&) { s.descriptors_lost = true; }, {}},
      {"around the cache", [](Config& c, auto&, auto&) { c.direct_io = DirectIo::always; }, {}},
      {"of a file that cannot be opened again",
       [](auto&, FakeStorage& s, auto&) { s.open_flags |= O_DIRECT, s.reopen_fails = true; },
       {}},
      {"of no file", [](auto&, auto&, RawRequest& r) { r.file += 1000; }, {}},
      {"that a report would count", [&](Config& c, auto&, auto&) { c.usage = &usage; }, {}},
      {"that nobody stages", [](auto&, auto&, RawRequest& r) { r.staging = nullptr; }, {}}};
  for (const Row& row : rows) {
    auto owned = std::make_unique<FakeStorage>();
    FakeStorage& storage = *owned;
    storage.content.assign(kFileBytes, 'x');
    Config config = test_config({{"workers", "2"}});
    alignas(4096) static std::byte staging[kSize];
    RawRequest request{.op = Op::read, .size = kSize, .staging = staging};
    row.change(config, storage, request);
    Session session(config, std::move(owned), std::make_unique<HostDeviceSet>());
    request.file += session.register_file(FakeStorage::kUserFd).value();
    request.base = session.devices().device(0).value()->memory().allocate(kSize).value();

    const std::optional<Outcome> outcome = transfer_if_cached(session, request);

    ASSERT_EQ(outcome.has_value(), row.bytes.has_value()) << row.name;
    if (!outcome) continue;
    EXPECT_TRUE(outcome->status.ok()) << row.name << ": " << describe(outcome->status);
    EXPECT_EQ(outcome->report.bytes, *row.bytes) << row.name;
    EXPECT_EQ(std::exchange(staging[0], std::byte{}), std::byte{'x'});
    EXPECT_EQ(session.counters().total(outcome->report.path, outcome->report.reason, Op::read).operations, 1u);
  }
}

class SessionOfEnds : public testing::Test {
 protected:
  static constexpr std::uint64_t kFileBytes = 1 << 20;

  void open(const Config& config) {
    session_.reset();
    auto storage = std::make_unique<EndingStorage>();
    storage_ = storage.get();
    storage->open_flags |= O_DIRECT;
    storage->content.assign(kFileBytes, 'x');
    session_ = std::make_unique<Session>(config, std::move(storage), std::make_unique<HostDeviceSet>());
    file_ = session_->register_file(FakeStorage::kUserFd).value();
  }
  EndingStorage* storage_ = nullptr;
  std::unique_ptr<Session> session_;
  std::uint64_t file_ = 0;
  alignas(4096) static inline std::byte memory_[16 << 20];
};

// Where the end is not told the kernel finds it, which fills a whole block.
TEST_F(SessionOfEnds, AReadEndsWithTheFileWhoeverTellsWhereThatIs) {
  open(test_config({{"workers", "2"}}));
  struct Row {
    std::uint64_t offset, size, bytes;
  };
  for (const bool knows_sizes : {true, false}) {
    for (const Row& row : {Row{0, 8192, 8192}, {kFileBytes - 4096, 8192, 4096}, {kFileBytes, 4096, 0}}) {
      storage_->knows_sizes = knows_sizes;
      const Outcome outcome =
          transfer(*session_, {Op::read, file_, memory_, row.size, static_cast<std::int64_t>(row.offset), 0});
      EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
      EXPECT_EQ(outcome.report.bytes, row.bytes) << row.offset << " " << knows_sizes;
    }
  }
}

TEST_F(SessionOfEnds, AWriteThatIsWholeKeepsItsBlocksAndOneThatIsNotGivesThemBack) {
  open(test_config({{"workers", "2"}}));
  const RawRequest write{Op::write, file_, memory_, sizeof memory_, kFileBytes, 0};
  EXPECT_EQ(transfer(*session_, write).report.bytes, sizeof memory_);
  EXPECT_EQ(storage_->released, 0u);
  storage_->refuses = [](const FakeStorage::Access& access) { return access.op == Op::write ? ENOSPC : 0; };
  EXPECT_TRUE(transfer(*session_, write).status.is_errno(ENOSPC));
  EXPECT_EQ(storage_->released, 1u);
}

TEST_F(SessionOfEnds, ThreadsThatTheUserPlacedMoveRequestsOfAllMemory) {
  open(test_config({{"workers", "2"}, {"placement", "cpus:0"}}));
  storage_->content.assign(sizeof memory_, 'y');
  auto* const device =
      static_cast<std::byte*>(session_->devices().device(0).value()->memory().allocate(sizeof memory_).value());
  for (std::byte* const memory : {memory_, device}) {
    EXPECT_EQ(transfer(*session_, {Op::read, file_, memory, sizeof memory_, 0, 0}).report.bytes, sizeof memory_);
    EXPECT_EQ(memory[sizeof memory_ - 1], std::byte{'y'});
  }
  Frontends frontends(*session_);
  ThreadedQueue queue(frontends.executor(), 1);
  const QueuedRequest entry{.request = {Op::write, file_, memory_, 4096, 0, 0}};
  ASSERT_TRUE(queue.submit({&entry, 1}).ok());
  QueueEvent event;
  ASSERT_EQ(queue.reap({&event, 1}, 1, std::nullopt), 1u);
  EXPECT_TRUE(event.outcome.status.ok()) << describe(event.outcome.status);
}

TEST(SessionMoments, PiecesOfAFileThatIsNotRegisteredAreNoRequest) {
  Session session(test_config(), std::make_unique<FakeStorage>(), std::make_unique<HostDeviceSet>());
  char bytes[100];
  const MemoryPiece piece{bytes, sizeof bytes};
  EXPECT_FALSE(transfer_together(session, {.op = Op::read, .file = 12345, .size = 100}, {&piece, 1}).has_value());
}

}  // namespace
}  // namespace penstock::core
