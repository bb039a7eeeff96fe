// SPDX-License-Identifier: Apache-2.0

// The proof that bench moved the right bytes: checks that a file holds bench's content at all, and reads back the bytes
// of a write job. Throws a Failure that names the first wrong byte.
#pragma once

#include "tools/common/job.h"

namespace penstock::tools {

// Reads three blocks of the range with pread(2). Throws if none of them holds the content: then the file was not
// written by `bench --rw write --verify` with this seed, and differences would say nothing about Penstock.
void require_content(int fd, const std::string& path, const Range& range, const Content& content, std::uint64_t seed);

// Reads every block that is set in job.written through the job's session, file and memory. The job has one file.
// Returns the number of bytes compared.
std::uint64_t read_back(const Job& job);

}  // namespace penstock::tools
