// SPDX-License-Identifier: Apache-2.0

#include "path/pipeline/ring_registrations.h"

#include <algorithm>

namespace penstock::core {
namespace {

constexpr std::size_t kFixedFilesMax = 8;
constexpr std::size_t kKeptMax = 8;

}  // namespace

RingRegistrations::RingRegistrations() {
  files_.reserve(kFixedFilesMax);
  kept_.reserve(kKeptMax);
}

int RingRegistrations::number_of(Ring& ring, std::uint64_t file_id, IoMode io_mode, int fd) {
  for (const FixedFile& known : files_) {
    if (known.file_id == file_id && known.io_mode == io_mode) return known.number;
  }
  if (files_.size() == kFixedFilesMax) return -1;
  files_.push_back({file_id, io_mode, ring.register_file(fd)});
  return files_.back().number;
}

void RingRegistrations::keep_memory(Ring& ring, const ChannelFacts& channel_facts) {
  if (channel_facts.buffer_bytes == 0 || kept_.size() == kKeptMax) return;
  const auto is_it = [&](const Kept& known) { return known.memory == channel_facts.buffer; };
  if (std::any_of(kept_.begin(), kept_.end(), is_it)) return;
  kept_.push_back({channel_facts.buffer, ring.register_memory(channel_facts.buffer, channel_facts.buffer_bytes).ok()});
}

void RingRegistrations::forget_file(Ring* ring, std::uint64_t file_id) {
  std::erase_if(files_, [&](const FixedFile& known) {
    if (file_id != 0 && known.file_id != file_id) return false;
    if (ring != nullptr) ring->unregister_file(known.number);
    return true;
  });
}

void RingRegistrations::forget_memory(Ring* ring, std::byte* kept) {
  const auto goes = [&](const Kept& known) { return known.memory == kept || !known.is_registered; };
  if (std::erase_if(kept_, goes) > 0 && ring != nullptr) ring->unregister_memory(kept);
}

}  // namespace penstock::core
