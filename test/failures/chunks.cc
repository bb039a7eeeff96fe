// SPDX-License-Identifier: Apache-2.0

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <map>

#include "failures/jobs.h"
#include "kv/follower.h"
#include "kv/session_volume.h"
#include "kv/store.h"
#include "kv/test_chunks.h"
#include "penstock/penstock.hpp"

namespace penstock::failures {
namespace {

constexpr std::uint64_t kKeys = 3, kSlab = 4 << 20, kExtent = 1 << 20;
constexpr kv::Library kLibrary = {penstock_file_register, penstock_file_close,   penstock_file_sync,
                                  penstock_transfer,      penstock_queue_open,   penstock_queue_close,
                                  penstock_queue_submit,  penstock_queue_reap,   penstock_crc32c_vector,
                                  penstock_path_count,    penstock_report_bytes, penstock_file_advise};

std::size_t bytes_of(std::uint64_t key) { return 8 * (1000 + 20'000 * (key % 2) + key); }

// True if the store has the chunk. Each of its words follows from the one before: it is one that was put, and whole.
bool has(kv::StoreView& store, std::uint64_t key, std::uint64_t version) {
  std::vector<std::byte> memory(bytes_of(key));
  if (kv::get(store, key, memory) != kv::Outcome::done) return false;
  if (version != 0) {
    if (memory == kv::content_of(key, version, memory.size())) return true;
    std::fprintf(stderr, "failures: another chunk than was put last\n");
    ::_exit(kWrongByte);
  }
  std::vector<std::uint64_t> words(memory.size() / 8);
  std::memcpy(words.data(), memory.data(), memory.size());
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == words[i - 1] * 6364136223846793005 + 1442695040888963407) continue;
    std::fprintf(stderr, "failures: a chunk that nobody put\n");
    ::_exit(kWrongByte);
  }
  return true;
}

}  // namespace

// The store stays from one round to the next: what a failure leaves of it is opened again.
bool put_chunks(const std::string& folder) {
  static std::uint64_t version = static_cast<std::uint64_t>(::getpid()) << 20;
  static std::map<std::uint64_t, std::uint64_t> committed;  // The version of each key that must be there.
  (void)::mkdir(folder.c_str(), 0700);
  Result<Session> session = Session::open();
  if (!session) return false;
  const auto open = [&](kv::SessionVolume::Role role) {
    return kv::SessionVolume::open(kLibrary, session->raw(), folder, role, kSlab);
  };
  auto volume = open(kv::SessionVolume::Role::writer);
  if (!volume.ok()) return false;
  auto store = kv::Store::open(**volume, {kv::name_of(0), kSlab, kExtent});
  if (!store.ok()) return false;
  bool good = true;
  for (const auto& [key, number] : committed) good &= has(**store, key, number);
  std::map<std::uint64_t, std::uint64_t> put;
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    committed.erase(key);
    (void)has(**store, key, 0);
    (void)(*store)->erase(kv::name_of(key));
    if (kv::put(**store, key, kv::content_of(key, ++version, bytes_of(key))) == kv::Outcome::done) put[key] = version;
  }
  const bool is_committed = (*store)->commit().ok();
  if (is_committed) committed = put;
  good &= is_committed && put.size() == kKeys;
  for (const auto& [key, number] : put) good &= has(**store, key, number);
  if (auto other = open(kv::SessionVolume::Role::reader); other.ok()) {
    kv::Follower follower(**other, kv::name_of(0));
    good &= follower.refresh().ok();
    for (const auto& [key, number] : committed) good &= has(follower, key, number);
  } else {
    good = false;
  }
  return (*store)->close().ok() && good;
}

}  // namespace penstock::failures
