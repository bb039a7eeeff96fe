// SPDX-License-Identifier: Apache-2.0

// A drive of a store of chunks that now and then writes a block to another place, and answers success. What had to be
// written is not there, and what was at the other place is gone. A store can tell by its checksums; it is asked to do
// that, and to serve everything that was not hit. Of files without checksums nobody could tell, so theirs are spared.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>

#include "kv/fake_volume.h"

namespace penstock::simulation {

class Misdirected {
 public:
  explicit Misdirected(kv::FakeVolume& volume) : volume_(volume) {}

  // One write in so many loses a block from now on; 0: none does.
  void begin(unsigned one_in) { one_in_ = one_in; }
  // Calls `write`, which writes that range of the slab, or of the journal.
  void write_slab(std::uint64_t offset, std::uint64_t bytes, const std::function<void()>& write);
  void write_journal(std::uint64_t offset, const std::function<void()>& write);
  // The whole journal is written anew, unless that returns false: then the old one may still be the one.
  void replace_journal(const std::function<bool()>& write);

  // Something of the range is not what was written there last.
  bool has_hit_slab(std::uint64_t offset, std::uint64_t bytes) const;
  std::uint64_t count() const { return count_; }  // How many writes went astray.
  bool has_hit_journal() const { return has_hit_journal_; }

 private:
  bool happens() const;
  // The bytes at `from` become what they were, and those that were written land in another place.
  void lose(std::span<const std::byte> before, std::span<std::byte> from);

  kv::FakeVolume& volume_;
  unsigned one_in_ = 0;
  std::uint64_t count_ = 0;
  std::set<std::uint64_t> hit_;  // Blocks of the slab.
  bool has_hit_journal_ = false;
};

}  // namespace penstock::simulation
