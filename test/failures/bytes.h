// SPDX-License-Identifier: Apache-2.0

// The bytes of the jobs' file, which tell where they lie, and of what jobs write. Each job of this folder calls it.
#pragma once

#include <cstddef>
#include <string>

namespace penstock::failures {

inline constexpr std::size_t kFileBytes = 1 << 20;
inline constexpr std::size_t kWriteBegin = 600'001, kWriteBytes = 70'000;  // What jobs write, and others do not read.

// Makes a file that is gone when its descriptor is closed; jobs make theirs in the folder. Returns -1 if it cannot.
int make_file(const std::string& folder);
const std::string& folder();

char byte_at(std::size_t offset);
// `offset` is the file's; the bytes in memory were reported as read from there. Ends the process where they are others.
void require_bytes(const char* bytes, std::size_t offset, std::size_t size);
// kFileBytes and a page, aligned to a page, without a byte of the file. Always the same memory.
char* fresh_memory();
// kWriteBytes of them.
const char* bytes_to_write();
// Before a write, so that one which is lost is seen. It may fail itself.
void wipe(int fd);
void require_written(int fd);

}  // namespace penstock::failures
