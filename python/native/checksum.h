// SPDX-License-Identifier: Apache-2.0

// CRC32C of Python objects in host or device memory.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "python/native/session.h"

namespace penstock::python {

// Returns the checksum of each `piece_bytes` of the object's memory (the last piece may be shorter); an empty list for
// no bytes. For host memory without a session.
std::vector<std::uint32_t> crc32c(nanobind::handle object, std::uint64_t piece_bytes);
std::vector<std::uint32_t> crc32c_by(const SessionHandle& session, nanobind::handle object, std::uint64_t piece_bytes,
                                     nanobind::handle stream);
// Does the same for several objects, and returns their checksums one after the other. A device computes
// those of its memory in few launches.
std::vector<std::uint32_t> crc32c_vector_by(const SessionHandle& session, const std::vector<nanobind::object>& objects,
                                            std::uint64_t piece_bytes, nanobind::handle stream);
// Combines the checksums of adjacent pieces, given as (checksum, bytes) in order; 0 for no pieces.
std::uint32_t crc32c_of_all(const std::vector<std::pair<std::uint32_t, std::uint64_t>>& pieces);

}  // namespace penstock::python
