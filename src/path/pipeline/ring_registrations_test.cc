// SPDX-License-Identifier: Apache-2.0

// A ring that counts what is registered with it, and refuses memory if it is told to.
#include "path/pipeline/ring_registrations.h"

#include <gtest/gtest.h>

namespace penstock::core {
namespace {

class CountingRing final : public Ring {
 public:
  void push(const RingOp&) override {}
  Status submit() override { return success(); }
  Result<unsigned> reap(std::span<RingCompletion>, bool) override { return 0u; }
  Status register_memory(void*, std::size_t) override {
    ++memories;
    return refuses_memory ? os_failure(ENOMEM, "test") : success();
  }
  void unregister_memory(void* memory) override { unregistered = memory; }
  int register_file(int) override { return files++; }
  void unregister_file(int) override { --files; }

  int files = 0;
  int memories = 0;
  bool refuses_memory = false;
  void* unregistered = nullptr;
};

class RingRegistrationsTest : public testing::Test {
 protected:
  int number(std::uint64_t file, IoMode io_mode = IoMode::o_direct) {
    return registrations_.number_of(ring_, file, io_mode, 3);
  }
  ChannelFacts channel_facts(std::size_t i) { return {.buffer = memory_ + i, .buffer_bytes = 1}; }

  CountingRing ring_;
  RingRegistrations registrations_;
  std::byte memory_[16] = {};
};

TEST_F(RingRegistrationsTest, ADescriptorIsRegisteredOnce) {
  EXPECT_EQ(number(7), 0);
  EXPECT_EQ(number(7), 0);
  EXPECT_EQ(number(7, IoMode::buffered), 1);
  EXPECT_EQ(ring_.files, 2);
}

TEST_F(RingRegistrationsTest, TheNinthDescriptorHasNoNumberUntilOneIsForgotten) {
  for (int i = 0; i < 8; ++i) EXPECT_EQ(number(1u + static_cast<unsigned>(i)), i);
  EXPECT_EQ(number(9), -1);

  registrations_.forget_file(&ring_, 3);

  EXPECT_EQ(number(9), 7);
}

TEST_F(RingRegistrationsTest, ForgettingNoFileInParticularForgetsAll) {
  (void)number(1);
  (void)number(2);

  registrations_.forget_file(&ring_, 0);

  EXPECT_EQ(ring_.files, 0);
}

TEST_F(RingRegistrationsTest, MemoryIsRegisteredOnceAndOnlyIfItMayBeKept) {
  registrations_.keep_memory(ring_, channel_facts(0));
  registrations_.keep_memory(ring_, channel_facts(0));
  registrations_.keep_memory(ring_, ChannelFacts{});
  EXPECT_EQ(ring_.memories, 1);

  registrations_.forget_memory(&ring_, memory_);
  EXPECT_EQ(ring_.unregistered, memory_);
}

TEST_F(RingRegistrationsTest, RefusedMemoryIsTriedAgainOnceOtherMemoryIsGone) {
  registrations_.keep_memory(ring_, channel_facts(0));
  ring_.refuses_memory = true;
  registrations_.keep_memory(ring_, channel_facts(1));
  registrations_.keep_memory(ring_, channel_facts(1));
  EXPECT_EQ(ring_.memories, 2);

  registrations_.forget_memory(&ring_, memory_);
  registrations_.keep_memory(ring_, channel_facts(1));

  EXPECT_EQ(ring_.memories, 3);
}

TEST_F(RingRegistrationsTest, WithoutARingThereIsNothingToUnregister) {
  registrations_.forget_file(nullptr, 0);
  registrations_.forget_memory(nullptr, memory_);
}

TEST_F(RingRegistrationsTest, NoMoreThanEightPiecesOfMemoryAreKept) {
  for (std::size_t i = 0; i < 10; ++i) registrations_.keep_memory(ring_, channel_facts(i));
  EXPECT_EQ(ring_.memories, 8);
  registrations_.keep_memory(ring_, {});
  EXPECT_EQ(ring_.memories, 8) << "nothing is no memory";
}

TEST_F(RingRegistrationsTest, OtherMemoryStaysKept) {
  for (std::size_t i = 0; i < 2; ++i) registrations_.keep_memory(ring_, channel_facts(i));
  registrations_.forget_memory(&ring_, memory_);
  registrations_.keep_memory(ring_, channel_facts(1));
  EXPECT_EQ(ring_.memories, 2) << "it is kept already";
  EXPECT_EQ(ring_.unregistered, memory_);
}

TEST_F(RingRegistrationsTest, WhereTheRingHasGoneNothingIsAskedOfIt) {
  (void)number(1);
  registrations_.keep_memory(ring_, channel_facts(0));
  registrations_.forget_file(nullptr, 0);
  registrations_.forget_memory(nullptr, memory_);
  EXPECT_EQ(ring_.files, 1);
  EXPECT_EQ(ring_.unregistered, nullptr);
  EXPECT_EQ(number(1), 1) << "it is forgotten";
}

}  // namespace
}  // namespace penstock::core
