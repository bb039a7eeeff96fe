// SPDX-License-Identifier: Apache-2.0

#include "simulation/misdirected.h"

#include <algorithm>
#include <vector>

#include "simulation/files.h"

namespace penstock::simulation {
namespace {

constexpr std::uint64_t kBlock = 4096;

// The block's bytes, of which there may be fewer.
std::span<std::byte> block_of(std::vector<std::byte>& bytes, std::uint64_t block) {
  const std::uint64_t first = std::min<std::uint64_t>(block * kBlock, bytes.size());
  return std::span(bytes).subspan(first, std::min(kBlock, bytes.size() - first));
}

}  // namespace

bool Misdirected::happens() const { return one_in_ != 0 && scheduler().random().one_in(one_in_); }

void Misdirected::lose(std::span<const std::byte> before, std::span<std::byte> from) {
  Random& random = scheduler().random();
  ++count_;
  ++disk().faults[static_cast<std::size_t>(Fault::misdirected)];
  const std::vector<std::byte> written(from.begin(), from.end());
  std::fill(from.begin(), from.end(), std::byte{0});
  std::copy_n(before.begin(), std::min(before.size(), from.size()), from.begin());
  const bool is_in_journal = random.one_in(4);
  std::vector<std::byte>& other = is_in_journal ? volume_.journal() : volume_.slab();
  if (other.empty()) return;
  const std::uint64_t block = random.below((other.size() + kBlock - 1) / kBlock);
  const std::span<std::byte> to = block_of(other, block);
  std::copy_n(written.begin(), std::min(written.size(), to.size()), to.begin());
  if (is_in_journal) has_hit_journal_ = true;
  else hit_.insert(block);
}

void Misdirected::write_slab(std::uint64_t offset, std::uint64_t bytes, const std::function<void()>& write) {
  const std::uint64_t first = offset / kBlock, end = (offset + bytes + kBlock - 1) / kBlock;
  const std::uint64_t lost = happens() ? scheduler().random().between(first, end - 1) : end;
  const std::span<std::byte> place = block_of(volume_.slab(), lost);
  const std::vector<std::byte> before(place.begin(), place.end());
  write();
  hit_.erase(hit_.lower_bound(first), hit_.lower_bound(end));
  if (lost == end) return;
  lose(before, place);
  hit_.insert(lost);
}

void Misdirected::write_journal(std::uint64_t offset, const std::function<void()>& write) {
  const bool is_lost = happens();
  const std::span<std::byte> known = block_of(volume_.journal(), offset / kBlock);
  const std::vector<std::byte> before(known.begin(), known.end());
  write();
  if (!is_lost) return;
  has_hit_journal_ = true;
  lose(before, block_of(volume_.journal(), offset / kBlock));
}

void Misdirected::replace_journal(const std::function<bool()>& write) {
  const bool is_lost = happens();
  if (write()) has_hit_journal_ = false;
  has_hit_journal_ = has_hit_journal_ || is_lost;
  if (!is_lost) return;
  const std::uint64_t blocks = (volume_.journal().size() + kBlock - 1) / kBlock;
  if (blocks > 0) lose({}, block_of(volume_.journal(), scheduler().random().below(blocks)));
}

bool Misdirected::has_hit_slab(std::uint64_t offset, std::uint64_t bytes) const {
  const auto found = hit_.lower_bound(offset / kBlock);
  return found != hit_.end() && *found * kBlock < offset + bytes;
}

}  // namespace penstock::simulation
