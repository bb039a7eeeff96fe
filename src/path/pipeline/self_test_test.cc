// SPDX-License-Identifier: Apache-2.0

// The proof of a device with a storage, in worlds where something is missing or fails on the way.
#include "path/pipeline/self_test.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <vector>

#include "fakes/fake_gpu.h"
#include "fakes/fake_storage.h"
#include "fakes/named_scratch.h"
#include "path/pipeline/pipeline_reasons.h"
#include "path/pipeline/self_test_cache.h"
#include "path/reasons.h"

namespace penstock::core {
namespace {

// A GPU with little memory, or none of the driver's queues.
class PoorGpu final : public FakeGpu {
 public:
  Result<void*> allocate(std::size_t size) override {
    return size > allocation_max ? failure(Code::out_of_memory, "allocate as scripted") : FakeGpu::allocate(size);
  }
  Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned markers) override {
    if (has_no_queue) return failure(Code::out_of_memory, "open a queue as scripted");
    return FakeGpu::open_copy_queue(markers);
  }

  std::size_t allocation_max = SIZE_MAX;
  bool has_no_queue = false;
};

// Descriptors that others opened lie on a storage of their own.
class ApartStorage final : public FakeStorage {
 public:
  Result<FileFacts> facts(int fd) override {
    Result<FileFacts> facts = FakeStorage::facts(fd);
    if (facts.ok() && fd != kUserFd && other_device) facts->block_device = facts->file_system_device = *other_device;
    return facts;
  }
  Result<std::uint64_t> size(int fd) override {
    return size_error == 0 || fd == kUserFd ? FakeStorage::size(fd)
                                            : os_failure(size_error, "ask for the size as scripted");
  }

  std::optional<dev_t> other_device;
  int size_error = 0;
};

// A machine, and how the device's memory is reached there: by the storage, as if it were the host's.
struct World final : SelfTestMover {
  World() : SelfTestMover({}) {
    storage.content.resize(2 << 20, 'c');
    storage.open_flags = O_RDWR | O_DIRECT;
  }

  Proof prepare(std::byte*) override { return prepared; }
  Result<std::size_t> move(Op op, int fd, std::byte* memory, std::size_t size, std::uint64_t offset) override {
    moved.push_back(size);
    before_move(op);
    return op == Op::read ? storage.read(fd, memory, size, offset) : storage.write(fd, memory, size, offset);
  }
  Proof proof_of(const Status& status) override { return {pipeline_reason::self_test_refused, status.code}; }
  Proof proof_of_copy() override { return {pipeline_reason::self_test_copied}; }

  SelfTest run(const std::string& scratch = "") {
    const std::unique_ptr<File> file = std::move(*File::open(storage, FakeStorage::kUserFd));
    return run_self_test(storage, *this, gpu, *file, scratch);
  }
  bool is_of_gpu(const FakeStorage::Access& access) { return gpu.describe(access.memory).kind == MemoryKind::device; }
  // Transfers of the host alone fail.
  void refuse_host(Op op, int error) {
    storage.refuses = [this, op, error](const FakeStorage::Access& access) {
      return access.op == op && !is_of_gpu(access) ? error : 0;
    };
  }
  // The file's bytes change so often behind the host's reads.
  void be_written_to(unsigned times) {
    storage.scratch_allowed = false;
    before_move = [this, times, count = 0u](Op) mutable {
      if (count++ < times) storage.content[0] = static_cast<char>(storage.content[0] + 1);
    };
  }

  PoorGpu gpu;
  ApartStorage storage;
  Proof prepared;
  std::function<void(Op)> before_move = [](Op) {};
  std::vector<std::size_t> moved;
};

struct Case {
  const char* world;
  std::function<void(World&)> arrange;
  Proof read;
  Proof write;
};

constexpr Proof kProven;
constexpr Proof kNoRoom{pipeline_reason::self_test_no_room};
constexpr Proof kNoScratch{pipeline_reason::no_scratch};
constexpr Proof kWrong{pipeline_reason::self_test_wrong};
constexpr Proof refused_by(int error) { return {pipeline_reason::self_test_refused, error}; }

const Case kCases[] = {
    {"nothing is wrong", [](World&) {}, kProven, kProven},
    {"the device is full", [](World& world) { world.gpu.is_full = true; }, kNoRoom, kNoRoom},
    {"the device has little room", [](World& world) { world.gpu.allocation_max = 64u << 10; }, kProven, kProven},
    {"the memory cannot be mapped", [](World& world) { world.prepared = kWrong; }, kWrong, kWrong},
    {"the driver opens no queue", [](World& world) { world.gpu.has_no_queue = true; }, kNoRoom, kNoRoom},
    {"no copy to the device arrives", [](World& world) { world.gpu.loses_context = true; }, kNoRoom, kNoRoom},
    {"no copy from the device arrives",
     [](World& world) { world.before_move = [&](Op op) { world.gpu.loses_context = op == Op::read; }; }, kNoRoom,
     kProven},
    {"the file cannot be opened with O_DIRECT",
     [](World& world) {
       world.storage.open_flags = O_RDWR;
       world.storage.reopen_fails = true;
     },
     {reason_of(Obstacle::no_direct_descriptor), EACCES},
     {reason_of(Obstacle::no_direct_descriptor), EACCES}},
    {"the host cannot write scratch", [](World& world) { world.refuse_host(Op::write, EIO); }, refused_by(EIO),
     kProven},
    {"the host cannot read scratch", [](World& world) { world.refuse_host(Op::read, EIO); }, kProven, refused_by(EIO)},
    {"what was written is cut off",
     [](World& world) {
       world.storage.on_access = [&](const FakeStorage::Access& access) {
         if (access.op == Op::read && !world.is_of_gpu(access)) world.storage.scratch.clear();
       };
     },
     kProven, kWrong},
    {"a write moves a part",
     [](World& world) {
       world.before_move = [&](Op op) {
         if (op == Op::write) world.storage.faults.push_back({.at_most = 512});
       };
     },
     kProven, refused_by(EIO)},
    {"the file is empty",
     [](World& world) {
       world.storage.scratch_allowed = false;
       world.storage.content.clear();
     },
     kNoScratch, kNoScratch},
    {"the file does not tell its size",
     [](World& world) {
       world.storage.scratch_allowed = false;
       world.storage.size_error = EIO;
     },
     kNoScratch, kNoScratch},
    {"the file may not be read",
     [](World& world) {
       world.storage.scratch_allowed = false;
       world.storage.open_flags = O_WRONLY | O_DIRECT;
     },
     kNoScratch, kNoScratch},
    {"another writes to the file twice", [](World& world) { world.be_written_to(2); }, kProven, kNoScratch},
    {"another always writes to the file", [](World& world) { world.be_written_to(9); }, kWrong, kNoScratch},
    {"the host cannot read the file",
     [](World& world) {
       world.storage.scratch_allowed = false;
       world.refuse_host(Op::read, EIO);
     },
     refused_by(EIO), kNoScratch},
    {"a drive has no scratch", [](World& world) { world.storage.type = FileType::block_device; }, kProven, kNoScratch},
};

TEST(SelfTestTest, EachWorldIsToldByItsReasonAndKeepsNoMemory) {
  for (const Case& one : kCases) {
    World world;
    one.arrange(world);
    const SelfTest result = world.run();
    EXPECT_EQ(result.read.reason, one.read.reason) << one.world << ": " << reason_name(result.read.reason);
    EXPECT_EQ(result.read.error, one.read.error) << one.world;
    EXPECT_EQ(result.write.reason, one.write.reason) << one.world << ": " << reason_name(result.write.reason);
    EXPECT_EQ(result.write.error, one.write.error) << one.world;
    EXPECT_EQ(world.gpu.allocation_count(), 0u) << one.world;
  }
}

TEST(SelfTestTest, ALargePieceIsAsLargeAsTheDeviceHasRoomFor) {
  World world;
  world.gpu.allocation_max = 256u << 10;
  EXPECT_EQ(world.run().read.reason, Reason::none);
  EXPECT_EQ(world.moved, (std::vector<std::size_t>{512, 256u << 10, 512, 256u << 10}));
}

// ---- Named scratch -------------------------------------------------------------------------------------------------

dev_t number_of(const char* node) {
  struct stat facts {};
  return ::stat(node, &facts) == 0 ? facts.st_rdev : 0;
}

// The fake gives no scratch of its own, so that writes are proven by named scratch or not at all.
class NamedScratchTest : public testing::Test {
 protected:
  NamedScratchTest() {
    world_.storage.scratch_allowed = false;
    world_.storage.takes_named_scratch = true;
  }
  Reason write() { return world_.run(scratch_.name()).write.reason; }

  World world_;
  NamedScratch scratch_;
};

TEST_F(NamedScratchTest, IsWrittenWhereItLiesOnTheSameFileSystem) {
  EXPECT_EQ(write(), Reason::none);
  EXPECT_EQ(std::string(world_.storage.content.begin(), world_.storage.content.end()), std::string(2 << 20, 'c'));
}

TEST_F(NamedScratchTest, IsLeftAloneOnAnother) {
  world_.storage.other_device = 77;
  EXPECT_EQ(write(), pipeline_reason::no_scratch);
  EXPECT_TRUE(world_.storage.scratch.empty());
}

TEST_F(NamedScratchTest, IsLeftAloneIfTheSystemTellsNothingOfIt) {
  world_.storage.takes_named_scratch = false;
  EXPECT_EQ(write(), pipeline_reason::no_scratch);
}

TEST_F(NamedScratchTest, ThatDoesNotExistIsNone) {
  EXPECT_EQ(world_.run("no-such-scratch").write.reason, pipeline_reason::no_scratch);
}

TEST_F(NamedScratchTest, OnADriveHasToBeOfItsDisk) {
  world_.storage.type = FileType::block_device;
  EXPECT_EQ(write(), Reason::none) << "the drive itself";
  world_.storage.other_device = number_of("/dev/loop1");
  world_.storage.block_device = number_of("/dev/loop0");
  EXPECT_EQ(write(), pipeline_reason::no_scratch) << "another drive";
  world_.storage.block_device = makedev(255, 77);
  EXPECT_EQ(write(), pipeline_reason::no_scratch) << "no drive that the system knows";
}

// ---- The cache -----------------------------------------------------------------------------------------------------

TEST(SelfTestCacheTest, AFullOneRefusesNewPairsWithoutTestingThem) {
  SelfTestCache cache;
  FakeGpu gpu;
  unsigned tests = 0;
  const auto prove = [&](dev_t device) {
    return cache.find_or_test(&gpu, {.device = device}, Op::read, [&] { return ++tests, SelfTest{}; });
  };
  for (dev_t device = 1; device <= 256; ++device) EXPECT_EQ(prove(device).reason, Reason::none);
  EXPECT_EQ(prove(1000).reason, pipeline_reason::self_test_refused);
  EXPECT_EQ(prove(1000).error, ENOSPC);
  EXPECT_EQ(tests, 256u);
}

TEST(SelfTestCacheTest, ARefusalIsOfItsDeviceAndItsStorage) {
  SelfTestCache cache;
  FakeGpu gpu, other;
  const auto prove = [&](const Device* device, const StorageKey& storage) {
    return cache.find_or_test(device, storage, Op::read, [] { return SelfTest{}; }).reason;
  };
  const StorageKey first{.device = 1}, second{.device = 2}, drive{.device = 1, .is_block_device = true};
  for (const StorageKey& storage : {first, second, drive}) EXPECT_EQ(prove(&gpu, storage), Reason::none);
  EXPECT_EQ(prove(&other, first), Reason::none);
  cache.refuse(&gpu, first, Op::read, {pipeline_reason::refused_late, EIO});
  EXPECT_EQ(prove(&gpu, first), pipeline_reason::refused_late);
  EXPECT_EQ(prove(&gpu, {.device = 1, .open = 7}), pipeline_reason::refused_late) << "by whichever open";
  EXPECT_EQ(prove(&gpu, second), Reason::none);
  EXPECT_EQ(prove(&gpu, drive), Reason::none);
  EXPECT_EQ(prove(&other, first), Reason::none);
}

}  // namespace
}  // namespace penstock::core
