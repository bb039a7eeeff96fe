// SPDX-License-Identifier: Apache-2.0

// The self-test results of each device with each storage: proven, refused and why, or not tried yet. Looking up takes
// no lock; the self-test of a new pair takes one, so that it runs only once. Entries stay as long as the cache.
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
  // Returns the result of a pair, which `test` finds out if the pair is new. Allocates nothing otherwise.
  template <typename Test>
  Proof find_or_test(const Device* device, const StorageKey& storage, Op op, const Test& test) {
    const std::optional<Proof> known = find_proof(device, storage, op);
    return known ? *known : test_new(device, storage, op, test);
  }
  // Nothing if the pair was not tested yet.
  std::optional<Proof> find_proof(const Device* device, const StorageKey& storage, Op op) const;
  // Makes the pair refused from now on, by whichever open of the storage.
  void refuse(const Device* device, const StorageKey& storage, Op op, const Proof& why);

 private:
  static constexpr unsigned kPairsMax = 256;

  struct Pair {
    const Device* device = nullptr;
    StorageKey storage;
    std::atomic<std::uint64_t> proofs[2] = {};  // A Proof in one word, by Op.
  };

  Proof test_new(const Device* device, const StorageKey& storage, Op op, const std::function<SelfTest()>& test);

  std::array<Pair, kPairsMax> pairs_;
  std::atomic<unsigned> count_{0};
  Mutex mutex_;  // Held while the cache grows.
};

}  // namespace penstock::core
