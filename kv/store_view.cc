// SPDX-License-Identifier: Apache-2.0

#include "kv/store_view.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <vector>

namespace penstock::kv {
namespace {

// The outcome of reading a chunk, before its checksum is compared: done if that is right.
Outcome arrival_of(const Name& store, Request& one, std::span<const std::byte> page, const Moved& header,
                   const Moved& payload) {
  if (!one.status.ok()) return Outcome::failed;
  one.is_short = header.bytes != kHeaderBytes || payload.bytes != one.chunk.bytes;
  return !one.is_short && is_header_of(one.chunk, store, page) ? Outcome::done : Outcome::damaged;
}

void check_sums(Volume& volume, std::span<Request* const> requests) {
  const core::Result<std::vector<std::uint32_t>> crcs = checksums(volume, requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i]->status = crcs.status();
    if (!crcs.ok()) requests[i]->outcome = Outcome::failed;
    else if ((*crcs)[i] != requests[i]->chunk.crc) requests[i]->outcome = Outcome::damaged;
  }
}

// Copies a chunk out of a slab in host memory.
void copy_out(Request& one, const Name& store, std::span<const std::byte> slot) {
  one.outcome = is_header_of(one.chunk, store, slot) ? Outcome::done : Outcome::damaged;
  if (one.outcome != Outcome::done) return;
  const std::byte* from = slot.data() + kHeaderBytes;
  for (const iovec& piece : one.pieces) {
    std::memcpy(piece.iov_base, from, piece.iov_len);
    from += piece.iov_len;
  }
}

// Reads of chunks, of which each has a header and, unless it is empty, a payload.
class Reads {
 public:
  Reads(Volume& volume, const Name& store, std::span<Request* const> requests)
      : volume_(volume), store_(store), requests_(requests), pages_(requests.size()), arrivals_(requests.size()) {
    headers_.reserve(requests.size());  // Transfers refer to them.
    transfers_.reserve(2 * requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::size_t before = transfers_.size();
      add_transfers(PENSTOCK_READ, requests[i]->chunk, headers_.emplace_back(iovec{pages_[i].data(), kHeaderBytes}),
                    requests[i]->pieces, transfers_);
      arrivals_[i].missing = transfers_.size() - before;
      of_.insert(of_.end(), arrivals_[i].missing, i);
    }
  }

  // Chunks are checked while others arrive.
  void run() {
    volume_.transfer_each(transfers_, [&](std::span<const Volume::EndedRequest> ended) {
      std::vector<Request*> arrived;
      for (const auto& [transfer, moved] : ended) {
        Request& one = *requests_[of_[transfer]];
        if (has_arrived(transfer, moved) && one.outcome == Outcome::done) arrived.push_back(&one);
      }
      check_sums(volume_, arrived);
    });
  }

 private:
  // True if nothing of the transfer's chunk is missing any more; then its request has its outcome.
  bool has_arrived(std::size_t transfer, const Moved& moved) {
    const std::size_t i = of_[transfer];
    Arrival& arrival = arrivals_[i];
    const bool is_header = transfer == 0 || of_[transfer - 1] != i;
    (is_header ? arrival.header : arrival.payload) = moved;
    if (--arrival.missing > 0) return false;
    Request& one = *requests_[i];
    one.status = arrival.header.status.ok() ? arrival.payload.status : arrival.header.status;
    one.outcome = arrival_of(store_, one, pages_[i], arrival.header, arrival.payload);
    return true;
  }

  struct Arrival {
    Moved header, payload;
    std::size_t missing = 0;  // Transfers.
  };

  Volume& volume_;
  const Name& store_;
  const std::span<Request* const> requests_;
  const Pages pages_;
  std::vector<Arrival> arrivals_;
  std::vector<iovec> headers_;
  std::vector<penstock_request> transfers_;
  std::vector<std::size_t> of_;  // The request of each transfer.
};

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

std::span<std::byte> slot_for_copies(Volume& volume, const Request& request) {
  if (!request.is_host) return {};
  return volume.for_copies(request.chunk.slot_offset, kHeaderBytes + request.chunk.bytes);
}

void read_chunks(Volume& volume, const Name& store, std::span<Request* const> requests) {
  std::vector<Request*> others;
  for (Request* const one : requests) {
    const std::span<const std::byte> slot = slot_for_copies(volume, *one);
    if (slot.empty()) {
      others.push_back(one);
      continue;
    }
    copy_out(*one, store, slot);
    if (one->outcome == Outcome::done) check_sums(volume, {&one, 1});  // The next one may be for the same memory.
  }
  if (!others.empty()) Reads(volume, store, others).run();
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
  const UnderWay own(under_way_, bytes);
  const auto began = std::chrono::steady_clock::now();
  read_chunks(volume_, name_, found);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  const auto is_done = [](const Request* one) { return one->outcome == Outcome::done; };
  if (std::all_of(found.begin(), found.end(), is_done)) pace_.add(bytes, own.before(), took.count());
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
  return bytes == 0 ? 0 : pace_.seconds(bytes, under_way());
}

}  // namespace penstock::kv
