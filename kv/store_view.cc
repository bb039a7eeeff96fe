// SPDX-License-Identifier: Apache-2.0

#include "kv/store_view.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <vector>

namespace penstock::kv {
namespace {

// The outcome of reading a chunk, before its checksum is compared: done if that is right.
Outcome arrival(const Name& store, const Request& one, std::span<const std::byte> page, const Moved& header,
                const Moved& payload) {
  if (!one.status.ok()) return Outcome::failed;
  const bool is_whole = header.bytes == kHeaderBytes && payload.bytes == one.chunk.bytes;
  return is_whole && is_header_of(one.chunk, store, page) ? Outcome::done : Outcome::damaged;
}

void check_sums(Volume& volume, std::span<Request* const> requests) {
  std::vector<Request*> arrived;
  std::vector<std::span<const iovec>> chunks;
  for (Request* const one : requests) {
    if (one->outcome != Outcome::done) continue;
    arrived.push_back(one);
    chunks.push_back(one->pieces);
  }
  const core::Result<std::vector<std::uint32_t>> crcs = checksums(volume, chunks);
  for (std::size_t i = 0; i < arrived.size(); ++i) {
    arrived[i]->status = crcs.status();
    if (!crcs.ok()) arrived[i]->outcome = Outcome::failed;
    else if ((*crcs)[i] != arrived[i]->chunk.crc) arrived[i]->outcome = Outcome::damaged;
  }
}

}  // namespace

Pages::Pages(std::size_t count)
    : memory_(
          static_cast<std::byte*>(std::aligned_alloc(kHeaderBytes, std::max<std::size_t>(count, 1) * kHeaderBytes))) {
  if (memory_ == nullptr) throw std::bad_alloc();
}

void add_transfers(penstock_op op, const Chunk& chunk, const iovec& header, std::span<const iovec> payload,
                   std::vector<penstock_request>& transfers) {
  transfers.push_back(slab_request(op, chunk.slot_offset, {&header, 1}));
  if (chunk.bytes > 0) transfers.push_back(slab_request(op, chunk.slot_offset + kHeaderBytes, payload));
}

void read_chunks(Volume& volume, const Name& store, std::span<Request* const> requests) {
  const Pages pages(requests.size());
  std::vector<iovec> headers(requests.size());
  std::vector<penstock_request> transfers;
  transfers.reserve(2 * requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    headers[i] = {pages[i].data(), kHeaderBytes};
    add_transfers(PENSTOCK_READ, requests[i]->chunk, headers[i], requests[i]->pieces, transfers);
  }
  const std::vector<Moved> moved = volume.transfer(transfers);
  auto next = moved.begin();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Request& one = *requests[i];
    const Moved header = *next++, payload = one.chunk.bytes > 0 ? *next++ : Moved{};
    one.status = header.status.ok() ? payload.status : header.status;
    one.outcome = arrival(store, one, pages[i], header, payload);
  }
  check_sums(volume, requests);
}

void StoreView::get(std::span<Request* const> requests) {
  std::vector<Request*> found;
  std::uint64_t bytes = 0;
  {
    const core::MutexLock lock(mutex_);
    for (Request* const request : requests) {
      const Chunk* const chunk = find(request->key);
      request->outcome = chunk == nullptr ? Outcome::miss : Outcome::mismatch;
      if (chunk == nullptr || chunk->bytes != bytes_of(request->pieces)) continue;
      request->chunk = *chunk;
      begin_get(request->chunk);
      found.push_back(request);
      bytes += chunk->bytes;
    }
  }
  const auto began = std::chrono::steady_clock::now();
  read_chunks(volume_, name_, found);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  const auto is_done = [](const Request* one) { return one->outcome == Outcome::done; };
  if (std::all_of(found.begin(), found.end(), is_done)) pace_.add(bytes, took.count());
  const core::MutexLock lock(mutex_);
  for (Request* const one : found) {
    if (is_done(one)) counts_.get_bytes += one->chunk.bytes;
    end_get(*one);
  }
  for (const Request* const request : requests) ++counts_.gets[static_cast<unsigned>(request->outcome)];
}

bool StoreView::contains(const Name& key) const {
  const core::MutexLock lock(mutex_);
  return find(key) != nullptr;
}

std::uint64_t StoreView::size_of(const Name& key) const {
  const core::MutexLock lock(mutex_);
  const Chunk* const chunk = find(key);
  return chunk == nullptr ? 0 : chunk->bytes;
}

std::optional<double> StoreView::seconds_to_get(std::span<const Name> keys) const {
  std::uint64_t bytes = 0;
  for (const Name& key : keys) bytes += size_of(key);
  return bytes == 0 ? 0 : pace_.seconds(bytes);
}

}  // namespace penstock::kv
