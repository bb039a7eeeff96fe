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

const SelfTestCache::Pair* SelfTestCache::find(const Device* device, const StorageKey& storage) const {
  const unsigned count = count_.load(std::memory_order_acquire);
  for (unsigned i = 0; i < count; ++i) {
    if (pairs_[i].device == device && pairs_[i].storage == storage) return &pairs_[i];
  }
  return nullptr;
}

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

std::optional<Proof> SelfTestCache::find_proof(const Device* device, const StorageKey& storage, Op op) const {
  const Pair* pair = find(device, storage);
  if (pair == nullptr) return std::nullopt;
  return unpack(pair->proofs[static_cast<unsigned>(op)].load(std::memory_order_relaxed));
}

void SelfTestCache::refuse(const Device* device, const StorageKey& storage, Op op, const Proof& why) {
  if (const Pair* pair = find(device, storage)) {
    pairs_[static_cast<std::size_t>(pair - pairs_.data())].proofs[static_cast<unsigned>(op)].store(
        pack(why), std::memory_order_relaxed);
  }
}

}  // namespace penstock::core
