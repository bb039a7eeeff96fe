// SPDX-License-Identifier: Apache-2.0

// Jobs that programs do with the library, each small enough to be done thousands of times. They know what every byte
// has to be, and end the process where a call reported other bytes as moved.
#pragma once

#include <string>
#include <vector>

namespace penstock::failures {

enum : int { kWrongByte = 3 };  // The exit status of a process whose job was told a lie.

struct Job {
  const char* name;
  bool (*run)(int fd);  // True if every call succeeded. The descriptor is make_file()'s.
  unsigned files_made;  // How many files a run leaves that succeeds; one that fails leaves as many, or none.
  const char* fault;    // The fault that the job has on purpose, as it is told; null if it has none.
};

const std::vector<Job>& jobs();
// Those of modes.cc.
bool read_and_write_on_stream(int fd);
bool cancel_request(int fd);
bool use_changed_files(int fd);
bool use_two_sessions(int fd);
// chunks.cc: puts, commits and gets chunks of a KV store in this folder.
bool put_chunks(const std::string& folder);
// Jobs with faults, for a test of what looks for them.
const std::vector<Job>& faulty_jobs();

}  // namespace penstock::failures
