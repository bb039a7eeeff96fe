// SPDX-License-Identifier: Apache-2.0

// Block devices that do more than pass bytes on: they cache or deduplicate them, or send them elsewhere. One table of
// texts in /sys; for findings, and for the stacks of `penstock explain` and `penstock check --try`.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "topology/block_device.h"

namespace penstock::core {

enum class LayerRole : std::uint8_t { cache, deduplication, encryption, parity, allocation, replication, remote };

struct BlockLayer {
  std::string BlockDevice::*field;  // The field of the device to compare,
  const char* begins;               // and the beginning that it must have.
  LayerRole role;
  const char* what;    // "a cache before a slower drive (bcache)"
  const char* ask;     // The command that shows more; with {} for the device's name.
  bool is_told_apart;  // Findings about it already say what it is, so that their subject is only its name.
};

std::span<const BlockLayer> block_layers();
// Null for a device that only passes bytes on, or that is not recognized.
const BlockLayer* block_layer(const BlockDevice& device);

}  // namespace penstock::core
