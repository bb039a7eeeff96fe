// SPDX-License-Identifier: Apache-2.0

// Files as the sub-commands open them: regular files and block devices only, never waiting for the other end of a
// pipe. Failures are thrown as one sentence that begins with the path.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "tools/common/failure.h"

namespace penstock::tools {

using core::UniqueFd;

struct OpenFile {
  std::string path;
  UniqueFd fd;
  struct stat facts {};
  std::uint64_t size = 0;  // Bytes; a block device's capacity.

  bool is_block_device() const { return S_ISBLK(facts.st_mode); }
};

// O_DIRECT is not for this file.
class DirectRefused : public Failure {
 public:
  using Failure::Failure;
};

// flags as of open(2); mode counts where they hold O_CREAT. O_EXCL without O_CREAT refuses a block device that is in
// use, and is for whoever writes.
OpenFile open_file(const std::string& path, int flags, mode_t mode = 0644);

// All of a file, or its first `size_max` bytes and one more, which tells that it is larger. "-" is standard input.
std::string read_bounded(const std::string& path, std::size_t size_max);

// Fills `bytes` from the offset on, as far as the file goes. Returns how many it filled.
std::size_t read_at(int fd, const std::string& path, std::span<std::byte> bytes, std::uint64_t offset);

std::uint64_t room_in(const std::string& folder);  // Bytes that this user may still write.
bool exists(const std::string& path);              // Whatever it is, also a dangling link.

// Puts the range into the page cache by reading it, or takes the file out of it after writing it down: both only ask
// the kernel, which may do otherwise.
void warm_cache(const std::string& path, std::uint64_t offset, std::uint64_t size);
void drop_cache(const OpenFile& file);

// ---- The files that the words of a command line mean

constexpr std::size_t kFilesMost = 10'000;  // Below one folder, or of one pattern.

// A folder means the regular files below it, in order of their names, by no link to another folder; a word that is no
// file's name, but has *, ? or [ in it, means what a shell would make of it; any other word means itself. A folder
// without files, or with too many, and a pattern that nothing matches, are Failures.
std::vector<std::string> files_of(const std::vector<std::string>& words);

}  // namespace penstock::tools
