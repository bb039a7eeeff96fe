// SPDX-License-Identifier: Apache-2.0

// Vectored requests: one range of a file, without a gap, over several pieces of memory, which may be of different
// kinds. Where they are memory of one device, and the path takes such (PathTraits::gathers), they are moved as one
// request is. Else each goes by itself, and they come to one outcome: bytes are counted from the start of the range up
// to the first piece that came out short or failed, and it is the first failure in the file's order that counts.
//
// Bytes around the page cache and bounced bytes are those of all pieces together. Path and reasons are the first
// piece's. Where a later one went by bounce and the first did not, its bytes count as bounced; so nobody takes the
// request for more direct than it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "core/memory.h"
#include "engine/progress.h"
#include "frontend/executor.h"
#include "session/session.h"

namespace penstock::core {

inline constexpr std::size_t kPiecesMax = 1024;  // The limit of Linux's readv().

// Gives the request the size of its pieces, or says why there can be no such request. Its base does not count.
Status admit_pieces(RawRequest& request, std::span<const MemoryPiece> pieces);

// Moves them as one request, or one piece after the other, until one comes out short.
Outcome transfer_vectored(Session& session, RawRequest request, std::span<const MemoryPiece> pieces);

// How far the pieces came, over in any order. Used by one thread at a time.
class PiecesProgress {
 public:
  explicit PiecesProgress(const RawRequest& whole)
      : progress_(static_cast<std::uint64_t>(whole.file_offset), whole.size) {}

  void take_in(const RawRequest& piece, Outcome outcome);
  bool goes_on() const { return progress_.goes_on(); }
  Outcome outcome() const;

 private:
  Progress progress_;
  Report first_;  // The first piece's report.
};

// A vectored request that the executor carries out: when it is its job's turn, it is moved as one; or the pieces get in
// line, each as a job of its own, and when all are over, the job is finished with what they came to.
class VectoredJob {
 public:
  // The request was admitted and is not empty. The pieces are copied. Until this is destroyed, in whole.finish() at the
  // earliest, the executor takes its parts for the job.
  VectoredJob(Executor& executor, Job& whole, std::span<const MemoryPiece> pieces);
  ~VectoredJob() {
    whole_.parts = {};
    whole_.pieces = {};
  }
  VectoredJob(const VectoredJob&) = delete;
  VectoredJob& operator=(const VectoredJob&) = delete;

 private:
  struct Part final : Job {
    void finish(const Outcome& outcome) override { vectored->settle(*this, outcome); }
    VectoredJob* vectored = nullptr;
    Part* next = nullptr;  // Not to be begun before this one is over.
  };

  void settle(Part& part, const Outcome& outcome);

  Executor& executor_;
  Job& whole_;
  std::vector<MemoryPiece> pieces_;
  std::vector<Part> parts_;
  std::vector<Job*> first_;  // The pieces that no other comes before.
  Mutex mutex_;
  std::size_t unfinished_ GUARDED_BY(mutex_) = 0;
  PiecesProgress progress_ GUARDED_BY(mutex_);
};

}  // namespace penstock::core
