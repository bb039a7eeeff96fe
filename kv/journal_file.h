// SPDX-License-Identifier: Apache-2.0

// Reads a journal's file, whatever a user has put in its place.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "kv/drive.h"

namespace penstock::kv {

constexpr std::uint64_t kJournalMost = std::uint64_t{4} << 30;

// Reads from that offset on, a multiple of kRecordBytes, up to a place behind which no replay goes: bytes that are no
// record end a replay, so a long hole is not read. Nothing if there is no such file. Fails with EFBIG, with nothing
// read, if it is longer than any store's, and as open_regular() does.
core::Result<Drive::Journal> read_journal_file(const std::string& path, std::uint64_t offset);

}  // namespace penstock::kv
