// SPDX-License-Identifier: Apache-2.0

// The bytes of a read that its stream copies out of the page cache by itself (PathHooks::lend). A StreamRequest borrows
// them from a path of the session, for the whole read or for one part after the other, and stages nothing then. The
// loan counts the reads that were lent. It gives nothing back: the path keeps the bytes as long as a request on such a
// stream is in flight. Only find_lender() may call the device; the other functions take locks of session and cache and
// make a few system calls. One thread at a time uses a loan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/stream_home.h"
#include "session/session.h"

namespace penstock::core {

class StreamLoan {
 public:
  static constexpr std::uint64_t kBytesMin = 16u * 1024 + 1;  // Shorter reads are staged, which is faster.
  static constexpr std::size_t kPiecesMax = 4096;             // The most pieces of a whole read.

  // A path that may lend streams the bytes of reads from a file into a memory, and the report of such reads.
  struct Lender {
    Path* path = nullptr;  // A path of the session; null: no path lends.
    Report report;
  };
  // Finds the lender of a request on a stream of this home. The request has the facts of its memory.
  static Lender find_lender(Session& session, const StreamHome& home, const RawRequest& request);

  // Forgets the loan before, and asks this lender from now on. Keeps its memory for the pieces.
  void reset(const Lender& lender);
  bool may_lend(std::uint64_t size) const { return lender_.path != nullptr && size >= kBytesMin; }
  // Borrows the whole read in pieces. False if a part of it is not lent: then nothing is borrowed or counted, and the
  // lender is not told of the read.
  bool borrow_whole(Session& session, const RawRequest& read);
  bool has_whole() const { return !pieces_.empty(); }
  // Queues copies of the whole read on its stream, which has done its earlier work.
  Status copy(StreamWork& work, void* stream, const StreamBlock& block, const RawRequest& read) const;
  // Borrows a part of a read, for which may_lend() is true. Null if it is not lent in one piece: then it has to be
  // staged. The lender is told of the part either way.
  const std::byte* borrow_part(Session& session, const RawRequest& part);
  // The outcome of so many bytes that were lent.
  Outcome outcome_of(std::uint64_t bytes) const;

 private:
  bool borrow_pieces(Session& session, RawRequest rest);
  std::span<const std::byte> lend(Session& session, const RawRequest& read) const;
  void before_move(Session& session, const RawRequest& read) const;
  void count(Session& session, const RawRequest& read) const;

  Lender lender_;
  std::vector<std::span<const std::byte>> pieces_;  // The whole read in order, or nothing.
};

}  // namespace penstock::core
