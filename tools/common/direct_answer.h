// SPDX-License-Identifier: Apache-2.0

// The part of `penstock explain` about p2pdma: how a file is stored, and the obstacles between it and device memory, on
// this machine or on a captured one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/context.h"
#include "tools/common/storage_notes.h"
#include "topology/direct_file.h"
#include "topology/peer_route.h"

namespace penstock::tools {

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

// Examines an open file of this machine.
DirectAnswer ask_direct(int fd, const DirectQuestion& question);
// Examines `path` on a captured machine, by its absolute name there. Throws a Failure (exit code 2) if it is not found.
DirectAnswer ask_captured(const core::Root& root, const core::PeerMachine& machine, const std::string& path,
                          const DirectQuestion& question);

std::string direct_text(const DirectAnswer& answer, const DirectQuestion& question);
Json direct_json(const DirectAnswer& answer);
// A block device as JSON, with all that is below it.
Json stack_json(const core::BlockDevice& device);

}  // namespace penstock::tools
