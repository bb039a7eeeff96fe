// SPDX-License-Identifier: Apache-2.0

// What a block device does with bytes besides passing them on: caches them, deduplicates them, sends them elsewhere.
// One table, by what /sys tells of a device; for findings and for what `penstock explain` and `odirect` say of a stack.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "topology/block_device.h"

namespace penstock::core {

enum class LayerRole : std::uint8_t { cache, deduplication, encryption, parity, allocation, replication, remote };

struct BlockLayer {
  std::string BlockDevice::*field;  // Of the device,
  const char* begins;               // and how its text there begins.
  LayerRole role;
  const char* what;    // "a cache before a slower drive (bcache)"
  const char* ask;     // The command that tells more; with {} for the device's name.
  bool is_told_apart;  // By a finding's sentence already, so that its subject needs no more than a name.
};

std::span<const BlockLayer> block_layers();
// Null for a device that passes bytes on, and for one of which nothing here tells.
const BlockLayer* block_layer(const BlockDevice& device);

}  // namespace penstock::core
