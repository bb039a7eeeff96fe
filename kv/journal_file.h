// SPDX-License-Identifier: Apache-2.0

// Reads a journal's file, whatever somebody has put in its place.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "kv/drive.h"

namespace penstock::kv {

constexpr std::uint64_t kJournalMost = std::uint64_t{4} << 30;

// What it has from that offset on, a multiple of kRecordBytes, up to a place behind which nobody replays it: what is no
// record ends a replay, so a long hole is not read. Nothing where there is no such file. Fails with EFBIG, with nothing
// read, where it is longer than any store's, and as open_regular() does.
core::Result<Drive::Journal> read_journal_file(const std::string& path, std::uint64_t offset);

}  // namespace penstock::kv
