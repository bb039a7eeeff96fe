// SPDX-License-Identifier: Apache-2.0

// A session over storage and devices that fail in ways the real ones hardly can be made to.
#include "session/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "fakes/test_config.h"
#include "fakes/waiting.h"
#include "frontend/channel_queue.h"
#include "frontend/transfer.h"
#include "stats/usage.h"

// A ring that failed for good is abandoned, since the kernel may still write to its memory. The leak checker, which
// asks this, must not call that a leak.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:BrittleStorage"; }

namespace penstock::core {
namespace {

Config small_config() { return test_config({{"workers", "2"}}); }

// Its rings can be told to stop working for good.
class BrittleStorage final : public FakeStorage {
 public:
  class BrittleRing final : public Ring {
   public:
    explicit BrittleRing(std::unique_ptr<Ring> sound) : sound_(std::move(sound)) {}
    void push(const RingOp& op) override { sound_->push(op); }
    Status submit() override { return success(); }
    Result<unsigned> reap(std::span<RingCompletion>, bool) override { return os_failure(ENOMEM, "wait for the ring"); }
    Status register_memory(void*, std::size_t) override { return success(); }
    int register_file(int) override { return -1; }
    void unregister_file(int) override {}

   private:
    std::unique_ptr<Ring> sound_;
  };

  Result<std::unique_ptr<Ring>> open_ring(unsigned depth) override {
    return std::unique_ptr<Ring>(std::make_unique<BrittleRing>(std::move(FakeStorage::open_ring(depth).value())));
  }
};

class SessionTest : public testing::Test {
 protected:
  template <typename Storage>
  Session& open(std::unique_ptr<Storage> storage) {
    storage->content.resize(1 << 20);
    storage_ = storage.get();
    session_ = std::make_unique<Session>(small_config(), std::move(storage), std::make_unique<HostDeviceSet>());
    return *session_;
  }
  void* memory(std::size_t size) { return session_->devices().device(0).value()->memory().allocate(size).value(); }

  std::unique_ptr<Session> session_;
  FakeStorage* storage_ = nullptr;
};

// A disk that is full when blocks were preallocated on it.
class FullStorage final : public FakeStorage {
 public:
  FullStorage() {
    refuses = [](const Access& access) { return access.op == Op::write ? ENOSPC : 0; };
  }
  bool preallocate(int, std::uint64_t, std::uint64_t) override { return true; }
  bool release_blocks_behind_end(int) override { return ++released > 0; }

  unsigned released = 0;
};

TEST_F(SessionTest, AWriteThatFailsGivesItsBlocksBackAlsoIfAReportCountsIt) {
  Usage usage;
  for (Usage* const counted : {static_cast<Usage*>(nullptr), &usage}) {
    auto full = std::make_unique<FullStorage>();
    const FullStorage& storage = *full;
    Config config = small_config();
    config.usage = counted;
    session_ = std::make_unique<Session>(config, std::move(full), std::make_unique<HostDeviceSet>());
    const std::uint64_t file = *session_->register_file(FakeStorage::kUserFd);

    const Outcome outcome = transfer(*session_, {Op::write, file, memory(64 << 20), 64 << 20, 0, 0});

    EXPECT_TRUE(outcome.status.is_errno(ENOSPC)) << describe(outcome.status);
    EXPECT_EQ(storage.released, 1u);
    session_.reset();
  }
}

// Memory of one device, whose driver offers what is registered of it to storage, at another address.
class OfferingDevices final : public DeviceSet, public Device, private DeviceMemory {
 public:
  OfferingDevices() : Device(this) {}

  static constexpr std::uint64_t kFurther = 1 << 30;
  std::vector<std::byte> bytes = std::vector<std::byte>(8192);
  std::vector<const void*> offered;

  unsigned count() const override { return 1; }
  Result<Device*> device(unsigned) override { return static_cast<Device*>(this); }
  PointerFacts describe(const void*) override {
    const auto base = reinterpret_cast<std::uintptr_t>(bytes.data());
    return {.kind = MemoryKind::device, .device = this, .base = base, .size = bytes.size()};
  }
  Result<StreamHome*> stream_home(void*) override { return failure(Code::unsupported, "use the stream"); }
  const DeviceFacts& facts() const override { return facts_; }
  Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned) override {
    return failure(Code::unsupported, "open a copy queue");
  }
  Status register_host(void*, std::size_t) override { return success(); }
  bool unregister_host(void*) override { return true; }
  void make_copies_synchronous(const void*) override {}

 private:
  Result<void*> allocate(std::size_t) override { return static_cast<void*>(bytes.data()); }
  void release(void*) override {}
  std::uint64_t offer(const PointerFacts& facts, const void* buffer, std::size_t) override {
    offered.push_back(buffer);
    return facts.base + kFurther;
  }
  void withdraw(const void* buffer) override { std::erase(offered, buffer); }

  DeviceFacts facts_;
};

// A row of requests is looked at once: not beyond the buffer's registration.
TEST_F(SessionTest, ARowOfQueuedRequestsEndsWithTheBuffersRegistration) {
  Session& session = open(std::make_unique<FakeStorage>());
  const std::uint64_t file = session.register_file(FakeStorage::kUserFd).value();
  void* const buffer = memory(64 << 10);
  auto queue = std::move(ChannelQueue::open(session, 8, 16 << 10).value());
  const auto submit = [&](std::uint64_t size) { return queue->submit({Op::read, file, buffer, size, 0, 0}, 1); };
  ASSERT_TRUE(session.register_buffer(buffer, 8192).ok());
  ASSERT_TRUE(submit(4096).ok());
  ASSERT_TRUE(submit(8192).ok());
  EXPECT_TRUE(submit(8193).is(Code::out_of_range));

  ASSERT_TRUE(session.deregister_buffer(buffer).ok());
  EXPECT_TRUE(submit(16 << 10).ok());  // Now its allocation bounds it,
  ASSERT_TRUE(session.register_buffer(buffer, 4096).ok());
  EXPECT_TRUE(submit(8192).is(Code::out_of_range));  // and now less than at first.
}

TEST_F(SessionTest, AQueueThatGoesBetweenFilesLetsGoOfEach) {
  Session& session = open(std::make_unique<FakeStorage>());
  const UniqueFd other = storage_->open_user_fd(O_RDWR);
  const std::uint64_t files[] = {session.register_file(FakeStorage::kUserFd).value(),
                                 session.register_file(other.get()).value()};
  void* const buffer = memory(64 << 10);
  auto queue = std::move(ChannelQueue::open(session, 8, 4096).value());
  for (unsigned i = 0; i < 8; ++i) ASSERT_TRUE(queue->submit({Op::read, files[i % 2], buffer, 4096, 0, 0}, i).ok());
  QueueCompletion done[8];
  ASSERT_EQ(queue->reap(done, 8), 8u);

  for (const std::uint64_t file : files) EXPECT_TRUE(session.deregister_file(file).ok());  // Waits for whoever has it.

  EXPECT_TRUE(queue->submit({Op::read, files[0], buffer, 4096, 0, 0}, 0).is(Code::not_registered));
}

TEST_F(SessionTest, ABufferIsOfferedToStorageForAsLongAsItIsRegistered) {
  auto devices = std::make_unique<OfferingDevices>();
  OfferingDevices& device = *devices;
  Session session(small_config(), std::make_unique<FakeStorage>(), std::move(devices));
  std::byte* const begin = device.bytes.data();
  ASSERT_TRUE(session.register_buffer(begin, 4096).ok());
  EXPECT_TRUE(session.register_buffer(begin, 4096).is(Code::already_registered));
  EXPECT_EQ(device.offered, std::vector<const void*>{begin}) << "the first is still offered, once";
  ASSERT_TRUE(session.register_buffer(begin + 4096, 4096).ok());
  EXPECT_EQ(device.offered.size(), 2u);
  ASSERT_TRUE(session.deregister_buffer(begin).ok());
  EXPECT_EQ(device.offered, std::vector<const void*>{begin + 4096});
  ASSERT_TRUE(session.deregister_buffer(begin + 4096).ok());
  EXPECT_TRUE(device.offered.empty());
}

TEST_F(SessionTest, AQueueWhoseRingBreaksFailsItsRequestsAndHangsNobody) {
  auto storage = std::make_unique<BrittleStorage>();
  storage->open_flags |= O_DIRECT;
  Session& session = open(std::move(storage));
  const std::uint64_t file = *session.register_file(FakeStorage::kUserFd);
  auto queue = std::move(ChannelQueue::open(session, 1, 20'000).value());
  // A head, a middle and a tail over a channel with room for one.
  ASSERT_TRUE(queue->submit({Op::write, file, memory(32768), 20'000, 100, 0}, 7).ok());

  QueueCompletion completion;
  ASSERT_EQ(queue->reap({&completion, 1}, 1), 1u);

  EXPECT_EQ(completion.cookie, 7u);
  EXPECT_FALSE(completion.status.ok());
  EXPECT_FALSE(queue->submit({Op::write, file, memory(4096), 4096, 0, 0}, 8).ok());
  EXPECT_TRUE(session.deregister_file(file).ok());
}

TEST_F(SessionTest, ALargeRequestWhoseRingsBreakIsAnError) {
  auto storage = std::make_unique<BrittleStorage>();
  storage->open_flags |= O_DIRECT;
  storage->content.resize(32 << 20);
  Session& session = open(std::move(storage));
  const std::uint64_t file = *session.register_file(FakeStorage::kUserFd);

  const Outcome outcome = transfer(session, {Op::write, file, memory(16 << 20), 16 << 20, 0, 0});

  EXPECT_FALSE(outcome.status.ok());
  EXPECT_LT(outcome.report.bytes, 16u << 20);
}

TEST_F(SessionTest, StorageBeginsWithAFileThatIsFlushedLaterWhileMoreIsWritten) {
  Session& session = open(std::make_unique<FakeStorage>());
  storage_->content.resize(32 << 20);
  const std::uint64_t file = *session.register_file(FakeStorage::kUserFd);
  void* const from = memory(6 << 20);
  ASSERT_TRUE(transfer(session, {Op::write, file, from, 6 << 20, 0, 0}).status.ok());
  ASSERT_TRUE(transfer(session, {Op::write, file, from, 6 << 20, 6 << 20, 0}).status.ok());
  EXPECT_EQ(storage_->flushes_started, 0u) << "nobody said so";
  ASSERT_TRUE(session.advise_flushed_later(file).ok());

  ASSERT_TRUE(transfer(session, {Op::write, file, from, 6 << 20, 0, 0}).status.ok());
  EXPECT_EQ(storage_->flushes_started, 0u) << "for a few bytes it is not worth it";
  ASSERT_TRUE(transfer(session, {Op::read, file, from, 6 << 20, 0, 0}).status.ok());
  ASSERT_TRUE(transfer(session, {Op::write, file, from, 4096, 6 << 20, 0}).status.ok());
  EXPECT_EQ(storage_->flushes_started, 0u) << "what is read is not flushed";
  ASSERT_TRUE(transfer(session, {Op::write, file, from, 6 << 20, 7 << 20, 0}).status.ok());
  EXPECT_EQ(storage_->flushes_started, 1u);
}

// The kernel tells a failure once, here to a request: the next flush of the whole file would not hear of it.
TEST_F(SessionTest, AFailedFlushOfARequestIsToldByTheFilesNextFlushAndForGoodToWhoNamesIt) {
  auto storage = std::make_unique<FakeStorage>();
  storage->open_flags = O_RDWR | O_DIRECT;
  Session& session = open(std::move(storage));
  const std::uint64_t file = *session.register_file(FakeStorage::kUserFd);
  ASSERT_TRUE(session.sync_file(file).ok());
  storage_->flush_error = EIO;
  const Outcome outcome = transfer(session, {Op::write, file, memory(64 << 10), 50000, 100, 0});
  ASSERT_TRUE(outcome.status.is_errno(EIO)) << describe(outcome.status);
  ASSERT_FALSE(storage_->flushes.empty());
  storage_->flush_error = 0;

  EXPECT_TRUE(session.sync_file(file).is_errno(EIO));
  EXPECT_TRUE(session.sync_file(file).ok()) << "it was told";
  EXPECT_TRUE(session.check_flushes(file).is_errno(EIO)) << "nobody knows all that was lost";
}

TEST_F(SessionTest, StorageBeginsWithAFileThatIsFlushedLaterWhileAQueueWrites) {
  Session& session = open(std::make_unique<FakeStorage>());
  const std::uint64_t file = *session.register_file(FakeStorage::kUserFd);
  ASSERT_TRUE(session.advise_flushed_later(file).ok());
  void* const from = memory(1 << 20);
  auto queue = std::move(ChannelQueue::open(session, 9, 1 << 20).value());

  for (std::uint64_t i = 0; i < 9; ++i) ASSERT_TRUE(queue->submit({Op::write, file, from, 1 << 20, 0, 0}, i).ok());
  QueueCompletion done[9];
  ASSERT_EQ(queue->reap(done, 9), 9u);

  EXPECT_EQ(storage_->flushes_started, 1u);
}

// A call counted it, and a queue did not.
TEST_F(SessionTest, AReadBehindTheFilesEndIsCountedByACallAndByAQueue) {
  Session& session = open(std::make_unique<FakeStorage>());
  storage_->open_flags = O_RDWR | O_DIRECT;
  const std::uint64_t file = *session.register_file(FakeStorage::kUserFd);
  alignas(4096) static char to[4096];
  const RawRequest behind{Op::read, file, to, sizeof to, 2 << 20, 0};
  const auto counted = [&] { return session.counters().total(PathId::host, Reason::host_memory, Op::read).operations; };

  ASSERT_TRUE(transfer(session, behind).status.ok());
  EXPECT_EQ(counted(), 1u);

  auto queue = std::move(ChannelQueue::open(session, 1, 4096).value());
  ASSERT_TRUE(queue->submit(behind, 7).ok());
  QueueCompletion done;
  ASSERT_EQ(queue->reap({&done, 1}, 1), 1u);
  EXPECT_EQ(done.report.bytes, 0u);
  EXPECT_EQ(counted(), 2u);
}

// To wait for the file it looked again and again, and asked every client at each look.
TEST_F(SessionTest, DeregisteringAFileAsksClientsOnceAndWaitsForThoseWhoHaveItPinned) {
  class CountingClient final : public Client {
   public:
    void forget_file(const File&) override { ++asked; }
    void stop() override {}
    std::atomic<int> asked{0};
  } client;
  Session& session = open(std::make_unique<FakeStorage>());
  const std::uint64_t file = *session.register_file(FakeStorage::kUserFd);
  session.add(&client);
  ASSERT_NE(session.pin_file(file), nullptr);
  std::atomic<bool> is_over{false};

  std::thread other([&] {
    EXPECT_TRUE(session.deregister_file(file).ok());
    is_over = true;
  });
  ASSERT_TRUE(wait_until([&] { return client.asked > 0; }));
  give_time_to_go_wrong();

  EXPECT_FALSE(is_over);
  session.unpin_file(file);
  other.join();
  EXPECT_EQ(client.asked, 1);
  session.remove(&client);
}

// A client may wait for kernels, which run for hours.
TEST_F(SessionTest, AClientThatWaitsToForgetAFileHoldsNoOtherUpAndIsNotRemovedMeanwhile) {
  class WaitingClient final : public Client {
   public:
    void forget_file(const File&) override {
      is_asked = true;
      while (!may_go) std::this_thread::yield();
    }
    void stop() override {}
    std::atomic<bool> is_asked{false}, may_go{false};
  } waiting, other;
  Session& session = open(std::make_unique<FakeStorage>());
  const std::uint64_t file = *session.register_file(FakeStorage::kUserFd);
  session.add(&waiting);
  std::atomic<bool> is_through{false}, is_removed{false};

  std::thread closing([&] { EXPECT_TRUE(session.deregister_file(file).ok()); });
  ASSERT_TRUE(wait_until([&] { return waiting.is_asked.load(); }));
  std::thread beside([&] {
    session.add(&other);
    session.remove(&other);
    is_through = true;
    session.remove(&waiting);
    is_removed = true;
  });
  EXPECT_TRUE(wait_until([&] { return is_through.load(); }));
  give_time_to_go_wrong();

  EXPECT_FALSE(is_removed);
  waiting.may_go = true;
  closing.join();
  beside.join();
}

TEST_F(SessionTest, HeadAndTailFollowTheMiddleOfAnUnalignedDirectWrite) {
  auto storage = std::make_unique<FakeStorage>();
  storage->open_flags |= O_DIRECT;
  Session& session = open(std::move(storage));
  const std::uint64_t file = *session.register_file(FakeStorage::kUserFd);
  const auto order = [&] {
    std::string ways;
    for (const FakeStorage::Access& access : storage_->accesses) ways += access.o_direct ? 'd' : 'b';
    storage_->accesses.clear();
    return ways;
  };

  ASSERT_TRUE(transfer(session, {Op::write, file, memory(1 << 20), 20'000, 100, 0}).status.ok());
  EXPECT_EQ(order(), "dbb");
  ASSERT_TRUE(transfer(session, {Op::write, file, memory(8 << 20), (5 << 20) + 7, 100, 0}).status.ok());
  const std::string large = order();
  EXPECT_EQ(large.substr(large.size() - 2), "bb");
  EXPECT_EQ(large.find('b'), large.size() - 2);
  auto queue = std::move(ChannelQueue::open(session, 4, 20'000).value());
  ASSERT_TRUE(queue->submit({Op::write, file, memory(32768), 20'000, 100, 0}, 1).ok());
  QueueCompletion completion;
  ASSERT_EQ(queue->reap({&completion, 1}, 1), 1u);
  EXPECT_TRUE(completion.status.ok());
  EXPECT_EQ(completion.report.bytes, 20'000u);
  EXPECT_EQ(order(), "dbb");
}

// A direct read of the last block would fill the whole block, in the caller's own memory.
TEST_F(SessionTest, ADirectReadLeavesHostMemoryBehindTheEndOfTheFileAlone) {
  constexpr std::uint64_t kEnd = (1u << 20) - 100;
  auto storage = std::make_unique<FakeStorage>();
  storage->open_flags |= O_DIRECT;
  Session& session = open(std::move(storage));
  storage_->content.resize(kEnd);
  const std::unique_ptr<void, decltype(&std::free)> host(std::aligned_alloc(4096, 16 << 20), &std::free);
  const std::uint64_t file = *session.register_file(FakeStorage::kUserFd);
  for (const std::uint64_t from : {kEnd - 5000, std::uint64_t{0}, std::uint64_t{4096}, kEnd - 1, kEnd, kEnd + 1}) {
    storage_->accesses.clear();

    const Outcome outcome = transfer(session, {Op::read, file, host.get(), 16 << 20, std::int64_t(from), 0});

    EXPECT_TRUE(outcome.status.ok());
    EXPECT_EQ(outcome.report.bytes, from < kEnd ? kEnd - from : 0) << from;
    for (const FakeStorage::Access& access : storage_->accesses) {
      if (access.o_direct) {
        EXPECT_LE(access.offset + access.size, kEnd) << from;
      }
    }
  }
}

TEST_F(SessionTest, ARequestThatFailsIsCountedForThePathThatHadIt) {
  Session& session = open(std::make_unique<FakeStorage>());
  const std::uint64_t file = *session.register_file(FakeStorage::kUserFd);
  const RawRequest read{Op::read, file, memory(4096), 4096, 0, 0};
  storage_->faults.assign(40, {.error = EIO});
  const Outcome failed = transfer(session, read);
  EXPECT_TRUE(failed.status.is_errno(EIO)) << describe(failed.status);
  storage_->faults.clear();
  EXPECT_TRUE(transfer(session, read).status.ok());
  EXPECT_EQ(session.counters().failures(failed.report.path, Op::read), 1u);
}

TEST_F(SessionTest, AFailureBehindTheEndOfTheFileIsNone) {
  Session& session = open(std::make_unique<FakeStorage>());
  const std::uint64_t file = *session.register_file(FakeStorage::kUserFd);
  storage_->on_access = [&](FakeStorage::Access access) {
    if (access.offset >= 4 << 20) storage_->faults = {{.error = EIO}};
  };

  const Outcome outcome = transfer(session, {Op::read, file, memory(16 << 20), 16 << 20, 0, 0});

  EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
  EXPECT_EQ(outcome.report.bytes, 1u << 20);
}

// A storage whose file is cut when a chunk is read after one behind it was, and is long again when that chunk is read
// once more.
class CutMeanwhile {
 public:
  explicit CutMeanwhile(FakeStorage& storage) : storage_(storage), content_(storage.content) {}

  void operator()(const FakeStorage::Access& access) {
    if (was_cut_ && access.offset == cut_at_) storage_.content = content_;
    if (!was_cut_ && access.offset < highest_) {
      was_cut_ = true;
      cut_at_ = access.offset;
      storage_.content.resize(access.offset + 1000);
    }
    highest_ = std::max(highest_, access.offset);
  }
  bool was_cut() const { return was_cut_; }

 private:
  FakeStorage& storage_;
  const std::vector<char> content_;
  std::uint64_t highest_ = 0;
  std::uint64_t cut_at_ = 0;
  bool was_cut_ = false;
};

TEST_F(SessionTest, AReadOfAFileThatWasCutAndGrewAgainTellsOfAllThatItTouched) {
  unsigned cuts = 0;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    auto storage = std::make_unique<FakeStorage>();
    storage->open_flags |= O_DIRECT;
    storage->seed = seed;
    Session& session = open(std::move(storage));
    storage_->content.resize(16 << 20);
    for (std::size_t i = 0; i < storage_->content.size(); ++i) storage_->content[i] = static_cast<char>(i * 31 >> 9);
    const std::vector<char> content = storage_->content;
    const std::uint64_t file = *session.register_file(FakeStorage::kUserFd);
    CutMeanwhile cut(*storage_);
    storage_->on_access = [&](const FakeStorage::Access& access) { cut(access); };
    auto* const target = static_cast<char*>(memory(16 << 20));

    const Outcome outcome = transfer(session, {Op::read, file, target, 16 << 20, 0, 0});

    EXPECT_TRUE(outcome.status.ok()) << describe(outcome.status);
    EXPECT_EQ(outcome.report.bytes, 16u << 20) << "seed " << seed;
    EXPECT_TRUE(std::equal(content.begin(), content.end(), target));
    cuts += cut.was_cut() ? 1 : 0;
  }
  EXPECT_GT(cuts, 0u);
}

}  // namespace
}  // namespace penstock::core
