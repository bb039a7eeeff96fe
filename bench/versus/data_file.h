// SPDX-License-Identifier: Apache-2.0

// The files that are measured: made of bytes that nobody could guess, brought into the page cache or out of it, and
// taken away again where they were made here.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::versus {

class DataFile {
 public:
  // Makes the file where there is none, and takes it away at the end. One that is there is only read; it must have
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

// A name for a file that does not exist yet; whatever stands there at the end is taken away.
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

// Asks the kernel to forget the file's pages; says on stderr where it kept more than a few. The file must be clean.
void drop_from_cache(const std::string& path);

}  // namespace penstock::versus
