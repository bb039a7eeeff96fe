// SPDX-License-Identifier: Apache-2.0

// Vectored requests: one range of a file, without a gap, over several pieces of memory, which may be of different
// kinds. If the pieces are memory of one device and the path can take them together (PathTraits::gathers), they are
// moved as one request. Otherwise each piece is moved by itself, and they come to one outcome (parts_progress.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "core/memory.h"
#include "frontend/executor.h"
#include "frontend/parts_progress.h"
#include "session/session.h"

namespace penstock::core {

inline constexpr std::size_t kPiecesMax = 1024;  // The limit of Linux's readv().

// Gives the request the size of its pieces, or fails if it is no valid request. Its base is ignored.
Status admit_pieces(RawRequest& request, std::span<const MemoryPiece> pieces);

// Moves the pieces as one request, or one after the other until one comes out short.
Outcome transfer_vectored(Session& session, RawRequest request, std::span<const MemoryPiece> pieces);

// A vectored request that the executor carries out. At its job's turn it is moved as one, or the pieces enter the run
// queue, each as a job of its own; when all have ended, the job is completed with their common outcome.
class VectoredJob {
 public:
  // The request was admitted and is not empty. The pieces are copied. From now on the executor carries out the parts in
  // place of the job, until this object is destroyed, in whole.complete() at the earliest.
  VectoredJob(Executor& executor, Job& whole, std::span<const MemoryPiece> pieces);
  ~VectoredJob() {
    whole_.parts = {};
    whole_.pieces = {};
  }
  VectoredJob(const VectoredJob&) = delete;
  VectoredJob& operator=(const VectoredJob&) = delete;

 private:
  struct Part final : Job {
    void complete(const Outcome& outcome) override { vectored->complete(*this, outcome); }
    VectoredJob* vectored = nullptr;
    Part* next = nullptr;  // It must not begin before this one has ended.
  };

  void complete(Part& part, const Outcome& outcome);

  Executor& executor_;
  Job& whole_;
  std::vector<MemoryPiece> pieces_;
  std::vector<Part> parts_;
  std::vector<Job*> first_;  // The pieces that wait for no other.
  Mutex mutex_;
  PartsProgress progress_ GUARDED_BY(mutex_);
};

}  // namespace penstock::core
