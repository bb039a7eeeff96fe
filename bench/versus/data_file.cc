// SPDX-License-Identifier: Apache-2.0

#include "bench/versus/data_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/printable.h"
#include "base/unique_fd.h"
#include "bench/versus/failure.h"

namespace penstock::versus {
namespace {

constexpr std::size_t kStep = std::size_t{4} << 20;
constexpr std::size_t kPage = 4096;

core::UniqueFd opened(const std::string& path, int flags) {
  return core::UniqueFd(::open(path.c_str(), flags | O_CLOEXEC, 0644));
}

// splitmix64: fast, and no two words are equal.
void fill(std::vector<std::uint64_t>& words, std::uint64_t& state) {
  for (std::uint64_t& word : words) {
    std::uint64_t x = state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    word = x ^ (x >> 31);
  }
}

void write_all(int fd, const std::string& path, std::uint64_t size) {
  std::vector<std::uint64_t> words(kStep / sizeof(std::uint64_t));
  std::uint64_t state = std::hash<std::string>{}(path);
  for (std::uint64_t at = 0; at < size; at += kStep) {
    fill(words, state);
    const std::size_t step = std::min<std::uint64_t>(kStep, size - at);
    if (::pwrite(fd, words.data(), step, static_cast<off_t>(at)) != static_cast<ssize_t>(step)) {
      fail_errno(path, "write it");
    }
  }
  if (::fsync(fd) != 0) fail_errno(path, "flush it");
}

void read_all(int fd, const std::string& path, std::uint64_t size) {
  std::vector<char> bytes(kStep);
  for (std::uint64_t at = 0; at < size; at += kStep) {
    const std::size_t step = std::min<std::uint64_t>(kStep, size - at);
    if (::pread(fd, bytes.data(), step, static_cast<off_t>(at)) != static_cast<ssize_t>(step)) {
      throw Failure(path + ": it has fewer than " + std::to_string(size) + " bytes; give --size, or another file");
    }
  }
}

std::size_t pages_in_cache(int fd, std::size_t size) {
  void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (mapping == MAP_FAILED) return 0;
  std::vector<unsigned char> resident((size + kPage - 1) / kPage);
  const bool known = ::mincore(mapping, size, resident.data()) == 0;
  ::munmap(mapping, size);
  if (!known) return 0;
  return static_cast<std::size_t>(
      std::count_if(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) != 0; }));
}

}  // namespace

DataFile::DataFile(std::string path, std::uint64_t size) : path_(std::move(path)) {
  if (const core::UniqueFd there = opened(path_, O_RDONLY); there.get() >= 0) {
    read_all(there.get(), path_, size);
    return;
  }
  std::fprintf(stderr, "versus: making %s, %llu MiB\n", core::printable(path_).c_str(),
               static_cast<unsigned long long>(size >> 20));
  const core::UniqueFd fresh = opened(path_, O_RDWR | O_CREAT | O_EXCL);
  if (fresh.get() < 0) fail_errno(path_, "make it");
  made_ = true;
  try {
    write_all(fresh.get(), path_, size);
  } catch (...) {
    ::unlink(path_.c_str());
    throw;
  }
}

DataFile::~DataFile() {
  if (made_) ::unlink(path_.c_str());
}

ScratchFile::ScratchFile(std::string path) : path_(std::move(path)) {
  if (::access(path_.c_str(), F_OK) == 0) throw Failure(path_ + ": it is in the way; move it or choose another FILE");
}

ScratchFile::~ScratchFile() { ::unlink(path_.c_str()); }

void drop_from_cache(const std::string& path) {
  const core::UniqueFd file = opened(path, O_RDONLY);
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) fail_errno(path, "open it");
  const int error = ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  const auto size = static_cast<std::size_t>(status.st_size);
  const std::size_t pages = size / kPage, left = size > 0 ? pages_in_cache(file.get(), size) : 0;
  if (error == 0 && left <= pages / 100) return;
  std::fprintf(stderr, "versus: %s: %zu of %zu pages stayed in the page cache: not cold\n",
               core::printable(path).c_str(), left, pages);
}

}  // namespace penstock::versus
