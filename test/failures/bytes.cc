// SPDX-License-Identifier: Apache-2.0

#include "failures/bytes.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "failures/jobs.h"

namespace penstock::failures {
namespace {

std::string of_jobs;
alignas(4096) char all_memory[kFileBytes + 4096];

}  // namespace

const std::string& folder() { return of_jobs; }

char byte_at(std::size_t offset) { return static_cast<char>(offset * 2654435761u >> 13); }

void require_bytes(const char* bytes, std::size_t offset, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    if (bytes[i] == byte_at(offset + i)) continue;
    std::fprintf(stderr, "failures: byte %zu is wrong\n", offset + i);
    ::_exit(kWrongByte);
  }
}

char* fresh_memory() {
  std::memset(all_memory, '?', sizeof all_memory);
  return all_memory;
}

const char* bytes_to_write() {
  static char bytes[kWriteBytes];
  for (std::size_t i = 0; i < sizeof bytes; ++i) bytes[i] = byte_at(kWriteBegin + i);
  return bytes;
}

void wipe(int fd) {
  static const char nothing[kWriteBytes] = {};
  (void)!::pwrite(fd, nothing, sizeof nothing, kWriteBegin);
}

void require_written(int fd) {
  static char bytes[kWriteBytes];
  const ssize_t got = ::pread(fd, bytes, sizeof bytes, kWriteBegin);
  if (got > 0) require_bytes(bytes, kWriteBegin, static_cast<std::size_t>(got));
}

int make_file(const std::string& folder) {
  of_jobs = folder;
  std::string name = folder + "/penstock_failures_XXXXXX";
  const int fd = ::mkstemp(name.data());
  if (fd < 0) return -1;
  ::unlink(name.c_str());
  for (std::size_t i = 0; i < kFileBytes; ++i) all_memory[i] = byte_at(i);
  return ::pwrite(fd, all_memory, kFileBytes, 0) == static_cast<ssize_t>(kFileBytes) ? fd : -1;
}

}  // namespace penstock::failures
