// SPDX-License-Identifier: Apache-2.0

// Rules of channels (path.h) that a caller in the library breaks: the process ends before a byte goes astray.
#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "fakes/fake_gpu.h"
#include "fakes/fake_storage.h"
#include "path/bounce/bounce_path.h"
#include "path/nvfs/nvfs_path.h"
#include "path/pagecache/pagecache_channel.h"
#include "path/pagecache/pagecache_path.h"
#include "path/pipeline/storage_channel.h"
#include "path/vendor/vendor_path.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kChunk = 4096;

class ChannelRulesTest : public testing::Test {
 protected:
  ChannelRulesTest() {
    storage_.content.resize(16 * kChunk);
    file_ = std::move(*File::open(storage_, FakeStorage::kUserFd));
    request_.file = file_.get();
    request_.size = kChunk;
    request_.memory = static_cast<std::byte*>(*gpu_.allocate(16 * kChunk));
    request_.facts = gpu_.describe(request_.memory.address());
  }
  static Chunk chunk(std::uint64_t size) { return {.size = size, .io_size = size}; }
  ChannelOptions options() { return {.device = &gpu_, .depth = 1, .chunk_max = kChunk}; }

  FakeStorage storage_;
  FakeGpu gpu_;
  std::unique_ptr<File> file_;
  RegistrationCache cache_{RegistrationRules{.bytes_max = 1u << 20}};
  PagecachePath pages_{storage_, {.registration = {.bytes_max = 1u << 20}}};
  RoutedRequest request_;
};

TEST_F(ChannelRulesTest, NoneIsOpenedWithoutRoomForAChunk) {
  ChannelOptions no_depth = options(), no_bytes = options();
  no_depth.depth = 0;
  no_bytes.chunk_max = 0;
  EXPECT_DEATH((void)StorageChannel::open(storage_, no_depth), "options.depth > 0");
  EXPECT_DEATH((void)StorageChannel::open(storage_, no_bytes), "options.chunk_max > 0");
  EXPECT_DEATH((void)PagecacheChannel::open(cache_, no_depth), "options.depth > 0");
}

TEST_F(ChannelRulesTest, NoneOfAPathForDevicesIsOpenedForHostMemory) {
  const ChannelOptions host{.depth = 1, .chunk_max = kChunk};
  BouncePath bounce(storage_);
  VendorPath vendor(storage_, VendorRules{});
  NvfsPath nvfs(storage_, gpu_, nullptr, NvfsRules{});
  for (Path* const path : std::initializer_list<Path*>{&bounce, &vendor, &nvfs, &pages_}) {
    EXPECT_DEATH((void)path->open_channel(host), "options.device != nullptr");
  }
}

TEST_F(ChannelRulesTest, AChannelInUseTakesNothingMoreThanItHasRoomFor) {
  std::vector<std::unique_ptr<Channel>> channels;
  channels.push_back(std::move(*StorageChannel::open(storage_, options())));
  channels.push_back(std::move(*PagecacheChannel::open(cache_, options())));
  channels.push_back(std::move(*pages_.open_channel(options())));
  for (const auto& channel : channels) {
    channel->submit(request_, chunk(kChunk), 1);
    ASSERT_FALSE(channel->has_room());
    EXPECT_DEATH(channel->submit(request_, chunk(kChunk), 2), "has_room..");
    EXPECT_DEATH((void)channel->move_and_wait(request_, chunk(kChunk)), "is_idle..");
  }
}

TEST_F(ChannelRulesTest, AChunkIsNeitherEmptyNorLargerThanItsChannelTakes) {
  const std::unique_ptr<Channel> storage = std::move(*StorageChannel::open(storage_, options()));
  EXPECT_DEATH(storage->submit(request_, chunk(0), 1), "chunk.size > 0");
  EXPECT_DEATH(storage->submit(request_, chunk(kChunk + 1), 1), "chunk.io_size <= options_.chunk_max");
  const std::unique_ptr<Channel> pages = std::move(*PagecacheChannel::open(cache_, options()));
  EXPECT_DEATH((void)pages->move_and_wait(request_, chunk(0)), "chunk.size > 0");
  EXPECT_DEATH((void)pages->move_and_wait(request_, chunk(PagecacheChannel::kChunkMax + 1)), "chunk.size <= kChunkMax");
}

}  // namespace
}  // namespace penstock::core
