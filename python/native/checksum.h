// SPDX-License-Identifier: Apache-2.0

// CRC32C of Python objects in host or device memory.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "python/native/memory.h"
#include "python/native/session.h"

namespace penstock::python {

// Returns the checksum of each `piece_bytes` of the object's memory (the last piece may be shorter); an empty list for
// no bytes. For host memory without a session.
std::vector<std::uint32_t> crc32c(nanobind::handle object, std::uint64_t piece_bytes);
// Returns CRC32C and Hash64 of all bytes of an object in host memory.
std::pair<std::uint32_t, std::uint64_t> fingerprint(nanobind::handle object);
std::vector<std::uint32_t> crc32c_by(const SessionHandle& session, nanobind::handle object, std::uint64_t piece_bytes,
                                     nanobind::handle stream);
// Does the same for several objects, and returns their checksums one after the other. A device computes
// those of its memory in few launches.
std::vector<std::uint32_t> crc32c_vector_by(const SessionHandle& session, const std::vector<nanobind::object>& objects,
                                            std::uint64_t piece_bytes, nanobind::handle stream);

// Checksums that are made in the order of a stream, `hashed` with a second one of 64 bits. The memory stays alive until
// result(), or the end of this object.
class PendingChecksums {
 public:
  PendingChecksums(std::shared_ptr<SessionHandle> session, const std::vector<nanobind::object>& objects,
                   std::uint64_t piece_bytes, nanobind::handle stream, bool hashed = false);
  ~PendingChecksums();  // Waits as result() does. Call it with the GIL held.
  PendingChecksums(const PendingChecksums&) = delete;
  PendingChecksums& operator=(const PendingChecksums&) = delete;

  // Waits until the stream has passed. Call it with the GIL held. Later calls return the same, or raise the same error.
  const std::vector<std::uint32_t>& result();

 protected:
  std::vector<std::uint64_t> hashes_;

 private:
  penstock_status end(std::uint32_t* sums, std::uint64_t* hashes);

  const std::shared_ptr<SessionHandle> session_;
  std::vector<Memory> memories_;
  std::vector<std::uint32_t> sums_;
  penstock_checksums* raw_ = nullptr;
  penstock_status ended_{};  // The status of the call that ended them.
};

// CRC32C and Hash64 of each buffer as a whole.
class PendingFingerprints : private PendingChecksums {
 public:
  PendingFingerprints(std::shared_ptr<SessionHandle> session, const std::vector<nanobind::object>& objects,
                      nanobind::handle stream)
      : PendingChecksums(std::move(session), objects, 1, stream, true) {}
  // As PendingChecksums::result().
  std::vector<std::pair<std::uint32_t, std::uint64_t>> result();
};

// Combines the checksums of adjacent pieces, given as (checksum, bytes) in order; 0 for no pieces.
std::uint32_t crc32c_of_all(const std::vector<std::pair<std::uint32_t, std::uint64_t>>& pieces);

}  // namespace penstock::python
