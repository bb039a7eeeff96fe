// SPDX-License-Identifier: Apache-2.0

// Small chunks, whose copies go together: against a storage that completes in random order, and a device whose copies
// land late, are counted, and fail on demand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>

#include "device/host/host_device.h"
#include "fakes/fake_storage.h"
#include "path/pipeline/storage_channel.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kCell = 8 * kKiB;
constexpr unsigned kCells = 96;

Status broken() { return failure(Code::device_lost, "test"); }

// The script of a device's copies. A countdown of one is the next call.
struct Script {
  std::vector<std::size_t> calls;  // Of copy_many: how many copies each.
  int refuse_copies = 0;
  int refuse_marker = 0;
  int lose_marker = 0;
  static bool is_due(int& countdown) { return countdown > 0 && --countdown == 0; }
};

class ScriptedQueue final : public CopyQueue {
 public:
  ScriptedQueue(std::unique_ptr<CopyQueue> real, Script& script) : real_(std::move(real)), script_(script) {}

  Status copy_many(std::span<const Copy> copies, Direction direction) override {
    script_.calls.push_back(copies.size());
    const bool refused = Script::is_due(script_.refuse_copies);
    const Status status = real_->copy_many(refused ? copies.first(copies.size() / 2) : copies, direction);
    return refused ? broken() : status;
  }
  Status record(unsigned marker) override {
    return Script::is_due(script_.refuse_marker) ? broken() : real_->record(marker);
  }
  Result<bool> reached(unsigned marker) override {
    if (Script::is_due(script_.lose_marker)) return broken();
    return real_->reached(marker);
  }
  Status wait(unsigned marker, bool spin) override {
    return Script::is_due(script_.lose_marker) ? broken() : real_->wait(marker, spin);
  }

 private:
  std::unique_ptr<CopyQueue> real_;
  Script& script_;
};

class ScriptedDevice final : public Device {
 public:
  explicit ScriptedDevice(Device& real) : Device(&real.memory()), real_(real) {}

  const DeviceFacts& facts() const override { return real_.facts(); }
  Result<std::unique_ptr<CopyQueue>> open_copy_queue(unsigned markers) override {
    auto queue = real_.open_copy_queue(markers);
    return std::unique_ptr<CopyQueue>(std::make_unique<ScriptedQueue>(std::move(queue.value()), script));
  }
  Status register_host(void* memory, std::size_t size) override { return real_.register_host(memory, size); }
  bool unregister_host(void* memory) override { return real_.unregister_host(memory); }
  void make_copies_synchronous(const void*) override {}

  Script script;

 private:
  Device& real_;
};

class SmallChunksTest : public testing::Test {
 protected:
  void SetUp() override {
    memory_ = static_cast<std::byte*>(device_.memory().allocate(kCells * kCell).value());
    std::memset(memory_, 0x5a, kCells * kCell);
    use_seed(2);
  }

  // Also what is in the page cache goes by the seed.
  void use_seed(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    storage_.seed = seed;
    storage_.content.resize(kCells * kCell);
    for (char& byte : storage_.content) byte = static_cast<char>(random());
    file_ = std::move(File::open(storage_, FakeStorage::kUserFd).value());
  }
  std::unique_ptr<Channel> open_channel(unsigned depth, std::uint64_t chunk_max = kCell) {
    return std::move(
        StorageChannel::open(storage_, {.device = &device_, .depth = depth, .chunk_max = chunk_max}).value());
  }
  // Submits a chunk of one cell of the file and of the memory; the cell is its cookie.
  void submit(Channel& channel, Op op, unsigned cell, std::uint64_t shift, std::uint64_t size) {
    const std::uint64_t offset = cell * kCell;
    const Chunk chunk{
        .io_mode = IoMode::buffered, .file_offset = offset, .size = size, .io_offset = offset, .io_size = size};
    RoutedRequest& request = requests_[cell];
    request.op = op;
    request.file = file_.get();
    request.memory = memory_ + offset + shift;
    channel.submit(request, chunk, cell);
  }
  std::map<std::uint64_t, Completion> drain(Channel& channel, bool wait = true) {
    std::map<std::uint64_t, Completion> all;
    Completion completions[5];
    while (!channel.is_idle()) {
      const unsigned count = channel.poll(completions, wait);
      for (unsigned i = 0; i < count; ++i) EXPECT_TRUE(all.emplace(completions[i].cookie, completions[i]).second);
    }
    return all;
  }
  void expect_failed(const std::map<std::uint64_t, Completion>& all, std::size_t count) {
    EXPECT_EQ(all.size(), count);
    for (const auto& [cookie, completion] : all) {
      EXPECT_FALSE(completion.status.ok()) << cookie;
      EXPECT_EQ(completion.bytes, 0u);
    }
  }
  std::size_t copied() const {
    std::size_t sum = 0;
    for (const std::size_t count : device_.script.calls) sum += count;
    return sum;
  }

  HostDeviceSet devices_;
  ScriptedDevice device_{*devices_.device(0).value()};
  FakeStorage storage_;
  std::unique_ptr<File> file_;
  std::byte* memory_ = nullptr;
  RoutedRequest requests_[kCells];
};

TEST_F(SmallChunksTest, ReadsOfThePageCacheAreCopiedHalfAChannelAtATime) {
  auto channel = open_channel(32);
  // With this seed the first sector of every third cell is not in the cache.
  unsigned submitted = 0;
  for (unsigned cell = 0; cell < kCells && submitted < 32; ++cell) {
    if ((cell * kCell / 512 + storage_.seed) % 3 == 0) continue;
    submit(*channel, Op::read, cell, 0, 4096);
    ++submitted;
  }
  EXPECT_EQ(device_.script.calls, (std::vector<std::size_t>{16, 16}));

  const auto all = drain(*channel);

  EXPECT_EQ(all.size(), 32u);
  for (const auto& [cell, completion] : all) {
    EXPECT_TRUE(completion.status.ok());
    EXPECT_EQ(std::memcmp(memory_ + cell * kCell, storage_.content.data() + cell * kCell, 4096), 0) << cell;
    EXPECT_EQ(memory_[cell * kCell + 4096], std::byte{0x5a});
  }
  EXPECT_EQ(device_.script.calls.size(), 2u);
}

TEST_F(SmallChunksTest, WritesAreFetchedTogetherAtTheNextPoll) {
  auto channel = open_channel(32);
  for (unsigned cell = 0; cell < 10; ++cell) {
    std::memset(memory_ + cell * kCell, static_cast<int>(cell + 1), kCell);
    submit(*channel, Op::write, cell, 3, 5000);
  }
  EXPECT_TRUE(device_.script.calls.empty());

  EXPECT_EQ(drain(*channel).size(), 10u);

  EXPECT_EQ(device_.script.calls, std::vector<std::size_t>{10});
  for (unsigned cell = 0; cell < 10; ++cell) {
    EXPECT_EQ(std::string(storage_.content.data() + cell * kCell, 5000),
              std::string(5000, static_cast<char>(cell + 1)));
  }
}

TEST_F(SmallChunksTest, ALoneChunkIsCopiedByTheFirstPoll) {
  auto channel = open_channel(32);
  submit(*channel, Op::write, 0, 0, 100);
  Completion completion;

  // Without waiting: a poll that leaves it lying would never come to an end.
  EXPECT_EQ(channel->poll({&completion, 1}, false), 1u);
  EXPECT_EQ(device_.script.calls, std::vector<std::size_t>{1});
}

TEST_F(SmallChunksTest, LargeChunksGoOnTheirOwnAndAtOnce) {
  auto channel = open_channel(8, 128 * kKiB);
  submit(*channel, Op::write, 0, 0, 64 * kKiB + 1);
  submit(*channel, Op::write, 16, 0, 100 * kKiB);
  EXPECT_EQ(device_.script.calls, (std::vector<std::size_t>{1, 1}));
  EXPECT_EQ(drain(*channel).size(), 2u);
}

TEST_F(SmallChunksTest, WhateverTheOrderEveryByteGoesToItsPlaceAndNoOther) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    use_seed(seed);
    std::mt19937_64 random(seed);
    std::string memory(kCells * kCell, '\0');
    for (char& byte : memory) byte = static_cast<char>(random());
    std::memcpy(memory_, memory.data(), memory.size());
    std::string content(storage_.content.begin(), storage_.content.end());
    auto channel = open_channel(1 + static_cast<unsigned>(random() % 16));
    std::size_t finished = 0;
    Completion completions[4];

    for (unsigned cell = 0; cell < kCells;) {
      if (channel->has_room()) {
        const Op op = random() % 3 == 0 ? Op::write : Op::read;
        const std::uint64_t size = 1 + random() % 5000, shift = random() % 3000, at = cell * kCell;
        if (op == Op::read) memory.replace(at + shift, size, content, at, size);
        else content.replace(at, size, memory, at + shift, size);
        submit(*channel, op, cell++, shift, size);
      }
      if (random() % 3 == 0 || !channel->has_room()) finished += channel->poll(completions, random() % 2 == 0);
    }
    finished += drain(*channel, seed % 2 == 0).size();

    ASSERT_EQ(finished, kCells) << "seed " << seed;
    ASSERT_EQ(std::memcmp(memory_, memory.data(), memory.size()), 0) << "seed " << seed;
    ASSERT_EQ(std::memcmp(storage_.content.data(), content.data(), content.size()), 0) << "seed " << seed;
  }
}

TEST_F(SmallChunksTest, CopiesThatAreRefusedFailTogetherAndBreakTheChannel) {
  for (const Op op : {Op::read, Op::write}) {
    auto channel = open_channel(16);
    device_.script.refuse_copies = 1;
    for (unsigned cell = 0; cell < 8; ++cell) submit(*channel, op, cell, 0, 700);

    const auto all = drain(*channel);

    if (op == Op::write) expect_failed(all, 8);
    EXPECT_EQ(all.size(), 8u);
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](const auto& each) { return !each.second.status.ok(); }));
    EXPECT_TRUE(channel->is_broken());
    EXPECT_FALSE(channel->has_room());
  }
}

// They had ended with `closed`, which then was the status of the request if one of them lay before the refused ones.
TEST_F(SmallChunksTest, ChunksThatARefusedCopyTakesAlongTellOfTheDevicesError) {
  for (const Op op : {Op::read, Op::write}) {
    auto channel = open_channel(16);
    device_.script.refuse_copies = 2;
    for (unsigned cell = 0; cell < 16; ++cell) submit(*channel, op, cell, 0, 700);

    const auto all = drain(*channel);

    EXPECT_EQ(all.size(), 16u);
    unsigned failed = 0;
    for (const auto& [cell, completion] : all) {
      EXPECT_TRUE(completion.status.ok() || completion.status.is(Code::device_lost)) << describe(completion.status);
      failed += completion.status.ok() ? 0 : 1;
    }
    EXPECT_GE(failed, op == Op::write ? 16u : 8u);
    EXPECT_TRUE(channel->hooks().broken_by().is(Code::device_lost));
  }
}

TEST_F(SmallChunksTest, AMarkerThatCannotBeSetFailsWhatItWouldHaveCovered) {
  auto channel = open_channel(16);
  device_.script.refuse_marker = 1;
  for (unsigned cell = 0; cell < 8; ++cell) submit(*channel, Op::write, cell, 0, 700);

  expect_failed(drain(*channel), 8);
  EXPECT_TRUE(channel->is_broken());
  EXPECT_TRUE(storage_.accesses.empty()) << "bytes that never came were written to the file";
}

TEST_F(SmallChunksTest, AMarkerThatIsLostFailsWhatItCoveredAndWhatComesAfter) {
  auto channel = open_channel(16);
  device_.script.lose_marker = 1;
  for (unsigned cell = 0; cell < 16; ++cell) submit(*channel, Op::write, cell, 0, 700);
  EXPECT_EQ(device_.script.calls, (std::vector<std::size_t>{8, 8}));

  expect_failed(drain(*channel), 16);
  EXPECT_TRUE(channel->is_broken());
  EXPECT_TRUE(storage_.accesses.empty());
}

TEST_F(SmallChunksTest, AReadThatFailsDoesNotKeepTheOthersBack) {
  auto channel = open_channel(16);
  storage_.faults = {{}, {.error = EIO}, {}};
  for (unsigned cell = 1; cell < 4; ++cell) submit(*channel, Op::read, cell * 3 - 1, 0, 512);

  const auto all = drain(*channel);

  EXPECT_EQ(all.size(), 3u);
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const auto& each) { return each.second.status.ok(); }), 2);
  EXPECT_FALSE(channel->is_broken());
  EXPECT_EQ(copied(), 2u);
}

TEST_F(SmallChunksTest, StagingLiesAsFarFromAWordAsTheDevicesMemory) {
  auto channel = open_channel(8);
  for (unsigned shift = 0; shift < 4; ++shift) submit(*channel, Op::write, shift, 5 * shift, 100);
  (void)drain(*channel);

  for (unsigned shift = 0; shift < 4; ++shift) {
    const auto staging = reinterpret_cast<std::uintptr_t>(storage_.accesses[shift].memory);
    const auto device = reinterpret_cast<std::uintptr_t>(memory_) + storage_.accesses[shift].offset;
    EXPECT_EQ(staging % 16, (device + 5 * (storage_.accesses[shift].offset / kCell)) % 16);
  }
}

}  // namespace
}  // namespace penstock::core
