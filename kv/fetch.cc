// SPDX-License-Identifier: Apache-2.0

#include "kv/fetch.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <vector>

namespace penstock::kv {
namespace {

// Tells how a chunk arrived, but for its checksum: done, if that is the right one.
Outcome arrival(const Name& store, const Fetch& one, std::span<const std::byte> page, const Transfer& header,
                const Transfer& payload) {
  if (!one.status.ok()) return Outcome::failed;
  const bool is_whole = header.moved == kHeaderBytes && payload.moved == one.chunk.bytes;
  return is_whole && is_header_of(one.chunk, store, page) ? Outcome::done : Outcome::damaged;
}

void judge(Drive& drive, std::span<Fetch> fetches) {
  std::vector<Fetch*> arrived;
  std::vector<std::span<const iovec>> chunks;
  for (Fetch& one : fetches) {
    if (one.outcome != Outcome::done) continue;
    arrived.push_back(&one);
    chunks.push_back(one.pieces);
  }
  const core::Result<std::vector<std::uint32_t>> crcs = checksums(drive, chunks);
  for (std::size_t i = 0; i < arrived.size(); ++i) {
    arrived[i]->status = crcs.status();
    if (!crcs.ok()) arrived[i]->outcome = Outcome::failed;
    else if ((*crcs)[i] != arrived[i]->chunk.crc) arrived[i]->outcome = Outcome::damaged;
  }
}

std::uint64_t bytes_of(std::span<const Fetch> fetches) {
  std::uint64_t bytes = 0;
  for (const Fetch& one : fetches) bytes += one.chunk.bytes;
  return bytes;
}

}  // namespace

Pages::Pages(std::size_t count)
    : memory_(
          static_cast<std::byte*>(std::aligned_alloc(kHeaderBytes, std::max<std::size_t>(count, 1) * kHeaderBytes))) {
  if (memory_ == nullptr) throw std::bad_alloc();
}

void fetch(Drive& drive, const Name& store, std::span<Fetch> fetches, Pace* pace) {
  const auto began = std::chrono::steady_clock::now();
  const Pages pages(fetches.size());
  std::vector<iovec> headers(fetches.size());
  std::vector<Transfer> transfers;
  transfers.reserve(2 * fetches.size());
  for (std::size_t i = 0; i < fetches.size(); ++i) {
    const Fetch& one = fetches[i];
    headers[i] = {pages[i].data(), kHeaderBytes};
    transfers.push_back({false, one.chunk.slot, {&headers[i], 1}});
    transfers.push_back({false, one.chunk.slot + kHeaderBytes, one.pieces});
  }
  drive.transfer(transfers);
  for (std::size_t i = 0; i < fetches.size(); ++i) {
    const Transfer &header = transfers[2 * i], &payload = transfers[2 * i + 1];
    Fetch& one = fetches[i];
    one.status = header.status.ok() ? payload.status : header.status;
    one.outcome = arrival(store, one, pages[i], header, payload);
  }
  judge(drive, fetches);
  const bool is_done =
      std::all_of(fetches.begin(), fetches.end(), [](const Fetch& one) { return one.outcome == Outcome::done; });
  if (pace == nullptr || !is_done) return;
  pace->add(bytes_of(fetches), std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
}

}  // namespace penstock::kv
