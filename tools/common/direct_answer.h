// SPDX-License-Identifier: Apache-2.0

// The part of `penstock explain` about p2pdma: how a file is stored, and the obstacles between it and device memory, on
// this machine or on a captured one.
#pragma once

#include <string>

#include "facts/stored_file.h"
#include "tools/common/context.h"
#include "tools/common/page.h"

namespace penstock::tools {

using facts::DirectAnswer;
using facts::DirectQuestion;

// Examines an open file of this machine. Throws a Failure if it cannot be looked at.
DirectAnswer ask_direct(int fd, const DirectQuestion& question);
// Examines `path` on a captured machine, by its absolute name there. Throws a Failure (exit code 2) if it is not found.
DirectAnswer ask_captured(const core::Root& root, const core::PeerMachine& machine, const std::string& path,
                          const DirectQuestion& question);

std::string direct_text(const DirectAnswer& answer, const DirectQuestion& question);
Json direct_json(const DirectAnswer& answer);
// A block device as JSON, with all that is below it.
Json stack_json(const core::BlockDevice& device);
// The facts that no try on a file shows.
void print_notes(const facts::StorageNotes& notes, Page& page);
Json notes_json(const facts::StorageNotes& notes);

}  // namespace penstock::tools
