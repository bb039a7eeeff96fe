// SPDX-License-Identifier: Apache-2.0

#include "kv/journal_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/kept_text.h"
#include "base/regular_file.h"
#include "base/whole_transfer.h"
#include "checksum/crc32c.h"
#include "kv/format.h"

namespace penstock::kv {
namespace {

using core::Result;

constexpr std::uint64_t kStep = std::uint64_t{1} << 20;
static_assert(kStep % kRecordBytes == 0);
constexpr const char* kReadStep = "read the store's journal";

// True if a replay may continue after these bytes, which are whole steps.
bool ends_in_a_record(std::span<const std::byte> bytes) {
  return decode_record(bytes.last<kRecordBytes>()).has_value();
}

}  // namespace

Result<Volume::Journal> read_journal_file(const std::string& path, std::uint64_t offset) {
  Volume::Journal journal;
  const auto file = core::open_regular(path, O_RDONLY | O_NOFOLLOW, 0, "open the store's journal");
  if (file.status().is_errno(ENOENT)) return journal;
  if (!file.ok()) return file.status();
  journal.file_bytes = static_cast<std::uint64_t>(file->facts.st_size);
  if (journal.file_bytes > kJournalMost) {
    constexpr const char* kTooLong = "read the store's journal: it is longer than 4 GiB, as no store's is:";
    return core::os_failure(EFBIG, core::kept_text(std::string(kTooLong) + " " + path, kTooLong));
  }
  // Every rewritten journal has a different first record.
  std::byte first[kRecordBytes] = {};
  Result<std::size_t> count = core::read_all(file->fd.get(), first, 0, kReadStep);
  if (!count.ok()) return count.status();
  journal.identity = (std::uint64_t{core::crc32c(first)} << 32) ^ file->facts.st_ino;
  for (std::uint64_t at = offset; at < journal.file_bytes; at += kStep) {
    const std::size_t had = journal.bytes.size();
    journal.bytes.resize(had + std::min(kStep, journal.file_bytes - at));
    count = core::read_all(file->fd.get(), std::span(journal.bytes).subspan(had), at, kReadStep);
    if (!count.ok()) return count.status();
    journal.bytes.resize(had + *count);
    if (*count < kStep || !ends_in_a_record(journal.bytes)) break;
  }
  return journal;
}

}  // namespace penstock::kv
