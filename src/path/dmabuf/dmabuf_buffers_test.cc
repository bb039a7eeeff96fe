// SPDX-License-Identifier: Apache-2.0

// Registered memory, which the drive reaches where it is.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/align.h"
#include "fakes/dmabuf_fixture.h"
#include "path/dmabuf/dmabuf_reasons.h"
#include "path/pipeline/pipeline_reasons.h"

namespace penstock::core {
namespace {

class DmabufBuffersTest : public DmabufFixture {
 protected:
  void SetUp() override {
    ASSERT_TRUE(judge().usable);
    register_memory();
    channel_ = channel();
    exports_ = gpu_->exports;
  }
  void TearDown() override {
    channel_.reset();
    DmabufFixture::TearDown();
  }
  void register_memory(std::uint64_t at = 0, std::uint64_t size = kUserBytes) {
    path().hooks()->add_buffer(devices_->describe(memory_), base() + at, size);
  }
  void deregister_memory(std::uint64_t at = 0) { path().hooks()->remove_buffer(base() + at); }
  std::uint64_t base() const { return reinterpret_cast<std::uintptr_t>(memory_); }
  // The number of requests by which a read went in place, canaries included.
  unsigned in_place(std::uint64_t offset, std::uint64_t size) {
    const unsigned before = kernel_.lent_requests;
    EXPECT_EQ(read_and_compare(*channel_, offset, size), Reason::none) << offset << ' ' << size;
    return kernel_.lent_requests - before;
  }
  unsigned exports() const { return gpu_->exports - exports_; }

  static constexpr std::uint64_t kPage = 4096;
  std::unique_ptr<Channel> channel_;
  unsigned exports_ = 0;
};

TEST_F(DmabufBuffersTest, AreReadInPlaceBehindACanaryOfTheirs) {
  EXPECT_EQ(in_place(kPage, 16 * kPage), 8u + 1u);
  EXPECT_EQ(in_place(kPage, 16 * kPage), 1u) << "the part is proven";
  EXPECT_EQ(in_place(3 * kPage, kPage), 1u);
  EXPECT_EQ(exports(), 1u);
}

// The canary writes to the request's own memory alone, whatever that has before the read.
TEST_F(DmabufBuffersTest, AreLeftAsTheyAreAroundTheRequest) {
  char* const start = memory_;
  for (const std::uint64_t pages : {1, 2, 3, 4, 5, 16}) {
    std::memset(start, 0x77, kUserBytes);
    clock_.advance(path_->rules().trusted_for);
    memory_ = start + 8 * kPage + 4;
    EXPECT_GT(in_place(0, pages * kPage), 1u) << pages;
    memory_ = start;
    const auto is_as_before = [](char byte) { return byte == 0x77; };
    EXPECT_TRUE(std::all_of(start, start + 8 * kPage + 4, is_as_before));
    const char* const behind = start + (8 + pages) * kPage + 4 + 1;  // read_and_compare() sets one byte behind.
    EXPECT_TRUE(std::all_of(behind, static_cast<const char*>(start) + kUserBytes, is_as_before));
  }
}

TEST_F(DmabufBuffersTest, WhatDoesNotFitGoesByTheChannelsOwnMemory) {
  ASSERT_GT(in_place(0, 16 * kPage), 0u);
  EXPECT_EQ(in_place(100, 16 * kPage - 200), 0u) << "whole blocks are more than the request";
  EXPECT_EQ(in_place(0, 512), 0u) << "less than a canary";
  ++memory_;
  EXPECT_EQ(in_place(0, kPage), 0u) << "no drive reaches an odd address";
  --memory_;
  const Plan over_the_end = plan(Op::read, kDriveBytes - kPage, 2 * kPage);
  const Completion end = channel_->move_and_wait(request(Op::read, 2 * kPage), over_the_end.chunk(0));
  EXPECT_EQ(end.bytes, kPage) << "the drive ends";
  EXPECT_EQ(in_place(0, kPage), 1u);
}

TEST_F(DmabufBuffersTest, OnlyWholePagesOfWhatIsRegisteredAreExported) {
  deregister_memory();
  register_memory(100, 20 * kPage);
  memory_ += kPage;
  EXPECT_GT(in_place(0, 16 * kPage), 0u);
  memory_ += 4 * kPage;
  EXPECT_EQ(in_place(0, 16 * kPage), 0u) << "it ends within the buffer's last page";
  memory_ -= 5 * kPage;
  EXPECT_EQ(in_place(0, 4 * kPage), 0u) << "it begins before the buffer";
  deregister_memory(100);
}

TEST_F(DmabufBuffersTest, AreProvenAnewByTimeAndAfterAnErrorThatMayMeanANewMapping) {
  ASSERT_GT(in_place(0, 16 * kPage), 1u);
  clock_.advance(path_->rules().trusted_for);
  EXPECT_EQ(in_place(0, 16 * kPage), 8u + 1u);
  kernel_.errors = {-EAGAIN};
  EXPECT_EQ(read_and_compare(*channel_, 0, 16 * kPage), pipeline_reason::refused_late);
  EXPECT_EQ(in_place(0, 16 * kPage), 8u + 1u);
  kernel_.errors = {-ENODEV};
  EXPECT_EQ(read_and_compare(*channel_, 0, 16 * kPage), pipeline_reason::refused_late);
  EXPECT_EQ(in_place(0, 16 * kPage), 8u + 1u);
  EXPECT_EQ(exports(), 2u) << "by a new slot";
}

// ---- Parts of a slab ------------------------------------------------------------------------------------------------

class DmabufPartsTest : public DmabufBuffersTest {
 protected:
  static constexpr std::uint64_t kPart = DmabufBuffer::kPartBytes;
  void SetUp() override {
    DmabufBuffersTest::SetUp();
    memory_ = static_cast<char*>(*gpu_->allocate(2 * kPart));
    part_ = reinterpret_cast<char*>(align_up(base() + kPage, kPart));
  }
  char* part_ = nullptr;  // The begin of a part.
};

TEST_F(DmabufPartsTest, AReadOfOnePageAtAPartsBeginProvesThatPartAlone) {
  register_memory(0, 2 * kPart);
  memory_ = part_;
  EXPECT_EQ(in_place(0, kPage), 8u + 1u);
  EXPECT_EQ(in_place(0, kPage), 1u);
  memory_ = part_ - kPage;
  EXPECT_EQ(in_place(0, kPage), 8u + 1u) << "the part before has had no canary";
}

TEST_F(DmabufPartsTest, AReadOfOnePageAtTheSlabsBeginHasAPart) {
  memory_ = part_;
  register_memory(0, 16 * kPage);
  EXPECT_EQ(in_place(0, kPage), 8u + 1u);
}

// ---- The end of a registration -------------------------------------------------------------------------------------

TEST_F(DmabufBuffersTest, NoSlotHasThemOnceTheyAreDeregistered) {
  const std::unique_ptr<Channel> other = channel();
  ASSERT_GT(in_place(0, 16 * kPage), 0u);
  ASSERT_EQ(read_and_compare(*other, 0, 16 * kPage), Reason::none);

  std::thread([&] { deregister_memory(); }).join();

  EXPECT_EQ(kernel_.released, 2u);
  EXPECT_EQ(in_place(0, 16 * kPage), 0u);
  register_memory();
  EXPECT_EQ(in_place(0, 16 * kPage), 8u + 1u) << "by a slot of the new registration";
}

TEST_F(DmabufBuffersTest, OfAChannelThatIsClosedNothingIsReleased) {
  ASSERT_GT(in_place(0, 16 * kPage), 0u);
  channel_.reset();
  deregister_memory();
  EXPECT_EQ(kernel_.released, 0u);
}

TEST_F(DmabufBuffersTest, MemoryThatWasFreedAndAllocatedAnewIsNotReachedThroughTheOld) {
  ASSERT_GT(in_place(0, 16 * kPage), 0u);
  gpu_->replace(memory_);
  EXPECT_EQ(in_place(0, 16 * kPage), 0u);
  EXPECT_EQ(kernel_.released, 1u) << "the old memory is let go";
  EXPECT_EQ(in_place(0, 16 * kPage), 0u) << "until it is registered anew";
  deregister_memory();
  register_memory();
  EXPECT_GT(in_place(0, 16 * kPage), 0u);
}

TEST_F(DmabufBuffersTest, MemoryThatCannotBeExportedGoesByTheChannelsOwn) {
  gpu_->export_error = EINVAL;
  memory_ += 20 * kPage;  // There, no place in the channel's memory would be right by chance.
  EXPECT_EQ(in_place(0, 16 * kPage), 0u);
  memory_ -= 20 * kPage;
  gpu_->export_error = 0;
  EXPECT_EQ(in_place(0, 16 * kPage), 0u) << "it is not asked again";
  EXPECT_EQ(exports(), 0u);
}

TEST_F(DmabufBuffersTest, SlotsOfManyTakeTurns) {
  deregister_memory();
  char* const start = memory_;
  for (unsigned i = 0; i < 2 * DmabufSlots::kDmabufsMax; ++i) register_memory(i * 2 * kPage, 2 * kPage);
  for (unsigned round = 0; round < 2; ++round) {
    for (unsigned i = 0; i < 2 * DmabufSlots::kDmabufsMax; ++i) {
      memory_ = start + i * 2 * kPage;
      EXPECT_GT(in_place(i * 2 * kPage % kDriveBytes, kPage), 0u);
    }
  }
  memory_ = start;
}

// ---- Exporters that are wrong for the program's memory alone -------------------------------------------------------

class WrongLentExporterTest : public DmabufBuffersTest, public testing::WithParamInterface<Exporter> {
 protected:
  void SetUp() override {
    DmabufBuffersTest::SetUp();
    kernel_.is_wrong_for_lent = true;
    kernel_.exporter = GetParam();
  }
};
INSTANTIATE_TEST_SUITE_P(Exporters, WrongLentExporterTest, testing::ValuesIn(kWrongExporters));

TEST_P(WrongLentExporterTest, IsFoundOutBeforeAByteIsDelivered) {
  char* const start = memory_;
  unsigned bounced = 0;
  for (unsigned page = 0; page < 64; page += 8) {  // Reads that begin in the middle of an exporter's entry, too.
    memory_ = start + page * kPage;
    bounced += read_and_compare(*channel_, page * kPage, 16 * kPage) == Reason::none ? 0 : 1;
  }
  memory_ = start;
  EXPECT_GT(bounced, 0u);
  EXPECT_EQ(judge().reason, dmabuf_reason::untrusted) << "off for the process";
}

TEST_P(WrongLentExporterTest, OfManyReadsNoByteIsWrong) {
  char* const start = memory_;
  std::mt19937_64 random(7);
  for (unsigned i = 0; i < 200; ++i) {
    const std::uint64_t pages = 1 + random() % 32;
    memory_ = start + random() % (kUserBytes / kPage - 33) * kPage;
    (void)read_and_compare(*channel_, random() % (kDriveBytes / kPage - 32) * kPage, pages * kPage);
  }
  memory_ = start;
}

// ---- The list by itself --------------------------------------------------------------------------------------------

// The channels' part: which buffers' slots were released.
class Releases final : public DmabufBuffers::User {
 public:
  void release_slots(const DmabufBuffer&) override { ++count; }
  unsigned count = 0;
};

class DmabufBufferListTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kPage = DmabufBuffer::kPage, kSlab = DmabufBuffer::kSlabBytesMax;

  DmabufBufferListTest() : memory_(*gpu_.allocate(2 * kSlab)), base_(reinterpret_cast<std::uintptr_t>(memory_)) {
    buffers_.add_user(releases_);
  }
  DmabufBuffer* find(std::uint64_t at, std::uint64_t bytes = kPage) { return buffers_.find(gpu_, base_ + at, bytes); }

  FakeGpu gpu_;
  void* const memory_;
  const std::uint64_t base_;
  Releases releases_;
  DmabufBuffers buffers_{std::chrono::nanoseconds(0)};
};

TEST_F(DmabufBufferListTest, HasOnlyWholePagesOfWhatTheDriverKnows) {
  buffers_.add(gpu_, base_ + 1, kPage);
  EXPECT_EQ(find(0), nullptr) << "no whole page";
  buffers_.add(gpu_, 1 << 20, kPage);
  EXPECT_EQ(buffers_.find(gpu_, 1 << 20, kPage), nullptr) << "no memory of the device";
  buffers_.add(gpu_, base_, kPage);
  EXPECT_NE(find(0), nullptr);
  FakeGpu other;
  EXPECT_EQ(buffers_.find(other, base_, kPage), nullptr) << "another device's";
}

TEST_F(DmabufBufferListTest, BeyondTheMostOneIsTakenOnceAnotherHasGone) {
  for (unsigned i = 0; i < DmabufBuffers::kBuffersMax; ++i) buffers_.add(gpu_, base_ + i * kPage, kPage);
  const std::uint64_t next = DmabufBuffers::kBuffersMax * kPage;
  buffers_.add(gpu_, base_ + next, kPage);
  EXPECT_EQ(find(next), nullptr);
  buffers_.remove(base_ + next);
  EXPECT_EQ(releases_.count, 0u) << "it is none of them";
  buffers_.remove(base_);
  EXPECT_EQ(releases_.count, 1u);
  buffers_.add(gpu_, base_ + next, kPage);
  EXPECT_NE(find(next), nullptr);
}

TEST_F(DmabufBufferListTest, IsHeldWithinOneSlabAlone) {
  buffers_.add(gpu_, base_, 2 * kSlab);
  DmabufBuffer* const buffer = find(kSlab - kPage, 2 * kPage);
  ASSERT_NE(buffer, nullptr);
  EXPECT_FALSE(buffer->hold(base_ + kSlab - kPage, 2 * kPage));
  EXPECT_FALSE(buffer->hold(base_ + 2 * kSlab, kPage)) << "behind it";
  EXPECT_TRUE(buffer->hold(base_ + kSlab, kPage));
  EXPECT_EQ(buffer->slab_of(base_ + kSlab).address, base_ + kSlab);
  buffer->let_go();
}

TEST_F(DmabufBufferListTest, ARequestThatDoesNotEndKeepsTheSlotsAndItsPlaceIsFree) {
  buffers_.add(gpu_, base_, kPage);
  DmabufBuffer* const buffer = find(0);
  ASSERT_TRUE(buffer->hold(base_, kPage));
  buffers_.remove(base_);
  EXPECT_EQ(releases_.count, 0u);
  EXPECT_FALSE(buffer->hold(base_, kPage)) << "nobody else holds it";
  buffers_.add(gpu_, base_ + kPage, kPage);
  EXPECT_EQ(find(kPage), buffer);
  buffer->let_go();
}

TEST_F(DmabufBufferListTest, OtherMemoryAtItsAddressEndsItAndAHolderKeepsItsSlots) {
  for (const bool is_held : {false, true}) {
    buffers_.add(gpu_, base_, kPage);
    DmabufBuffer* const buffer = find(0);
    ASSERT_EQ(buffer->hold(base_, kPage), true);
    if (!is_held) buffer->let_go();
    const unsigned before = releases_.count;
    gpu_.replace(memory_);
    EXPECT_EQ(find(0), nullptr);
    EXPECT_EQ(releases_.count, before + (is_held ? 0 : 1));
    if (is_held) buffer->let_go();
    buffers_.remove(base_);
    EXPECT_GT(releases_.count, before);
  }
}

}  // namespace
}  // namespace penstock::core
