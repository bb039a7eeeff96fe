// SPDX-License-Identifier: Apache-2.0

#include "path/pipeline/self_test_cache.h"

#include <cerrno>

#include "path/pipeline/pipeline_reasons.h"

namespace penstock::core {
namespace {

std::uint64_t pack(const Proof& proof) {
  return std::uint64_t{static_cast<std::uint8_t>(proof.reason)} << 32 | static_cast<std::uint32_t>(proof.error);
}
Proof unpack(std::uint64_t word) {
  return {static_cast<Reason>(word >> 32), static_cast<int>(static_cast<std::uint32_t>(word))};
}

}  // namespace

// Another thread may have tested it meanwhile.
Proof SelfTestCache::test_new(const Device* device, const StorageKey& storage, Op op,
                              const std::function<SelfTest()>& test) {
  const MutexLock lock(mutex_);
  if (const std::optional<Proof> known = find_proof(device, storage, op)) return *known;
  const unsigned count = count_.load(std::memory_order_relaxed);
  if (count == kPairsMax) return {pipeline_reason::self_test_refused, ENOSPC};
  const SelfTest result = test();
  Pair& pair = pairs_[count];
  pair.device = device;
  pair.storage = storage;
  pair.proofs[static_cast<unsigned>(Op::read)].store(pack(result.read), std::memory_order_relaxed);
  pair.proofs[static_cast<unsigned>(Op::write)].store(pack(result.write), std::memory_order_relaxed);
  count_.store(count + 1, std::memory_order_release);
  return op == Op::read ? result.read : result.write;
}

// A refusal holds for every open of the storage.
std::optional<Proof> SelfTestCache::find_proof(const Device* device, const StorageKey& storage, Op op) const {
  const unsigned count = count_.load(std::memory_order_acquire);
  for (unsigned i = 0; i < count; ++i) {
    const Pair& pair = pairs_[i];
    if (pair.device != device || !pair.storage.is_same_storage(storage)) continue;
    const Proof proof = unpack(pair.proofs[static_cast<unsigned>(op)].load(std::memory_order_relaxed));
    if (pair.storage.open == storage.open || proof.reason != Reason::none) return proof;
  }
  return std::nullopt;
}

void SelfTestCache::refuse(const Device* device, const StorageKey& storage, Op op, const Proof& why) {
  const unsigned count = count_.load(std::memory_order_acquire);
  for (unsigned i = 0; i < count; ++i) {
    Pair& pair = pairs_[i];
    if (pair.device != device || !pair.storage.is_same_storage(storage)) continue;
    pair.proofs[static_cast<unsigned>(op)].store(pack(why), std::memory_order_relaxed);
  }
}

}  // namespace penstock::core
