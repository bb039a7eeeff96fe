// SPDX-License-Identifier: Apache-2.0

// The work that a block device does besides passing bytes on: it caches or deduplicates them, or sends them elsewhere.
// One table of texts in /sys; for findings, and for the stacks of `penstock explain` and `penstock check --try`.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "topology/block_device.h"

namespace penstock::core {

enum class LayerRole : std::uint8_t { cache, deduplication, encryption, parity, allocation, replication, remote };

struct BlockLayer {
  std::string BlockDevice::*field;  // The text of the device that decides,
  const char* begins;               // and how that text begins.
  LayerRole role;
  const char* what;    // "a cache before a slower drive (bcache)"
  const char* ask;     // The command that shows more; with {} for the device's name.
  bool is_told_apart;  // A finding's sentence already says what it is, so that its subject needs only a name.
};

std::span<const BlockLayer> block_layers();
// Null for a device that only passes bytes on, and for one that shows nothing.
const BlockLayer* block_layer(const BlockDevice& device);

}  // namespace penstock::core
