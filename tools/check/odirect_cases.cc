// SPDX-License-Identifier: Apache-2.0

#include "tools/check/odirect_cases.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/common/residency.h"

namespace penstock::tools {
namespace {

using Told = Case::Told;

constexpr std::uint64_t kSize = 8 << 20;
// The count of dirtied pages is the machine's: writes of other programs make a direct one look cached.
constexpr int kTries = 6;

std::uint64_t next_seed() {
  static std::uint64_t seed = 0;
  return ++seed;
}

Told absent(const std::string& why) { return {Verdict::absent, why}; }

Told told_of(const DirectTry& moved, std::uint64_t size, const std::string& note = "") {
  Told told{Verdict::direct, note, moved};
  if (moved.error != 0) {
    told.verdict = Verdict::refused;
    told.note = std::strerror(moved.error);
  } else if (moved.is_wrong || moved.bytes != size) {
    told.verdict = Verdict::wrong;
    if (moved.bytes != size) told.note = fmt::format("{} of {} bytes", moved.bytes, size);
  } else if (!moved.is_cached) {
    told.verdict = Verdict::unproven;
  } else if (*moved.is_cached) {
    told.verdict = Verdict::cached;
  }
  return told;
}

// Writes, and checks that the bytes arrived.
Told write(Scratch& scratch, const Request& request, const std::string& note = "") {
  const DirectTry moved = scratch.move(request);
  Told told = told_of(moved, request.size, note);
  const bool is_done = told.verdict != Verdict::refused && told.verdict != Verdict::wrong;
  if (is_done && !scratch.is_right(request.offset, request.size)) told.verdict = Verdict::wrong;
  return told;
}

Told read_written(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  scratch.fill(0, kSize);
  return told_of(scratch.move({false, 0, kSize}), kSize);
}

Told overwrite(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  scratch.fill(0, kSize);
  return write(scratch, {true, 0, kSize});
}

Told small_requests(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  scratch.fill(0, kSize);
  return told_of(scratch.move({.size = kSize / 8, .request_bytes = 4096}), kSize / 8, "requests of 4 KiB");
}

// Behind the bytes of a request comes the content of the file's next block, so that it agrees with the check.
Told unaligned(const std::string& folder, std::uint64_t offset, std::uint64_t size, std::size_t memory_offset) {
  Scratch scratch(folder, next_seed());
  scratch.fill(0, kSize);
  const core::DirectFile facts = scratch.facts();
  std::string note;
  if (facts.direct_offset_align > 0) {
    note = fmt::format("reported: offsets and sizes by {} bytes, memory by {}", facts.direct_offset_align,
                       facts.direct_memory_align);
  }
  Told told = told_of(scratch.move({false, offset, size, memory_offset}), size, note);
  if (told.verdict == Verdict::refused && !note.empty()) told.note += "; " + note;
  return told;
}

Told unaligned_offset(const std::string& folder) { return unaligned(folder, 512, kSize / 8, 0); }
Told unaligned_size(const std::string& folder) { return unaligned(folder, 0, 5000, 0); }
Told unaligned_memory(const std::string& folder) { return unaligned(folder, 0, kSize / 8, 512); }

Told files_end(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  scratch.fill(0, kSize + 100);
  // The request asks for a whole block, and gets the part of it that the file has.
  const DirectTry moved = scratch.move({false, kSize, 4096});
  return told_of(moved, 100, "the last, partial block");
}

Told inline_file(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  scratch.fill(0, 60);
  if (scratch.facts().extents.inline_bytes == 0) return absent("a file of 60 bytes has a block of its own");
  return told_of(scratch.move({false, 0, 4096}), 60, "60 bytes in the inode");
}

Told extending_write(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  return write(scratch, {true, 0, kSize});
}

Told preallocated_write(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  if (fallocate(scratch.fd(), 0, 0, static_cast<off_t>(kSize)) != 0) {
    return absent(fmt::format("it does not preallocate: {}", std::strerror(errno)));
  }
  return write(scratch, {true, 0, kSize});
}

Told filling_a_hole(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  scratch.resize(2 * kSize);
  return write(scratch, {true, 0, kSize});
}

Told reading_a_hole(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  scratch.resize(kSize);
  return told_of(scratch.move({false, 0, kSize}, true), kSize);
}

Told delayed_read(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  scratch.fill_cache(0, kSize);  // Nothing of it has a place on the drive yet.
  Told told = told_of(scratch.move({false, 0, kSize}), kSize, "dirty pages are written first");
  if (told.verdict == Verdict::cached) told.note.clear();
  return told;
}

Told cached_write(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  scratch.fill_cache(0, kSize);
  fsync(scratch.fd());
  const std::uint64_t before = cached_bytes(scratch.fd()).value_or(0);
  Told told = write(scratch, {true, 0, kSize});
  if (told.verdict == Verdict::direct && before > 0) told.note = "pages that are cached are dropped";
  return told;
}

Told read_ahead(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  scratch.fill(0, 2 * kSize);
  const Block block(64 << 10);
  for (std::uint64_t at = 0; at < kSize; at += block.size()) {  // Reads in sequence, through the page cache.
    if (pread(scratch.fd(), block.data(), block.size(), static_cast<off_t>(at)) <= 0) return absent("it was not read");
  }
  const std::uint64_t ahead = cached_bytes(scratch.fd(), kSize, kSize).value_or(0);
  return told_of(scratch.move({false, kSize, kSize}), kSize,
                 fmt::format("{} KiB ahead were in the page cache", ahead >> 10));
}

Told shared_blocks(const std::string& folder) {
  Scratch origin(folder, next_seed()), clone(folder, next_seed());
  origin.fill(0, kSize);
  if (ioctl(clone.fd(), FICLONE, origin.fd()) != 0) {
    return absent(fmt::format("it shares no blocks between files: {}", std::strerror(errno)));
  }
  Told told = write(clone, {true, 0, kSize});
  if (!origin.is_right(0, kSize)) told.verdict = Verdict::wrong;
  return told;
}

// Sets a flag of chattr on the file; false if the file system has no such flag.
bool set_flag(const Scratch& scratch, int flag) {
  int flags = 0;
  if (ioctl(scratch.fd(), FS_IOC_GETFLAGS, &flags) != 0) return false;
  flags |= flag;
  if (ioctl(scratch.fd(), FS_IOC_SETFLAGS, &flags) != 0) return false;
  return ioctl(scratch.fd(), FS_IOC_GETFLAGS, &flags) == 0 && (flags & flag) != 0;
}

Told journaled_data(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  if (!set_flag(scratch, FS_JOURNAL_DATA_FL)) return absent("no file's data can go through a journal (chattr +j)");
  scratch.fill(0, kSize);
  return write(scratch, {true, 0, kSize});
}

Told compressed(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  if (!set_flag(scratch, FS_COMPR_FL)) return absent("it compresses no files (chattr +c)");
  scratch.resize(kSize);
  const Block zeros(kSize);
  std::memset(zeros.data(), 0, kSize);
  if (pwrite(scratch.fd(), zeros.data(), kSize, 0) != static_cast<ssize_t>(kSize)) return absent("it has no room");
  scratch.forget();
  if (scratch.facts().extents.encoded_bytes == 0) return absent("what was written was stored uncompressed");
  return told_of(scratch.move({false, 0, kSize}, true), kSize);
}

Told encrypted(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  scratch.fill(0, kSize);
  if (scratch.facts().is_encrypted != core::Tristate::yes) return absent("files in this folder are not encrypted");
  return write(scratch, {true, 0, kSize});
}

Told without_checksums(const std::string& folder) {
  Scratch scratch(folder, next_seed());
  if (!set_flag(scratch, FS_NOCOW_FL)) return absent("no file can be taken out of checksums (chattr +C)");
  scratch.fill(0, kSize);
  return write(scratch, {true, 0, kSize});
}

constexpr const char* kDirect = "direct";
constexpr const char* kMaybe = "may be buffered";
constexpr const char* kBuffered = "buffered";

constexpr Case kCases[] = {
    {"read", "2.1", "read blocks that are written", kDirect, read_written},
    {"overwrite", "2.1", "write blocks that are written", kDirect, overwrite},
    {"small_requests", "2.3", "read by small requests", kMaybe, small_requests},
    {"unaligned_offset", "", "read from byte 512 on", "", unaligned_offset},
    {"unaligned_size", "", "read 5000 bytes", "", unaligned_size},
    {"unaligned_memory", "", "read into memory off a page by 512", "", unaligned_memory},
    {"file_end", "", "read the file's end", "", files_end},
    {"inline_data", "2.3.2", "read a file that is in its inode", kBuffered, inline_file},
    {"extending_write", "2.3.3", "write behind the file's end", kMaybe, extending_write},
    {"preallocated_write", "2.3.3", "write blocks that are allocated, not written", kMaybe, preallocated_write},
    {"hole_write", "2.3.3", "fill a hole", kMaybe, filling_a_hole},
    {"hole_read", "", "read a hole", "", reading_a_hole},
    {"shared_blocks", "2.3.3", "write blocks that another file shares (copy on write)", kMaybe, shared_blocks},
    {"delayed_allocation", "2.3.3", "read what waits in the page cache for its place", kMaybe, delayed_read},
    {"cached_blocks", "2.3.1", "write blocks that are in the page cache", kMaybe, cached_write},
    {"read_ahead", "2.3", "read where read-ahead was before", kMaybe, read_ahead},
    {"data_journal", "2.3.4", "write a file whose data is journaled", kBuffered, journaled_data},
    {"compression", "2.3.4", "read a compressed file", kBuffered, compressed},
    {"encryption", "2.3.4", "write an encrypted file", kBuffered, encrypted},
    {"no_checksums", "2.3.4", "write a file without checksums", kDirect, without_checksums},
};

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::direct: return "direct";
    case Verdict::cached: return "cached";
    case Verdict::refused: return "refused";
    case Verdict::unproven: return "unproven";
    case Verdict::absent: return "absent";
    case Verdict::wrong: break;
  }
  return "wrong";
}

Told on_buffered_loop(Told told) {
  if (told.verdict != Verdict::direct && told.verdict != Verdict::unproven) return told;
  told.verdict = Verdict::cached;
  return told;
}

std::span<const Case> odirect_cases() { return kCases; }

Told run_case(const Case& one, const std::string& folder) {
  Told told = one.run(folder);
  for (int i = 1; i < kTries && told.verdict == Verdict::cached; ++i) told = one.run(folder);
  return told;
}

}  // namespace penstock::tools
