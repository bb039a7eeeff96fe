// SPDX-License-Identifier: Apache-2.0

// The work that a block device does besides passing bytes on: it caches them, deduplicates them, sends them elsewhere.
// One table, by the texts of /sys; for findings, and for the stacks of `penstock explain` and `odirect`.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "topology/block_device.h"

namespace penstock::core {

enum class LayerRole : std::uint8_t { cache, deduplication, encryption, parity, allocation, replication, remote };

struct BlockLayer {
  std::string BlockDevice::*field;  // The device's text,
  const char* begins;               // and how it begins.
  LayerRole role;
  const char* what;    // "a cache before a slower drive (bcache)"
  const char* ask;     // The command that tells more; with {} for the device's name.
  bool is_told_apart;  // By a finding's sentence already, so that its subject needs no more than a name.
};

std::span<const BlockLayer> block_layers();
// Null for a device that passes bytes on, and for one of which nothing here tells.
const BlockLayer* block_layer(const BlockDevice& device);

}  // namespace penstock::core
