// SPDX-License-Identifier: Apache-2.0

// What every Ring promises, asked of io_uring and of its stand-in.
#include "storage/ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "storage/posix_storage.h"

namespace penstock::core {
namespace {

class RingTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && storage_.io_uring_error() != 0) {
      GTEST_SKIP() << "io_uring is refused here: " << std::strerror(storage_.io_uring_error());
    }
    ring_ = std::move(storage_.open_ring(8).value());
    ASSERT_EQ(ring_->is_io_uring(), GetParam());
    fd_.reset(::memfd_create("ring_test", MFD_CLOEXEC));
    ASSERT_TRUE(fd_.valid());
    content_.resize(64 * 1024);
    for (std::size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<char>(i * 7 >> 2);
    ASSERT_EQ(::pwrite(fd_.get(), content_.data(), content_.size(), 0), static_cast<ssize_t>(content_.size()));
  }

  PosixStorage storage_{GetParam()};
  std::unique_ptr<Ring> ring_;
  UniqueFd fd_;
  std::string content_;
};
INSTANTIATE_TEST_SUITE_P(Rings, RingTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "IoUring" : "Preadv2"; });

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

TEST_P(RingTest, MemoryTheKernelCannotReachIsAFault) {
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
  if (GetParam()) {
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
  ASSERT_EQ(::pread(fd_.get(), back, 10, 3), 10);
  EXPECT_EQ(std::string(back, 10), "wwwwwwwwww");
  ring_->unregister_file(fixed);
  ring_.reset();
  ::munmap(memory, kSize);
}

TEST_P(RingTest, ARingThatGoesAwayWaitsForItsOperations) {
  std::vector<char> memory(4096);
  ring_->push({.op = Op::read, .fd = fd_.get(), .memory = memory.data(), .size = 4096});
  ASSERT_TRUE(ring_->submit().ok());

  ring_.reset();  // The sanitizers watch the memory from here on.
}

// As after closefrom(3), when another file was given the ring's number.
TEST(UringRingTest, ARingWhoseDescriptorWasClosedByOthersClosesNobodyElses) {
  PosixStorage storage(true);
  if (storage.io_uring_error() != 0) GTEST_SKIP() << "io_uring is refused here";
  const UniqueFd lowest(::memfd_create("ring_test", MFD_CLOEXEC));
  auto ring = std::move(storage.open_ring(8).value());
  const int number = lowest.get() + 1;  // The kernel gives the lowest that is free.
  char target[32] = "";
  ASSERT_GT(::readlink(("/proc/self/fd/" + std::to_string(number)).c_str(), target, sizeof target - 1), 0);
  ASSERT_STREQ(target, "anon_inode:[io_uring]");
  const UniqueFd stranger(::dup2(lowest.get(), number));

  ring.reset();

  EXPECT_GE(::fcntl(number, F_GETFD), 0);
}

}  // namespace
}  // namespace penstock::core
