// SPDX-License-Identifier: Apache-2.0

// Reads a journal's file safely, also if a user has put something else in its place.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "kv/volume.h"

namespace penstock::kv {

constexpr std::uint64_t kJournalMost = std::uint64_t{4} << 30;

// Reads from `offset` on, a multiple of kRecordBytes, up to the first bytes that are no record, which end a replay: so
// a long hole is not read. Empty if there is no such file. Fails with EFBIG, without reading, if it is longer than any
// store's journal, and like open_regular().
core::Result<Volume::Journal> read_journal_file(const std::string& path, std::uint64_t offset);

}  // namespace penstock::kv
