// SPDX-License-Identifier: Apache-2.0

#include "topology/block_layer.h"

#include <gtest/gtest.h>

#include "topology/captured_stack.h"
#include "topology/test_tree.h"

namespace penstock::core {
namespace {

TEST(BlockLayerTest, ACacheByLvmIsToldByTheNamesOfItsParts) {
  const auto cached = stack_under("lvm-cache", "/data/lv");
  ASSERT_TRUE(cached);
  EXPECT_EQ(cached->dm_target, "cache");
  ASSERT_NE(block_layer(*cached), nullptr);
  EXPECT_EQ(block_layer(*cached)->role, LayerRole::cache);
  for (const BlockDevice& part : cached->slaves) EXPECT_EQ(part.dm_target, "") << part.dm_name;
}

TEST(BlockLayerTest, OfWhatDmsetupMadeNothingIsGuessed) {
  const auto plain = stack_under("lvm-cache", "/data/plain");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->kind, BlockKind::dm);
  EXPECT_EQ(plain->dm_type, "");
  EXPECT_EQ(block_layer(*plain), nullptr);
}

TEST(BlockLayerTest, DeduplicationIsFoundBelowTheVolume) {
  const auto volume = stack_under("lvm-vdo", "/data/lv");
  ASSERT_TRUE(volume);
  EXPECT_EQ(block_layer(*volume), nullptr);
  ASSERT_EQ(volume->slaves.size(), 1u);
  ASSERT_NE(block_layer(volume->slaves[0]), nullptr);
  EXPECT_EQ(block_layer(volume->slaves[0])->role, LayerRole::deduplication);
}

TEST(BlockLayerTest, PartsOfLvmsOtherKindsNameTheirTarget) {
  for (const auto& [part, target] :
       {std::pair("vg-lv_wcorig", "writecache"), std::pair("vg-pool_tdata", "thin-pool"),
        std::pair("vg-lv_rimage_0", "raid"), std::pair("vg-lv_corig", "cache"), std::pair("vg-corig", "")}) {
    TestTree tree;
    tree.put("/sys/devices/virtual/block/dm-0/dev", "253:0\n").put("/sys/devices/virtual/block/dm-1/dev", "253:1\n");
    tree.put("/sys/devices/virtual/block/dm-1/dm/name", std::string(part) + "\n");
    tree.link("/sys/dev/block/253:0", "../../devices/virtual/block/dm-0");
    tree.link("/sys/dev/block/253:1", "../../devices/virtual/block/dm-1");
    tree.link("/sys/devices/virtual/block/dm-0/slaves/dm-1", "../../dm-1");
    const auto device = read_block_device(tree.root(), MountTable(), {253, 0});
    ASSERT_TRUE(device);
    EXPECT_EQ(device->dm_target, target) << part;
  }
}

TEST(BlockLayerTest, DevicesOfTheirOwnKindAreKnownByTheirNames) {
  for (const auto& [name, role] : {std::pair("bcache0", LayerRole::cache), std::pair("drbd1", LayerRole::replication),
                                   std::pair("rbd0", LayerRole::remote), std::pair("nbd3", LayerRole::remote)}) {
    const BlockLayer* const layer = block_layer({.name = name, .disk = name});
    ASSERT_NE(layer, nullptr) << name;
    EXPECT_EQ(layer->role, role) << name;
  }
  EXPECT_EQ(block_layer({.name = "nvme0n1", .disk = "nvme0n1"}), nullptr);
}

TEST(BlockLayerTest, EachRowSaysWhatItIsAndWhoTellsMore) {
  for (const BlockLayer& layer : block_layers()) {
    EXPECT_STRNE(layer.begins, "");
    EXPECT_STRNE(layer.what, "") << layer.begins;
    EXPECT_STRNE(layer.ask, "") << layer.begins;
  }
}

}  // namespace
}  // namespace penstock::core
