// SPDX-License-Identifier: Apache-2.0

// The results of each device with each storage: proven, refused and why, or not tried yet. Looking up takes no lock; a
// new pair's self-test does, so that it runs once. Entries stay as long as the table.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <optional>

#include "base/mutex.h"
#include "path/pipeline/self_test.h"

namespace penstock::core {

class SelfTestCache {
 public:
  // `test` finds out about a pair that is new.
  Proof find_or_test(const Device* device, const StorageKey& storage, Op op, const std::function<SelfTest()>& test);
  // Nothing where the pair was not tested yet.
  std::optional<Proof> find_proof(const Device* device, const StorageKey& storage, Op op) const;
  // From now on the pair is refused.
  void refuse(const Device* device, const StorageKey& storage, Op op, const Proof& why);

 private:
  static constexpr unsigned kPairsMax = 256;

  struct Pair {
    const Device* device = nullptr;
    StorageKey storage;
    std::atomic<std::uint64_t> proofs[2] = {};  // By Op; a Proof in one word.
  };

  const Pair* find(const Device* device, const StorageKey& storage) const;

  std::array<Pair, kPairsMax> pairs_;
  std::atomic<unsigned> count_{0};
  Mutex mutex_;  // Guards growth.
};

}  // namespace penstock::core
