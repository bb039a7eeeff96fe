// SPDX-License-Identifier: Apache-2.0

// How one file is stored, and the obstacles between it and device memory, on this machine or on a captured one: for
// `penstock explain`, `check --try` and `stats --odirect`. It looks at the file, and moves none of its bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "facts/storage_notes.h"
#include "topology/direct_file.h"
#include "topology/peer_route.h"

namespace penstock::facts {

struct DirectQuestion {
  core::Op op = core::Op::read;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;  // 0: the file as a whole, no single request.
  std::string peer;        // A PCI address; "" for every device that may offer memory.
};

struct DirectAnswer {
  core::DirectFile file;
  core::DirectFileReport report;
  core::Findings request;               // The findings about the range that was asked for.
  std::vector<core::PeerRoute> routes;  // One for each device; if there is no device, one for any ("").
  std::optional<core::BlockDevice> stack;
  StorageNotes notes;  // Facts that a look at the file does not show.
};

// Examines an open file of this machine. Fails if it cannot be looked at.
core::Result<DirectAnswer> stored_file(int fd, const DirectQuestion& question);
// Examines `path` on a captured machine, by its absolute name there.
DirectAnswer captured_stored_file(const core::Root& root, const core::PeerMachine& machine, const std::string& path,
                                  const DirectQuestion& question);

// The mount and the drives that hold a folder's files, by its absolute name; no mount if none is known.
struct Holder {
  std::optional<core::Mount> mount;
  std::optional<core::BlockDevice> stack;
};
Holder holder_of(const core::Root& root, const std::string& folder);

// Reads the facts of an open file; all are unknown if it cannot be looked at.
core::DirectFile file_facts(int fd);

// Judges files of this machine, many by facts that are read once.
class FileJudge {
 public:
  explicit FileJudge(core::Root root) : root_(std::move(root)), mounts_(core::MountTable::read(root_)) {}
  // The first certain reason for which the CPU moves the bytes of reads; nothing if there is none.
  std::optional<core::Finding> moved_by_cpu(int fd) const;
  const std::vector<core::Mount>& mounts() const { return mounts_.mounts(); }

 private:
  core::Root root_;
  core::MountTable mounts_;
};

}  // namespace penstock::facts
