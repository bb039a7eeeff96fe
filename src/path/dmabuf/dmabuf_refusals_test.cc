// SPDX-License-Identifier: Apache-2.0

// The path dmabuf where the device's driver, a ring or the kernel refuses what it is asked for.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "fakes/dmabuf_fixture.h"
#include "fakes/failing_gpu.h"
#include "path/dmabuf/dmabuf_reasons.h"
#include "path/paths.h"
#include "path/pipeline/pipeline_reasons.h"

namespace penstock::core {
namespace {

class DmabufRefusalTest : public DmabufFixture {
 protected:
  DmabufRefusalTest() : DmabufFixture(std::make_unique<FailingGpu>()) { failing_ = static_cast<FailingGpu*>(gpu_); }

  void add_buffer() {
    path().hooks()->add_buffer(devices_->describe(memory_), reinterpret_cast<std::uintptr_t>(memory_), kUserBytes);
  }
  void fill_memory(char seed) {
    for (std::size_t i = 0; i < kUserBytes; ++i)
      memory_[i] = static_cast<char>(i * 7 + static_cast<unsigned char>(seed));
  }
  Result<std::unique_ptr<Channel>> open_channel(unsigned depth) {
    return path_->open_channel({.device = device_, .depth = depth, .chunk_max = kChunk});
  }
  // All chunks at once; each completion that is no error has moved its bytes.
  unsigned move_all(Channel& channel, Op op, const Plan& plan) {
    std::uint64_t next = 0;
    unsigned errors = 0;
    Completion completions[4];
    while ((next < plan.chunk_count() && !channel.is_broken()) || !channel.is_idle()) {
      while (next < plan.chunk_count() && channel.has_room()) channel.submit(request(op), plan.chunk(next++), 0);
      const unsigned count = channel.poll(completions, true);
      for (unsigned i = 0; i < count; ++i) errors += is_right(completions[i], plan) ? 0 : 1;
    }
    return errors;
  }
  bool is_right(const Completion& completion, const Plan& plan) {
    if (!completion.status.ok()) {
      EXPECT_STRNE(completion.status.step, "");
      return false;
    }
    EXPECT_EQ(completion.bytes, completion.size);
    const char* const memory = memory_ + (completion.file_offset - plan.chunk(0).file_offset);
    EXPECT_EQ(std::memcmp(memory, storage_.content.data() + completion.file_offset, completion.bytes), 0);
    return true;
  }

  FailingGpu* failing_ = nullptr;
};

// ---- The driver ----------------------------------------------------------------------------------------------------

struct Way {
  const char* name;
  Op op;
  bool is_registered;
  std::uint64_t offset, size;
};

TEST_F(DmabufRefusalTest, EachCallOfTheDriverMayFailAndNoWrongByteIsToldNorAnythingKept) {
  const Way ways[] = {{"reads by the channel's memory", Op::read, false, 100, 150'000},
                      {"reads in place", Op::read, true, 4096, 131'072},
                      {"writes", Op::write, false, 4096, 131'072}};
  for (const auto& [name, op, is_registered, offset, size] : ways) {
    unsigned errors = 0, rounds = 0;
    for (unsigned n = 1; n == 1 || failing_->has_failed(); ++n, ++rounds) {
      failing_->fail_at(0);
      make_path({.is_on = true, .scratch = scratch_.name()});
      ASSERT_TRUE(judge(op).usable);
      if (is_registered) add_buffer();
      fill_memory(static_cast<char>(n));
      const Plan plan = this->plan(op, offset, size);
      failing_->fail_at(n);
      const auto channel = open_channel(4);
      errors += channel.ok() ? move_all(**channel, op, plan) : 1;
      requests_.clear();
    }
    EXPECT_GT(errors, 0u) << name;
    EXPECT_LT(errors, 4 * rounds) << name;
    EXPECT_EQ(gpu_->allocation_count(), 1u) << name << ": the user's";
  }
}

TEST_F(DmabufRefusalTest, EachCallOfTheDriverMayFailInTheSelfTestAndIsToldByAReason) {
  unsigned refusals = 0;
  for (unsigned n = 1; n == 1 || failing_->has_failed(); ++n) {
    make_path({.is_on = true, .scratch = scratch_.name()});
    failing_->fail_at(n);
    const Verdict read = judge(Op::read), write = judge(Op::write);
    refusals += read.usable && write.usable ? 0 : 1;
    EXPECT_EQ(read.usable, read.reason == Reason::none) << n;
    EXPECT_EQ(write.usable, write.reason == Reason::none) << n;
    EXPECT_EQ(gpu_->allocation_count(), 1u) << "the user's; " << n;
  }
  EXPECT_GT(refusals, 20u);
  EXPECT_FALSE(wrote_to_user_drive());
}

// ---- Rings ---------------------------------------------------------------------------------------------------------

TEST_F(DmabufRefusalTest, WithoutARingTheSelfTestFailsByItsErrno) {
  storage_.ring_error = EMFILE;
  EXPECT_EQ(judge().reason, dmabuf_reason::not_exported);
  EXPECT_EQ(judge().detail, EMFILE);
  EXPECT_EQ(gpu_->allocation_count(), 1u);
}

TEST_F(DmabufRefusalTest, ARingThatTakesNoDmabufsIsBouncedUnlessNothingMayBe) {
  for (const bool strict : {false, true}) {
    storage_.dmabufs = &kernel_;
    make_path({.strict = strict, .is_on = true});
    ASSERT_TRUE(judge().usable);
    storage_.dmabufs = nullptr;
    const auto channel = open_channel(1);
    ASSERT_EQ(channel.ok(), !strict);
    if (strict) {
      EXPECT_TRUE(channel.status().is_errno(EMFILE));
    } else {
      EXPECT_EQ(move_all(**channel, Op::read, plan(Op::read, 100, 150'000)), 0u);
    }
  }
}

// Operations under way may still reach its memory.
TEST_F(DmabufRefusalTest, ARingThatTellsNothingMoreBreaksTheChannelAndKeepsItsMemory) {
  ASSERT_TRUE(judge().usable);
  const auto channel = open_channel(4);
  ASSERT_EQ(move_all(**channel, Op::read, plan(Op::read, 0, 4096)), 0u);
  const unsigned allocations = gpu_->allocation_count();
  (*channel)->submit(request(Op::read), plan(Op::read, 0, 4096).chunk(0), 7);
  storage_.reap_error = EBADF;
  Completion completion;
  ASSERT_EQ((*channel)->poll({&completion, 1}, true), 1u);
  EXPECT_TRUE(completion.status.is(Code::closed)) << describe(completion.status);
  EXPECT_EQ(completion.cookie, 7u);
  EXPECT_TRUE((*channel)->is_broken());
  EXPECT_TRUE((*channel)->hooks().broken_by().is_errno(EBADF)) << "of chunks that did not begin";
  EXPECT_FALSE((*channel)->has_room());
  EXPECT_EQ(gpu_->allocation_count(), allocations);
}

TEST_F(DmabufRefusalTest, ARingThatBreaksWhileACanaryIsUnderWayBouncesTheChunk) {
  ASSERT_TRUE(judge().usable);
  const auto channel = open_channel(1);
  storage_.reap_error = EBADF;
  EXPECT_EQ(read_and_compare(**channel, 0, 4096), pipeline_reason::refused_late);
  EXPECT_TRUE((*channel)->is_broken());
}

TEST_F(DmabufRefusalTest, ASlotThatCannotBeGivenBackBreaksTheChannel) {
  ASSERT_TRUE(judge().usable);
  const auto channel = open_channel(1);
  ASSERT_EQ(read_and_compare(**channel, 0, 4096), Reason::none);
  kernel_.errors = {-ENODEV};
  ASSERT_EQ(read_and_compare(**channel, 0, 4096), pipeline_reason::refused_late);
  kernel_.remove_error = EBUSY;
  const Completion completion = (*channel)->move_and_wait(request(Op::read), plan(Op::read, 0, 4096).chunk(0));
  EXPECT_TRUE(completion.status.is(Code::closed)) << describe(completion.status);
  EXPECT_TRUE((*channel)->is_broken());
  EXPECT_TRUE((*channel)->hooks().broken_by().is_errno(EBUSY));
}

TEST_F(DmabufRefusalTest, StorageIsWaitedForWhereAChunkIsWithIt) {
  ASSERT_TRUE(judge().usable);
  const auto channel = open_channel(2);
  const auto deadline = std::chrono::steady_clock::now();
  EXPECT_FALSE((*channel)->hooks().wait_for_storage(deadline)) << "nothing is under way";
  EXPECT_FALSE((*channel)->has_storage_under_way());
  (*channel)->submit(request(Op::read), plan(Op::read, 0, 4096).chunk(0), 0);
  EXPECT_TRUE((*channel)->has_storage_under_way());
  EXPECT_TRUE((*channel)->hooks().wait_for_storage(deadline));
  Completion completion;
  EXPECT_EQ((*channel)->poll({&completion, 1}, true), 1u);
  EXPECT_EQ(completion.bounced, Reason::none);
}

// ---- Copies that take long -----------------------------------------------------------------------------------------

TEST_F(DmabufRefusalTest, TheSideThatFeedsTheOtherIsWaitedFor) {
  gpu_->lands_late = true;
  for (const Op op : {Op::read, Op::write}) {
    ASSERT_TRUE(judge(op).usable);
    fill_memory('l');
    const auto channel = open_channel(2);
    EXPECT_EQ(move_all(**channel, op, plan(op, 4096, 262'144)), 0u);
  }
}

// The kernel has refused none of them, whatever the ring's errno.
TEST_F(DmabufRefusalTest, AChunkThatIsCopiedWhileTheRingBreaksIsNotBounced) {
  gpu_->lands_late = true;
  ASSERT_TRUE(judge().usable);
  const auto channel = open_channel(2);
  const Plan plan = this->plan(Op::read, 0, 2 * kChunk);
  ASSERT_EQ(move_all(**channel, Op::read, plan), 0u);
  Completion completion;
  (*channel)->submit(request(Op::read), plan.chunk(0), 0);
  while ((*channel)->has_storage_under_way()) ASSERT_EQ((*channel)->poll({&completion, 1}, false), 0u);
  (*channel)->submit(request(Op::read), plan.chunk(1), 1);
  storage_.reap_error = EBUSY;
  for (unsigned count = 0; count < 2; ++count) {
    ASSERT_EQ((*channel)->poll({&completion, 1}, true), 1u);
    EXPECT_TRUE(completion.status.is(Code::closed)) << describe(completion.status);
    EXPECT_EQ(completion.bounced, Reason::none);
  }
  EXPECT_TRUE((*channel)->hooks().broken_by().is_errno(EBUSY));
}

// The canary overwrites memory that the copies are made of.
TEST_F(DmabufRefusalTest, ACanaryWaitsForCopiesUnderWay) {
  gpu_->lands_late = true;
  ASSERT_TRUE(judge().usable);
  const auto channel = open_channel(2);
  const Plan plan = this->plan(Op::read, 0, 2 * kChunk);
  ASSERT_EQ(move_all(**channel, Op::read, plan), 0u);
  std::memset(memory_, 0, 2 * kChunk);
  Completion none[1];
  (*channel)->submit(request(Op::read), plan.chunk(0), 0);
  while ((*channel)->has_storage_under_way()) ASSERT_EQ((*channel)->poll(none, false), 0u);
  EXPECT_FALSE((*channel)->hooks().wait_for_storage({})) << "the device has it";
  clock_.advance(path_->rules().trusted_for);
  (*channel)->submit(request(Op::read), plan.chunk(1), 1);
  unsigned count = 0;
  for (Completion completion; count < 2; ++count) {
    ASSERT_EQ((*channel)->poll({&completion, 1}, true), 1u);
    EXPECT_EQ(completion.bounced, Reason::none);
  }
  EXPECT_EQ(std::memcmp(memory_, storage_.content.data(), 2 * kChunk), 0);
}

// No canary has seen the mapping that may come next.
TEST_F(DmabufRefusalTest, AWriteThatIsCopiedWhileAnotherMeetsAnErrorIsNotGivenToTheDrive) {
  ASSERT_TRUE(judge(Op::write).usable);
  for (const int error : {EAGAIN, ENODEV}) {
    const auto channel = open_channel(2);
    const Plan plan = this->plan(Op::write, 0, 2 * kChunk);
    ASSERT_EQ(move_all(**channel, Op::write, plan), 0u);
    fill_memory(static_cast<char>(error));
    kernel_.stalls = true;
    gpu_->lands_late = false;
    Completion completion;
    (*channel)->submit(request(Op::write), plan.chunk(0), 0);
    while (!(*channel)->has_storage_under_way()) ASSERT_EQ((*channel)->poll({&completion, 1}, false), 0u);
    gpu_->lands_late = true;
    (*channel)->submit(request(Op::write), plan.chunk(1), 1);
    kernel_.stalls = false;
    kernel_.errors = {-error};
    std::set<std::uint64_t> bounced;
    for (bool waits = false; bounced.size() < 2; waits = kernel_.errors.empty()) {
      if ((*channel)->poll({&completion, 1}, waits) == 0) continue;
      EXPECT_EQ(completion.bounced, pipeline_reason::refused_late) << error << ' ' << completion.cookie;
      EXPECT_TRUE(is_right(completion, plan));
      bounced.insert(completion.cookie);
    }
  }
}

// ---- Verdicts ------------------------------------------------------------------------------------------------------

TEST_F(DmabufRefusalTest, AKernelIsToldByHowItRefuses) {
  const std::pair<int, Reason> cases[] = {{EINVAL, dmabuf_reason::kernel},
                                          {EOPNOTSUPP, dmabuf_reason::not_built},
                                          {ECANCELED, Reason::io_uring_off},
                                          {EPERM, Reason::io_uring_forbidden}};
  kernel_.is_known = false;
  for (const auto& [error, reason] : cases) {
    kernel_.question_error = error;
    EXPECT_EQ(judge().reason, reason) << error;
    EXPECT_EQ(judge().detail, error);
  }
}

TEST_F(DmabufRefusalTest, OperationsAreNoLargerThanTheDriveTakes) {
  request_max_ = 10'000;
  make_path({.is_on = true});
  ASSERT_TRUE(judge().usable);
  const auto channel = open_channel(1);
  ASSERT_EQ(read_and_compare(**channel, 0, 4096), Reason::none);
  const unsigned requests = kernel_.requests;
  EXPECT_EQ(read_and_compare(**channel, 0, 20'000 / 512 * 512), Reason::none);
  EXPECT_EQ(kernel_.requests, requests + 3);
}

TEST_F(DmabufRefusalTest, OneDrivesRefusalIsNoOthers) {
  storage_.block_device = 1;
  open_file_anew();
  ASSERT_TRUE(judge().usable);
  const auto channel = open_channel(1);
  ASSERT_EQ(read_and_compare(**channel, 0, 4096), Reason::none);
  kernel_.errors = {-EINVAL};
  ASSERT_EQ(read_and_compare(**channel, 0, 4096), pipeline_reason::refused_late);
  EXPECT_FALSE(judge().usable);
  storage_.block_device = 2;
  open_file_anew();
  ASSERT_TRUE(judge().usable);
  EXPECT_EQ(read_and_compare(**channel, 0, 4096), Reason::none);
}

TEST_F(DmabufRefusalTest, ACanaryThatIsRefusedLaterBouncesAndIsTriedAgain) {
  for (const int error : {EINVAL, EOPNOTSUPP, EIO}) {
    make_path({.is_on = true});
    ASSERT_TRUE(judge().usable);
    const auto channel = open_channel(1);
    ASSERT_EQ(read_and_compare(**channel, 0, 4096), Reason::none);
    clock_.advance(path_->rules().trusted_for);
    kernel_.errors = {-error};
    EXPECT_EQ(read_and_compare(**channel, 0, 4096), pipeline_reason::refused_late) << error;
    clock_.advance(std::chrono::seconds(2));
    (void)read_and_compare(**channel, 0, 4096);
  }
}

TEST_F(DmabufRefusalTest, ASlotThatIsRefusedIsToldByWhoseFaultItIs) {
  struct Case {
    int error;
    Reason reason;
  };
  const Case cases[] = {
      {EINVAL, dmabuf_reason::drive}, {EOPNOTSUPP, dmabuf_reason::drive}, {ENOMEM, dmabuf_reason::refused}};
  for (const auto& [error, reason] : cases) {
    make_path({.is_on = true});
    kernel_.register_error = error;
    EXPECT_EQ(judge().reason, reason) << error;
    EXPECT_EQ(judge().detail, error);
  }
}

TEST_F(DmabufRefusalTest, ScratchThatTakesNoSlotClosesWritesAlone) {
  storage_.on_access = [&](const FakeStorage::Access&) { kernel_.register_error = EOPNOTSUPP; };
  EXPECT_EQ(judge(Op::write).reason, dmabuf_reason::drive);
  EXPECT_EQ(judge(Op::write).detail, EOPNOTSUPP);
  EXPECT_TRUE(judge(Op::read).usable);
}

TEST_F(DmabufRefusalTest, DirectIoThatIsOffOrMissingIsTheReason) {
  make_path({.direct_io = false, .is_on = true});
  EXPECT_EQ(judge().reason, Reason::direct_io_off);
  make_path({.is_on = true});
  file_->give_up_o_direct();
  EXPECT_EQ(judge().reason, reason_of(Obstacle::no_direct_io));
}

TEST_F(DmabufRefusalTest, OnlyWhatTheKernelRefusesForGoodIsRemembered) {
  struct Case {
    int error;
    bool is_bounced, is_remembered;
  };
  const Case cases[] = {{EINVAL, true, true}, {EOPNOTSUPP, true, true}, {EIO, true, false},   {EFAULT, true, false},
                        {EBADF, true, false}, {ESTALE, true, false},    {EPERM, false, false}};
  for (const auto& [error, is_bounced, is_remembered] : cases) {
    make_path({.is_on = true});
    ASSERT_TRUE(judge().usable);
    const auto channel = open_channel(1);
    ASSERT_EQ(read_and_compare(**channel, 0, 4096), Reason::none);
    kernel_.errors = {-error};
    const Completion completion = (*channel)->move_and_wait(request(Op::read), plan(Op::read, 0, 4096).chunk(0));
    EXPECT_EQ(completion.status.ok(), is_bounced) << error;
    EXPECT_EQ(completion.bounced == pipeline_reason::refused_late, is_bounced) << error;
    EXPECT_EQ(judge().usable, !is_remembered) << error;
    if (is_remembered) {
      EXPECT_EQ(judge().detail, error);
    }
  }
}

TEST_F(DmabufRefusalTest, AChannelPinsOnlyWhatItMayBounceWith) {
  const ChannelOptions options{.device = device_, .depth = 4, .chunk_max = kChunk};
  EXPECT_EQ(path_->channel_bytes(options), 4 * kChunk);
  make_path({.strict = true, .is_on = true});
  EXPECT_EQ(path_->channel_bytes(options), 0u);
}

TEST_F(DmabufRefusalTest, OnlyMemoryOfADeviceIsABufferAndOnlyWhereThePathIsOn) {
  char host[64];
  path().hooks()->add_buffer(devices_->describe(host), reinterpret_cast<std::uintptr_t>(host), sizeof host);
  path().hooks()->add_buffer({MemoryKind::device, nullptr, 65536, 65536}, 65536, 65536);
  make_path({.is_on = false});
  add_buffer();
  EXPECT_EQ(path_->buffers().find(*device_, reinterpret_cast<std::uintptr_t>(memory_), 4096), nullptr);
  make_path({.is_on = true});
  add_buffer();
  EXPECT_NE(path_->buffers().find(*device_, reinterpret_cast<std::uintptr_t>(memory_), 4096), nullptr);
}

TEST_F(DmabufRefusalTest, MemoryInPiecesIsReadIntoByTheChannelsOwn) {
  ASSERT_TRUE(judge().usable);
  add_buffer();
  RoutedRequest request = this->request(Op::read, 8192);
  EXPECT_NE(path_->shape(request).channel_facts.memory_state, nullptr);
  const MemoryPiece pieces[] = {{memory_, 4096}, {memory_ + 8192, 4096}};
  request.memory = RequestMemory(pieces);
  EXPECT_EQ(path_->shape(request).channel_facts.memory_state, nullptr);
}

TEST(DmabufOutlookTest, AsksTheKernelOnlyWhereThatMatters) {
  PathSettings settings;
  settings.explains = false;
  EXPECT_EQ(outlook_of(PathId::dmabuf, settings), dmabuf_reason::off);
  settings.explains = true;
  EXPECT_NE(outlook_of(PathId::dmabuf, settings), Reason::none) << "the kernel's reason, or that it is off";
  settings.dmabuf = true;
  EXPECT_NE(outlook_of(PathId::dmabuf, settings), dmabuf_reason::off);
}

}  // namespace
}  // namespace penstock::core
