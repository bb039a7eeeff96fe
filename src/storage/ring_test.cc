// SPDX-License-Identifier: Apache-2.0

// The contract of Ring, tested on io_uring, on its stand-in, and on the fake that other tests use.
#include "storage/ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "fakes/fake_storage.h"
#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

enum class Kind { io_uring, preadv2, fake };

std::string name_of(const testing::TestParamInfo<Kind>& each) {
  const char* const names[] = {"IoUring", "Preadv2", "Fake"};
  return names[static_cast<int>(each.param)];
}

class RingTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::io_uring && posix_.io_uring_error() != 0) {
      GTEST_SKIP() << "io_uring is refused here: " << std::strerror(posix_.io_uring_error());
    }
    ring_ = std::move(storage().open_ring(8).value());
    fd_ = is_fake() ? fake_.open_user_fd(O_RDWR) : UniqueFd(::memfd_create("ring_test", MFD_CLOEXEC));
    ASSERT_TRUE(fd_.valid());
    content_.resize(64 * 1024);
    for (std::size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<char>(i * 7 >> 2);
    ASSERT_EQ(*storage().write(fd_.get(), content_.data(), content_.size(), 0), content_.size());
  }

  bool is_fake() const { return GetParam() == Kind::fake; }
  Storage& storage() { return is_fake() ? static_cast<Storage&>(fake_) : posix_; }

  PosixStorage posix_{GetParam() == Kind::io_uring};
  FakeStorage fake_;
  std::unique_ptr<Ring> ring_;
  UniqueFd fd_;
  std::string content_;
};
INSTANTIATE_TEST_SUITE_P(Rings, RingTest, testing::Values(Kind::io_uring, Kind::preadv2, Kind::fake), name_of);

// No released kernel takes dma-bufs, so this has only the refusal; test/guest has kernels that do.
TEST(UringDmabufTest, AKernelThatDoesNotKnowTheInterfaceRefusesItByName) {
  PosixStorage storage(true);
  if (storage.io_uring_error() != 0) GTEST_SKIP() << "io_uring is refused here";
  if (storage.dmabuf_error() == 0) GTEST_SKIP() << "this kernel takes dma-bufs";
  const std::unique_ptr<Ring> ring = std::move(*storage.open_ring(4));
  const UniqueFd memory(::memfd_create("no_dmabuf", MFD_CLOEXEC));

  const Result<int> slot = ring->dmabufs()->add(memory.get(), memory.get());

  EXPECT_TRUE(slot.status().is_errno(EINVAL)) << describe(slot.status());
  std::vector<char> bytes(4096);
  EXPECT_TRUE(ring->register_memory(bytes.data(), bytes.size()).ok()) << "the refused slot is free";
}

TEST(UringDmabufTest, WithoutIoUringThereAreNoSlots) {
  PosixStorage storage(false);
  EXPECT_EQ(storage.dmabuf_error(), ECANCELED);
  EXPECT_EQ((*storage.open_ring(4))->dmabufs(), nullptr);
}

// ThreadSanitizer called it a race where a thread's ring got the address of another thread's that was gone.
TEST(UringRingTest, ThreadsThatNeverMeetHaveRingsAtTheSameAddress) {
  const auto use_rings = [] {
    PosixStorage storage(true);
    char byte = 0;
    for (int i = 0; i < 50; ++i) {
      const std::unique_ptr<Ring> ring = std::move(*storage.open_ring(1));
      RingCompletion completion;
      ring->push({.op = Op::read, .fd = -1, .memory = &byte, .size = 1});
      EXPECT_EQ(*ring->reap({&completion, 1}, true), 1u);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(use_rings);
  for (std::thread& thread : threads) thread.join();
}

class KernelRingTest : public RingTest {};
INSTANTIATE_TEST_SUITE_P(Rings, KernelRingTest, testing::Values(Kind::io_uring, Kind::preadv2), name_of);

TEST_P(RingTest, EveryOperationCompletesOnceWithItsTag) {
  std::vector<char> memory(8 * 4096);
  for (std::uint32_t i = 0; i < 8; ++i) {
    ring_->push({.op = Op::read,
                 .fd = fd_.get(),
                 .memory = memory.data() + i * 4096,
                 .size = 4096,
                 .offset = i * 8192,
                 .tag = i});
  }
  ASSERT_TRUE(ring_->submit().ok());

  std::vector<int> seen(8, 0);
  for (unsigned done = 0; done < 8;) {
    RingCompletion completions[3];
    const unsigned count = *ring_->reap(completions, true);
    ASSERT_GT(count, 0u);
    for (unsigned i = 0; i < count; ++i) {
      EXPECT_EQ(completions[i].result, 4096);
      ++seen[completions[i].tag];
    }
    done += count;
  }

  EXPECT_EQ(seen, std::vector<int>(8, 1));
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(std::memcmp(memory.data() + i * 4096, content_.data() + i * 8192, 4096), 0) << i;
  }
}

TEST_P(RingTest, WaitingWithNothingInFlightReturnsAtOnce) {
  RingCompletion completion;
  EXPECT_EQ(*ring_->reap({&completion, 1}, true), 0u);
}

TEST_P(RingTest, ErrorsComeBackAsNegativeErrno) {
  char byte = 0;
  ring_->push({.op = Op::read, .fd = -1, .memory = &byte, .size = 1, .tag = 5});

  RingCompletion completion;
  ASSERT_EQ(*ring_->reap({&completion, 1}, true), 1u);

  EXPECT_EQ(completion.tag, 5u);
  EXPECT_EQ(completion.result, -EBADF);
}

TEST_P(KernelRingTest, MemoryTheKernelCannotReachIsAFault) {
  void* hole = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ring_->push({.op = Op::read, .fd = fd_.get(), .memory = hole, .size = 4096});

  RingCompletion completion;
  ASSERT_EQ(*ring_->reap({&completion, 1}, true), 1u);

  EXPECT_EQ(completion.result, -EFAULT);
  ::munmap(hole, 4096);
}

TEST_P(RingTest, RegisteredMemoryAndFilesMoveTheSameBytes) {
  constexpr std::size_t kSize = 16384;
  auto* memory = static_cast<char*>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const bool registered = ring_->register_memory(memory, kSize).ok();
  const int fixed = ring_->register_file(fd_.get());
  if (GetParam() == Kind::io_uring) {
    EXPECT_TRUE(registered);
    EXPECT_GE(fixed, 0);
  }

  ring_->push(
      {.op = Op::read, .fd = fd_.get(), .fixed_file = fixed, .memory = memory + 4096, .size = 8192, .offset = 100});
  RingCompletion completion;
  ASSERT_EQ(*ring_->reap({&completion, 1}, true), 1u);
  EXPECT_EQ(completion.result, 8192);
  EXPECT_EQ(std::memcmp(memory + 4096, content_.data() + 100, 8192), 0);

  std::memset(memory, 'w', 4096);
  ring_->push({.op = Op::write, .fd = fd_.get(), .fixed_file = fixed, .memory = memory, .size = 10, .offset = 3});
  ASSERT_EQ(*ring_->reap({&completion, 1}, true), 1u);
  char back[10];
  ASSERT_EQ(*storage().read(fd_.get(), back, 10, 3), 10u);
  EXPECT_EQ(std::string(back, 10), "wwwwwwwwww");
  ring_->unregister_file(fixed);
  ring_.reset();
  ::munmap(memory, kSize);
}

// If the ring still had the old pages pinned, it would not write to the new ones.
TEST_P(RingTest, MemoryThatIsUnregisteredMayChange) {
  constexpr std::size_t kSize = 16384;
  const auto map = [&](void* where, int flags) {
    return ::mmap(where, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  };
  void* const memory = map(nullptr, 0);
  const auto read = [&] {
    ring_->push({.op = Op::read, .fd = fd_.get(), .memory = memory, .size = kSize, .offset = 4096});
    RingCompletion completion;
    EXPECT_EQ(*ring_->reap({&completion, 1}, true), 1u);
    EXPECT_EQ(completion.result, static_cast<int>(kSize));
    return std::memcmp(memory, content_.data() + 4096, kSize) == 0;
  };
  (void)ring_->register_memory(memory, kSize);
  EXPECT_TRUE(read());

  ring_->unregister_memory(memory);
  ASSERT_EQ(map(memory, MAP_FIXED), memory);

  EXPECT_TRUE(read());
  ring_.reset();
  ::munmap(memory, kSize);
}

TEST_P(RingTest, SeveralPlacesCanBeRegisteredAndWhatIsTooManyDoesWithout) {
  constexpr std::size_t kPlaces = 12;
  std::vector<std::vector<char>> places(kPlaces, std::vector<char>(8192));
  unsigned registered = 0;
  for (auto& place : places) registered += ring_->register_memory(place.data(), place.size()).ok() ? 1 : 0;
  if (GetParam() == Kind::io_uring) {
    EXPECT_GE(registered, 1u);
  }

  for (std::uint32_t i = 0; i < kPlaces; ++i) {
    ring_->push({.op = Op::read, .fd = fd_.get(), .memory = places[i].data() + 100, .size = 8000, .offset = i * 4096});
    RingCompletion completion;
    ASSERT_EQ(*ring_->reap({&completion, 1}, true), 1u);
    EXPECT_EQ(completion.result, 8000);
    EXPECT_EQ(std::memcmp(places[i].data() + 100, content_.data() + i * 4096, 8000), 0) << i;
  }
  ring_.reset();
}

TEST_P(RingTest, ARingThatGoesAwayWaitsForItsOperations) {
  std::vector<char> memory(4096);
  ring_->push({.op = Op::read, .fd = fd_.get(), .memory = memory.data(), .size = 4096});
  ASSERT_TRUE(ring_->submit().ok());

  ring_.reset();  // The sanitizers watch the memory from here on.
}

// ---- Additions of the fake -----------------------------------------------------------------------------------------

class FakeRingTest : public testing::Test {
 protected:
  // Reads of eight blocks of 512 bytes: their tags in the order of their completions.
  std::vector<std::uint32_t> read_blocks() {
    storage_.content.assign(8 * 512, 'c');
    const UniqueFd fd = storage_.open_user_fd(O_RDONLY);
    const auto ring = std::move(storage_.open_ring(8).value());
    for (std::uint32_t i = 0; i < 8; ++i) {
      ring->push({.op = Op::read, .fd = fd.get(), .memory = memory_, .size = 512, .offset = i * 512, .tag = i});
    }
    std::vector<std::uint32_t> tags;
    RingCompletion completion;
    while (*ring->reap({&completion, 1}, true) == 1) {
      tags.push_back(completion.tag);
      moved_.push_back(completion.result);
    }
    return tags;
  }

  FakeStorage storage_;
  char memory_[512];
  std::vector<std::int32_t> moved_;
};

TEST_F(FakeRingTest, CompletesInAnotherOrderThanItWasAskedAndAnotherForEachSeed) {
  const std::vector<std::uint32_t> first = read_blocks();
  storage_.seed = 2;
  const std::vector<std::uint32_t> second = read_blocks();

  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  EXPECT_NE(first, second);
}

TEST_F(FakeRingTest, TriesAgainWhatWasInterruptedOrPutOff) {
  storage_.faults = {{.error = EINTR}, {.error = EAGAIN}, {.error = EAGAIN}};

  EXPECT_EQ(read_blocks().size(), 8u);

  EXPECT_EQ(moved_, std::vector<std::int32_t>(8, 512));
  EXPECT_EQ(storage_.accesses.size(), 8u + 3);
}

TEST_F(FakeRingTest, CutsSomeTransfersShortWhereItsStorageIsBusy) {
  storage_.be_busy(1);

  EXPECT_EQ(read_blocks().size(), 8u);

  EXPECT_GT(std::count(moved_.begin(), moved_.end(), 512), 0);
  EXPECT_GT(std::count_if(moved_.begin(), moved_.end(), [](auto bytes) { return bytes > 0 && bytes < 512; }), 0);
}

TEST_P(KernelRingTest, AWaitWithALimitEndsWithItAndWithWhatComesBefore) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd from(ends[0]), to(ends[1]);
  const auto in = [](std::chrono::nanoseconds time) { return std::chrono::steady_clock::now() + time; };
  char byte = 0;
  RingCompletion completion;
  if (GetParam() == Kind::preadv2) {
    EXPECT_FALSE(ring_->wait_until(in(std::chrono::hours(1))));  // Its operations run when they are reaped.
    return;
  }
  ring_->push({.op = Op::read, .fd = from.get(), .memory = &byte, .size = 1, .tag = 3});
  if (!ring_->wait_until(in(std::chrono::milliseconds(2)))) GTEST_SKIP() << "this kernel's waits have no limit";
  EXPECT_EQ(*ring_->reap({&completion, 1}, false), 0u);

  std::thread writer([&] { EXPECT_EQ(::write(to.get(), "x", 1), 1); });
  EXPECT_TRUE(ring_->wait_until(in(std::chrono::hours(1))));
  writer.join();

  ASSERT_EQ(*ring_->reap({&completion, 1}, false), 1u);
  EXPECT_EQ(completion.tag, 3u);
  EXPECT_EQ(byte, 'x');
}

// ---- io_uring alone ------------------------------------------------------------------------------------------------

// The state after closefrom(3), once another file got the ring's descriptor number.
class LostRingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (storage_.io_uring_error() != 0) GTEST_SKIP() << "io_uring is refused here";
    ring_ = std::move(storage_.open_ring(8).value());
    char target[32] = "";
    ASSERT_GT(::readlink(("/proc/self/fd/" + std::to_string(number())).c_str(), target, sizeof target - 1), 0);
    ASSERT_STREQ(target, "anon_inode:[io_uring]");
  }

  int number() const { return lowest_.get() + 1; }  // The kernel returns the lowest free number.
  UniqueFd lose() const { return UniqueFd(::dup2(lowest_.get(), number())); }
  // The number of completions, or -1 for a failure.
  int reap(bool wait) {
    const Result<unsigned> count = ring_->reap({&completion_, 1}, wait);
    return count.ok() ? static_cast<int>(*count) : -1;
  }

  PosixStorage storage_{true};
  const UniqueFd lowest_{::memfd_create("ring_test", MFD_CLOEXEC)};
  std::unique_ptr<Ring> ring_;
  RingCompletion completion_;
};

TEST_F(LostRingTest, ClosesNobodyElsesDescriptor) {
  const UniqueFd stranger = lose();

  ring_.reset();

  EXPECT_GE(::fcntl(number(), F_GETFD), 0);
}

// The kernel may still read into memory that its caller would have back already.
TEST_F(LostRingTest, FailsOnlyOnceNothingThatTheKernelHasIsUnderWay) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd from(ends[0]), to(ends[1]);
  char byte = 0, never = 0;
  ring_->push({.op = Op::read, .fd = from.get(), .memory = &byte, .size = 1, .tag = 3});
  ASSERT_TRUE(ring_->submit().ok());
  const UniqueFd stranger = lose();
  ring_->push({.op = Op::read, .fd = from.get(), .memory = &never, .size = 1, .tag = 4});
  EXPECT_EQ(reap(false), 0);

  EXPECT_EQ(::write(to.get(), "xy", 2), 2);

  EXPECT_EQ(reap(true), 1);
  EXPECT_EQ(completion_.tag, 3u);
  EXPECT_EQ(completion_.result, 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_EQ(reap(true), -1);
  EXPECT_FALSE(ring_->submit().ok());
  EXPECT_EQ(never, 0) << "it never reached the kernel";
}

}  // namespace
}  // namespace penstock::core
