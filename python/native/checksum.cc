// SPDX-License-Identifier: Apache-2.0

#include "python/native/checksum.h"

#include <sys/uio.h>

#include <algorithm>
#include <optional>

#include "checksum/crc32c.h"
#include "checksum/hash64.h"
#include "python/native/failure.h"
#include "python/native/memory.h"
#include "python/native/no_gil.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

void check_piece(std::uint64_t piece_bytes) {
  if (piece_bytes == 0) raise_value_error("piece_bytes is 0: expected the bytes that one checksum covers");
}

void add_pieces(const Memory& memory, std::uint64_t piece_bytes, std::vector<iovec>& pieces) {
  for (std::uint64_t at = 0; at < memory.size(); at += std::min(piece_bytes, memory.size() - at)) {
    pieces.push_back({memory.data() + at, std::min(piece_bytes, memory.size() - at)});
  }
}

Memory host_memory(nb::handle object) {
  Memory memory(object, Memory::Access::read_only, nb::int_(-1));
  if (memory.is_device() && !memory.is_bare()) raise_type_error("the memory is a device's: a session is needed");
  return memory;
}

std::vector<std::uint32_t> room_for(const Memory& memory, std::uint64_t piece_bytes) {
  check_piece(piece_bytes);
  return std::vector<std::uint32_t>(memory.size() / piece_bytes + (memory.size() % piece_bytes != 0));
}

}  // namespace

std::vector<std::uint32_t> crc32c(nb::handle object, std::uint64_t piece_bytes) {
  const Memory memory = host_memory(object);
  std::vector<std::uint32_t> sums = room_for(memory, piece_bytes);
  const NoGil no_gil;
  for (std::uint64_t i = 0; i < sums.size(); ++i) {
    const std::uint64_t at = i * piece_bytes;
    sums[i] = core::crc32c({memory.data() + at, std::min(piece_bytes, memory.size() - at)});
  }
  return sums;
}

std::pair<std::uint32_t, std::uint64_t> fingerprint(nb::handle object) {
  const Memory memory = host_memory(object);
  const NoGil no_gil;
  const core::Fingerprint found = core::fingerprint({memory.data(), memory.size()});
  return {found.crc32c, found.hash64};
}

std::vector<std::uint32_t> crc32c_by(const SessionHandle& session, nb::handle object, std::uint64_t piece_bytes,
                                     nb::handle stream) {
  const Memory memory(object, Memory::Access::read_only, stream);
  std::vector<std::uint32_t> sums = room_for(memory, piece_bytes);
  penstock_status status{};
  {
    const NoGil no_gil;
    wait_for_order(memory);
    status = session.engine().crc32c(session.raw(), memory.data(), memory.size(), piece_bytes, sums.data());
  }
  check(status);
  return sums;
}

std::vector<std::uint32_t> crc32c_vector_by(const SessionHandle& session, const std::vector<nb::object>& objects,
                                            std::uint64_t piece_bytes, nb::handle stream) {
  check_piece(piece_bytes);
  std::vector<Memory> memories;
  std::vector<iovec> pieces;
  for (const nb::object& object : objects) {
    add_pieces(memories.emplace_back(object, Memory::Access::read_only, stream), piece_bytes, pieces);
  }
  std::vector<std::uint32_t> sums(pieces.size());
  penstock_status status{};
  {
    const NoGil no_gil;
    for (const Memory& memory : memories) wait_for_order(memory);
    status = session.engine().crc32c_vector(session.raw(), pieces.data(), static_cast<std::uint32_t>(pieces.size()),
                                            sums.data());
  }
  check(status);
  return sums;
}

PendingChecksums::PendingChecksums(std::shared_ptr<SessionHandle> session, const std::vector<nb::object>& objects,
                                   std::uint64_t piece_bytes, nb::handle stream, bool hashed)
    : session_(std::move(session)) {
  check_piece(piece_bytes);
  std::vector<iovec> pieces;
  std::optional<std::uint64_t> order;
  for (const nb::object& object : objects) {
    const Memory& memory = memories_.emplace_back(object, Memory::Access::read_only, stream);
    if (hashed) {
      pieces.push_back({memory.data(), memory.size()});
    } else {
      add_pieces(memory, piece_bytes, pieces);
    }
    if (!memory.is_device()) continue;
    const std::uint64_t its = memory.order().is_given ? memory.order().stream : order.value_or(0);
    if (its != order.value_or(its)) raise_value_error("the buffers belong to different streams: expected one");
    order = its;
  }
  sums_.resize(pieces.size());
  hashes_.resize(hashed ? pieces.size() : 0);
  const auto begin = hashed ? session_->engine().fingerprints_begin : session_->engine().crc32c_begin;
  penstock_status status{};
  {
    const NoGil no_gil;
    status = begin(session_->raw(), pieces.data(), static_cast<std::uint32_t>(pieces.size()),
                   reinterpret_cast<void*>(order.value_or(0)), &raw_);
  }
  check(status);
}

PendingChecksums::~PendingChecksums() {
  if (raw_ != nullptr && !is_ending()) (void)end(nullptr, nullptr);
}

penstock_status PendingChecksums::end(std::uint32_t* sums, std::uint64_t* hashes) {
  const NoGil no_gil;
  return session_->engine().fingerprints_end(std::exchange(raw_, nullptr), sums, hashes);
}

const std::vector<std::uint32_t>& PendingChecksums::result() {
  if (raw_ != nullptr) {
    ended_ = end(sums_.data(), hashes_.empty() ? nullptr : hashes_.data());
    memories_.clear();
  }
  check(ended_);
  return sums_;
}

std::vector<std::pair<std::uint32_t, std::uint64_t>> PendingFingerprints::result() {
  const std::vector<std::uint32_t>& sums = PendingChecksums::result();
  std::vector<std::pair<std::uint32_t, std::uint64_t>> found;
  for (std::size_t i = 0; i < sums.size(); ++i) found.emplace_back(sums[i], hashes_[i]);
  return found;
}

std::uint32_t crc32c_of_all(const std::vector<std::pair<std::uint32_t, std::uint64_t>>& pieces) {
  core::Crc32cCombiner combine;
  std::uint32_t whole = 0;
  for (const auto& [sum, bytes] : pieces) whole = combine(whole, sum, bytes);
  return whole;
}

}  // namespace penstock::python
