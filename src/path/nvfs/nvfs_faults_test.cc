// SPDX-License-Identifier: Apache-2.0

// The path nvfs where the device's driver, the module or the file refuses what it is asked for.
#include <cstring>
#include <functional>

#include "fakes/failing_gpu.h"
#include "fakes/nvfs_fixture.h"
#include "path/nvfs/nvfs_path.h"
#include "path/paths.h"

namespace penstock::core {
namespace {

class NvfsFaultsTest : public NvfsTest {
 protected:
  std::unique_ptr<DeviceSet> open_devices() override {
    auto gpu = std::make_unique<FailingGpu>();
    gpu_ = gpu.get();
    return gpu;
  }
  // Each byte that the request tells as moved is right.
  void expect_right(Op op, std::uint64_t offset, const Completion& completion, const std::string& what = "") {
    const std::string file = op == Op::read ? content_ : file_content();
    EXPECT_EQ(std::memcmp(memory_, file.data() + offset, completion.bytes), 0) << what;
  }

  FailingGpu* gpu_ = nullptr;
};

// ---- The driver ----------------------------------------------------------------------------------------------------

struct Way {
  const char* name;
  Op op;
  bool is_registered;
  std::uint64_t offset;
  std::function<bool(std::uint64_t)> is_hole;
  bool is_in_pieces = false;
};

TEST_F(NvfsFaultsTest, EachCallOfTheDriverMayFailAndNoWrongByteIsToldNorAnythingKept) {
  const auto none = [](std::uint64_t) { return false; };
  const auto every_other = [](std::uint64_t offset) { return offset / nvfs::kBlock % 2 == 1; };
  const Way ways[] = {{"a read in place", Op::read, true, 4096, none},
                      {"a read by own memory", Op::read, false, 100, none},
                      {"a read of holes in place", Op::read, true, 4096, every_other},
                      {"a read of holes by own memory", Op::read, false, 100, every_other},
                      {"a read into pieces", Op::read, true, 4096, none, true},
                      {"a write by own memory", Op::write, false, 4096, none},
                      {"a write of pieces", Op::write, true, 4096, none, true}};
  for (const Way& way : ways) {
    const auto& [name, op, is_registered, offset, is_hole, is_in_pieces] = way;
    const MemoryPiece pieces[] = {{memory_, 10'000}, {memory_ + 10'000, 40'960}};
    module_->is_hooked = [](std::uint64_t) { return true; };
    make_path();
    be_tested(op);
    if (is_registered) register_memory();
    module_->is_hooked = [&way](std::uint64_t at) { return !way.is_hole(at); };
    const unsigned allocations = gpu_->allocation_count();
    unsigned errors = 0;
    for (unsigned n = 1; n == 1 || gpu_->has_failed(); ++n) {
      fill_memory(static_cast<char>(n));
      const Plan plan = this->plan(op, offset, 40'960);
      gpu_->fail_at(n);
      const auto channel = path_->open_channel({.device = device_, .depth = 1, .chunk_max = kChunk});
      RoutedRequest request = this->request(op);
      if (is_in_pieces) request.memory = RequestMemory(pieces);
      const Completion completion =
          channel.ok() ? (*channel)->move_and_wait(request, plan.chunk(0)) : Completion{.status = channel.status()};
      errors += completion.status.ok() ? 0 : 1;
      EXPECT_EQ(completion.bytes, completion.status.ok() ? plan.chunk(0).size : 0) << name << ' ' << n;
      expect_right(op, plan.chunk(0).file_offset, completion, name + (" " + std::to_string(n)));
    }
    EXPECT_GT(errors, 0u) << name;
    EXPECT_EQ(gpu_->allocation_count(), allocations) << name;
    if (is_registered) deregister_memory();
    EXPECT_EQ(module_->mappings, 0u) << name;
  }
}

TEST_F(NvfsFaultsTest, EachCallOfTheDriverMayFailInTheSelfTestAndIsToldByAReason) {
  use_ = NvfsUse::on;
  module_->version = "2.28.4";
  const_cast<DeviceFacts&>(gpu_->facts()).is_nvidia = true;
  unsigned refusals = 0;
  for (unsigned n = 1; n == 1 || gpu_->has_failed(); ++n) {
    make_path();
    gpu_->fail_at(n);
    const Verdict read = judge(Op::read), write = judge(Op::write);
    refusals += read.usable ? 0 : 1;
    EXPECT_NE(read.usable, read.reason != Reason::none) << n;
    EXPECT_NE(write.usable, write.reason != Reason::none) << n;
    EXPECT_EQ(module_->mappings, 0u) << n;
    EXPECT_EQ(gpu_->allocation_count(), 1u) << "the user's; " << n;
    EXPECT_TRUE(file_content() == content_);
  }
  EXPECT_GT(refusals, 3u);
}

// ---- Refusals
// --------------------------------------------------------------------------------------------------------

TEST_F(NvfsFaultsTest, DirectIoThatIsOffOrMissingIsTheReason) {
  direct_io_ = false;
  make_path();
  EXPECT_EQ(judge().reason, Reason::direct_io_off);
  direct_io_ = true;
  make_path();
  file_->give_up_o_direct();
  EXPECT_EQ(judge().reason, reason_of(Obstacle::no_direct_io));
  EXPECT_TRUE(module_->requests.empty());
}

TEST_F(NvfsFaultsTest, AfterTooManyFailedMapsNoOtherIsTried) {
  be_tested();
  module_->map_error = ENOMEM;
  for (unsigned i = 0; i < NvfsModule::kFailedMapsMax; ++i) EXPECT_EQ(run(Op::read, 0, 4096).bytes, 4096u);
  const unsigned made = module_->maps_made;
  EXPECT_EQ(judge().reason, nvfs_reason::map_refused);
  EXPECT_EQ(judge().detail, ENOMEM);
  EXPECT_EQ(run(Op::read, 0, 4096).bytes, 4096u) << "it is bounced";
  EXPECT_EQ(module_->maps_made, made);
}

TEST_F(NvfsFaultsTest, AFullDiskIsToldAndKeepsThePath) {
  be_tested(Op::write);
  for (const int error : {ENOSPC, EDQUOT, EFBIG}) {
    module_->faults.push_back({nvfs::kWrite, error});
    EXPECT_TRUE(run(Op::write, 0, 4096).status.is_errno(error));
    EXPECT_TRUE(judge(Op::write).usable);
  }
}

TEST_F(NvfsFaultsTest, AShortageOfMemoryIsBouncedAndKeepsThePath) {
  be_tested();
  module_->faults.push_back({nvfs::kRead, ENOMEM});
  for (const bool is_full : {false, true}) {
    gpu_->is_full = is_full;
    const Completion completion = run(Op::read, 0, 4096);
    EXPECT_EQ(completion.bytes, 4096u);
    EXPECT_EQ(completion.bounced, pipeline_reason::refused_late);
    expect_right(Op::read, 0, completion);
    EXPECT_TRUE(judge().usable);
  }
}

TEST_F(NvfsFaultsTest, AModuleThatMovesNothingForeverIsBounced) {
  be_tested();
  for (int i = 0; i < 64; ++i) module_->faults.push_back({nvfs::kRead, 0, 1});
  const Completion completion = run(Op::read, 0, 65536);
  EXPECT_EQ(completion.bytes, 65536u);
  EXPECT_EQ(completion.bounced, pipeline_reason::refused_late);
  expect_right(Op::read, 0, completion);
}

TEST_F(NvfsFaultsTest, HolesBehindWhatWasMovedAreNotFilled) {
  register_memory();
  be_tested();
  module_->is_hooked = [](std::uint64_t offset) { return offset != 8192; };
  module_->faults.push_back({nvfs::kRead, 0, UINT64_MAX, -8192});
  const Completion completion = run(Op::read, 0, 16'384);
  EXPECT_EQ(completion.bytes, 16'384u);
  expect_right(Op::read, 0, completion);
}

TEST_F(NvfsFaultsTest, ChunksThatAreNoWholeBlocksArePlannedWithoutThem) {
  RoutedRequest request = this->request(Op::read);
  EXPECT_EQ(path_->shape(request).limits.file_align, nvfs::kBlock);
  request.chunk_max = 5000;
  EXPECT_EQ(path_->shape(request).limits.file_align, 1u);
}

TEST_F(NvfsFaultsTest, AChannelTakesItsShadowAndWhatItBouncesWith) {
  const ChannelOptions options{.device = device_, .depth = 1, .chunk_max = kChunk};
  EXPECT_EQ(path_->channel_bytes(options), 2 * kChunk);
  make_path(true);
  EXPECT_EQ(path_->channel_bytes(options), kChunk);
}

TEST_F(NvfsFaultsTest, WithoutTheModuleNoChannelOpensAndNoBufferIsKept) {
  module_->version = "";
  register_memory();
  EXPECT_EQ(judge().reason, nvfs_reason::missing);
  register_memory();
  EXPECT_TRUE(
      path_->open_channel({.device = device_, .depth = 1, .chunk_max = kChunk}).status().is(Code::path_refused));
  EXPECT_EQ(module_->open_nodes, 0u);
}

TEST_F(NvfsFaultsTest, HostMemoryIsNoBufferOfIts) {
  char host[64];
  path_->add_buffer(devices_->describe(host), reinterpret_cast<std::uintptr_t>(host), sizeof host);
  path_->add_buffer({MemoryKind::device, nullptr, 65536, 65536}, 65536, 65536);
  be_tested();
  EXPECT_EQ(run(Op::read, 0, 4096).bytes, 4096u);
  EXPECT_EQ(requests_in_place(), 0u);
}

}  // namespace
}  // namespace penstock::core
