// SPDX-License-Identifier: Apache-2.0

// Opens files for the sub-commands: regular files and block devices only, without ever waiting for the other end of a
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

// Thrown if the file cannot be opened with O_DIRECT.
class DirectRefused : public Failure {
 public:
  using Failure::Failure;
};

// Opens a file. `flags` are those of open(2); `mode` counts if they hold O_CREAT. Use O_EXCL without O_CREAT to write
// to a block device: it refuses one that is in use.
OpenFile open_file(const std::string& path, int flags, mode_t mode = 0644);

// Reads a file to its end, or its first `size_max` bytes and one more, which shows that it is larger. "-" is standard
// input.
std::string read_bounded(const std::string& path, std::size_t size_max);

// Fills `bytes` from the offset on, up to the end of the file. Returns how many bytes it filled.
std::size_t read_at(int fd, const std::string& path, std::span<std::byte> bytes, std::uint64_t offset);
void write_at(int fd, const std::string& path, std::span<const std::byte> bytes, std::uint64_t offset);  // Writes all.

std::uint64_t room_in(const std::string& folder);  // Bytes that this user may still write.
bool exists(const std::string& path);              // True for anything of that name, also a dangling link.

// warm_cache() reads the range, which puts it into the page cache; drop_cache() writes the file down and takes it out.
// Both only ask the kernel, which may do otherwise.
void warm_cache(const std::string& path, std::uint64_t offset, std::uint64_t size);
void drop_cache(const OpenFile& file);

// ---- The files that the words of a command line mean

constexpr std::size_t kFilesMost = 10'000;  // The limit below one folder, and for one pattern.

// Thrown for a folder or pattern with more files than that.
struct TooManyFiles : Failure {
  TooManyFiles(const std::string& word, std::string one);
  std::string one;  // A file of them.
};

// Finds the files that the words mean. A folder means the regular files below it, sorted by name; links to other
// folders are not followed. A word that names no file but contains *, ? or [ means what a shell would make of it. Any
// other word means itself. A folder without files or with too many, and a pattern that matches nothing, are Failures.
std::vector<std::string> files_of(const std::vector<std::string>& words);

}  // namespace penstock::tools
