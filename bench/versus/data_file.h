// SPDX-License-Identifier: Apache-2.0

// The measured files: filled with unpredictable bytes, loaded into the page cache or dropped from it, and removed at
// the end if they were created here.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::versus {

class DataFile {
 public:
  // Creates the file if it does not exist, and then removes it at the end. An existing file is only read, and must have
  // `size` bytes. Either way it is in the page cache and on storage afterwards.
  DataFile(std::string path, std::uint64_t size);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  bool made_ = false;
};

// A name for a file that does not exist yet; a file of that name is removed at the end.
class ScratchFile {
 public:
  explicit ScratchFile(std::string path);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// Asks the kernel to drop the file's pages, and warns on stderr if more than a few remain. The file must be clean.
void drop_from_cache(const std::string& path);

}  // namespace penstock::versus
