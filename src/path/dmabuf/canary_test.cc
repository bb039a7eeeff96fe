// SPDX-License-Identifier: Apache-2.0

#include "path/dmabuf/canary.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "fakes/failing_gpu.h"
#include "fakes/fake_storage.h"
#include "path/dmabuf/dmabuf_reasons.h"

namespace penstock::core {
namespace {

constexpr std::size_t kMemoryBytes = 64u << 10, kDriveBytes = 256u << 10;

// A drive of random bytes, and the device's memory, with a mover that may lie.
class CanaryTest : public testing::Test {
 protected:
  CanaryTest() {
    storage_.content.resize(kDriveBytes);
    for (std::size_t i = 0; i < kDriveBytes; ++i) storage_.content[i] = static_cast<char>(i * 31 + i / 257);
    drive_ = storage_.open_user_fd(O_RDWR | O_DIRECT);
    memory_ = static_cast<std::byte*>(*gpu_.allocate(kMemoryBytes));
    copies_ = std::move(*gpu_.open_copy_queue(1));
  }

  using Move = std::function<Result<std::size_t>(Op, std::uint64_t, std::size_t, std::uint64_t)>;

  // The right one.
  Result<std::size_t> move(Op op, std::uint64_t place, std::size_t size, std::uint64_t at) {
    ++moves_;
    char* const drive = storage_.content.data() + at;
    if (op == Op::read) std::memcpy(memory_ + place, drive, size);
    else std::memcpy(drive, memory_ + place, size);
    return size;
  }
  CanaryWorld world(const Move& move) {
    return {gpu_, *copies_, memory_, kMemoryBytes, kMemoryBytes / 2, storage_, drive_.get(), kDriveBytes, move};
  }
  Move right() {
    return [this](Op op, std::uint64_t place, std::size_t size, std::uint64_t at) { return move(op, place, size, at); };
  }

  FakeStorage storage_;
  FailingGpu gpu_;
  UniqueFd drive_;
  std::byte* memory_ = nullptr;
  std::unique_ptr<CopyQueue> copies_;
  unsigned moves_ = 0;
};

TEST_F(CanaryTest, BytesThatArriveAreTrustedAfterEightReads) {
  EXPECT_EQ(canary_of_reads(world(right())).reason, Reason::none);
  EXPECT_EQ(moves_, 8u);
}

TEST_F(CanaryTest, ADriveOfZerosIsAsGoodAsAnother) {
  std::fill(storage_.content.begin(), storage_.content.end(), '\0');
  EXPECT_EQ(canary_of_reads(world(right())).reason, Reason::none);
}

TEST_F(CanaryTest, SuccessWithoutBytesIsFoundOut) {
  const auto nothing = [](Op, std::uint64_t, std::size_t size, std::uint64_t) { return Result<std::size_t>(size); };
  EXPECT_EQ(canary_of_reads(world(nothing)).reason, dmabuf_reason::untrusted);
}

TEST_F(CanaryTest, BytesBesideTheirPlaceAreFoundOut) {
  const auto beside = [&](Op op, std::uint64_t place, std::size_t size, std::uint64_t at) {
    (void)move(op, place, size, at);
    return move(op, place + size, size, at);
  };
  EXPECT_EQ(canary_of_reads(world(beside)).reason, dmabuf_reason::untrusted);
}

TEST_F(CanaryTest, OneByteOfOthersIsFoundOut) {
  const auto nearly = [&](Op op, std::uint64_t place, std::size_t size, std::uint64_t at) {
    const Result<std::size_t> moved = move(op, place, size, at);
    memory_[place + 4095] ^= std::byte{1};
    return moved;
  };
  EXPECT_EQ(canary_of_reads(world(nearly)).reason, dmabuf_reason::untrusted);
}

// The memory's first pages alone would not show it.
TEST_F(CanaryTest, MemoryThatIsRightAtItsStartAloneIsFoundOut) {
  const auto first = [&](Op op, std::uint64_t place, std::size_t size, std::uint64_t at) {
    return place == 0 ? move(op, place, size, at) : Result<std::size_t>(size);
  };
  EXPECT_EQ(canary_of_reads(world(first)).reason, dmabuf_reason::untrusted);
}

TEST_F(CanaryTest, MemoryThatIsRightInEachPageAndWrongAcrossThemIsFoundOut) {
  for (const std::size_t entry : {std::size_t{4096}, kMemoryBytes / 4, kMemoryBytes / 2}) {
    const auto within = [&](Op op, std::uint64_t place, std::size_t size, std::uint64_t at) {
      (void)move(op, place, std::min<std::size_t>(size, entry - place % entry), at);
      return Result<std::size_t>(size);
    };
    EXPECT_EQ(canary_of_reads(world(within)).reason, dmabuf_reason::untrusted) << entry;
    EXPECT_EQ(canary_of_writes(world(within)).reason, dmabuf_reason::untrusted) << entry;
  }
}

TEST_F(CanaryTest, TheFirstRoundsBytesDoNotPassForTheSeconds) {
  const auto once = [&](Op op, std::uint64_t place, std::size_t size, std::uint64_t at) {
    return moves_ < 4 ? move(op, place, size, at) : Result<std::size_t>(size);
  };
  EXPECT_EQ(canary_of_reads(world(once)).reason, dmabuf_reason::untrusted);
}

TEST_F(CanaryTest, ABlockThatOthersWriteIsReadAgain) {
  unsigned looks = 0;
  storage_.on_access = [&](const FakeStorage::Access& access) {
    if (++looks == 2) std::memset(storage_.content.data() + access.offset, 'w', access.size);
  };
  EXPECT_EQ(canary_of_reads(world(right())).reason, Reason::none);
  EXPECT_EQ(moves_, 9u);
}

TEST_F(CanaryTest, ABlockThatOthersAlwaysWriteIsNoProof) {
  char next = 0;
  storage_.on_access = [&](const FakeStorage::Access& access) {
    std::memset(storage_.content.data() + access.offset, ++next, access.size);
  };
  const Proof proof = canary_of_reads(world(right()));
  EXPECT_EQ(proof.reason, dmabuf_reason::refused);
  EXPECT_EQ(proof.error, EBUSY);
}

TEST_F(CanaryTest, ARefusalIsToldWithItsErrnoAndAStandstillByName) {
  const auto refuses = [](Op, std::uint64_t, std::size_t, std::uint64_t) -> Result<std::size_t> {
    return os_failure(ENODEV, "move as scripted");
  };
  EXPECT_EQ(canary_of_reads(world(refuses)).error, ENODEV);
  EXPECT_EQ(canary_of_writes(world(refuses)).error, ENODEV);
  const auto hangs = [](Op, std::uint64_t, std::size_t, std::uint64_t) -> Result<std::size_t> {
    return failure(Code::no_progress, "move as scripted");
  };
  EXPECT_EQ(canary_of_reads(world(hangs)).reason, dmabuf_reason::stuck);
}

TEST_F(CanaryTest, AShortMoveAndALostDeviceAreNoProof) {
  const auto half = [](Op, std::uint64_t, std::size_t size, std::uint64_t) { return Result<std::size_t>(size / 2); };
  EXPECT_EQ(canary_of_reads(world(half)).error, EIO);
  gpu_.loses_context = true;
  EXPECT_EQ(canary_of_reads(world(right())).reason, dmabuf_reason::refused);
}

TEST_F(CanaryTest, EachCallOfTheDriverMayFailAndIsNoProof) {
  for (const auto& canary : {canary_of_reads, canary_of_writes}) {
    unsigned calls = 0;
    for (unsigned n = 1; n == 1 || gpu_.has_failed(); ++n) {
      gpu_.fail_at(n);
      const Proof proof = canary(world(right()));
      if (!gpu_.has_failed()) continue;
      EXPECT_EQ(proof.reason, dmabuf_reason::refused) << n;
      EXPECT_EQ(proof.error, EFAULT) << n;
      ++calls;
    }
    EXPECT_GT(calls, 10u);
  }
}

TEST_F(CanaryTest, EachLookOfTheHostMayFailAndIsNoProof) {
  for (const auto& canary : {canary_of_reads, canary_of_writes}) {
    unsigned looks = 0, fails_at = 1;
    storage_.refuses = [&](const FakeStorage::Access&) { return ++looks == fails_at ? EIO : 0; };
    for (; fails_at <= 5; ++fails_at, looks = 0) {
      const Proof proof = canary(world(right()));
      EXPECT_EQ(proof.reason, dmabuf_reason::refused) << fails_at;
      EXPECT_EQ(proof.error, EIO) << fails_at;
    }
    storage_.refuses = [](const FakeStorage::Access&) { return 0; };
  }
}

TEST_F(CanaryTest, LooksThatStayShortAreNoProofAndOneThatIsShortIsMadeAgain) {
  storage_.faults = {{.at_most = 512}};
  EXPECT_EQ(canary_of_reads(world(right())).reason, Reason::none);
  storage_.faults.assign(32, {.at_most = 512});
  EXPECT_EQ(canary_of_reads(world(right())).error, EIO);
}

TEST_F(CanaryTest, ADriveWithoutRoomForItIsRefusedAsItIs) {
  CanaryWorld world = this->world(right());
  world.drive_bytes = 4096;
  EXPECT_EQ(canary_of_reads(world).reason, dmabuf_reason::drive);
  world.drive_bytes = 3 * 4096;
  EXPECT_EQ(canary_of_writes(world).reason, dmabuf_reason::drive);
  EXPECT_EQ(moves_, 0u);
}

// The queue may still have the first copy, whose memory the caller is about to reuse.
TEST_F(CanaryTest, ACopyThatIsRefusedBehindAnotherIsNoReasonNotToWaitForThat) {
  int from = 7, to = 0;
  std::memcpy(memory_, &from, sizeof from);
  const Status queued = copies_->copy_to_host(&to, memory_, sizeof to);
  ASSERT_TRUE(queued.ok());
  EXPECT_TRUE(wait_for_copies(*copies_, failure(Code::device_lost, "copy as scripted")).is(Code::device_lost));
  EXPECT_EQ(to, 7);
}

TEST_F(CanaryTest, WritesAreComparedWithWhatTheDriveHas) {
  EXPECT_EQ(canary_of_writes(world(right())).reason, Reason::none);
  const auto zeros = [&](Op, std::uint64_t, std::size_t size, std::uint64_t at) {
    std::memset(storage_.content.data() + at, 0, size);
    return Result<std::size_t>(size);
  };
  EXPECT_EQ(canary_of_writes(world(zeros)).reason, dmabuf_reason::untrusted);
  const auto nothing = [](Op, std::uint64_t, std::size_t size, std::uint64_t) { return Result<std::size_t>(size); };
  EXPECT_EQ(canary_of_writes(world(nothing)).reason, dmabuf_reason::untrusted);
}

}  // namespace
}  // namespace penstock::core
