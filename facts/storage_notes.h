// SPDX-License-Identifier: Apache-2.0

// Facts of a file's storage that no try on the file can show, for `penstock explain` and `penstock check --try`: caches
// besides the page cache, data within messages of a network file system, who allocates blocks, how the bytes are
// changed on their way, and when a write is safe. Facts that this client shows are read; the others come with a command
// that shows them. Pure, but for what it reads under the root.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/block_device.h"
#include "topology/mounts.h"
#include "topology/root.h"

namespace penstock::facts {

// Topics are stable: "server", "cache", "inline", "allocation", "transforms", "replication".
struct StorageNote {
  const char* topic = "";
  const char* section = "";  // The section of NVIDIA's O_DIRECT guide.
  std::string text;          // Begins in lower case, and has no full stop.
  std::string ask;           // The command that shows more, and where to run it; may be empty.
  std::string source;        // The document that says so; "" if this machine itself shows it.
};
using StorageNotes = std::vector<StorageNote>;

// No notes for a local file system straight on a drive: there a try shows everything.
StorageNotes storage_notes(const core::Root& root, const std::optional<core::Mount>& mount,
                           const std::optional<core::BlockDevice>& stack);

}  // namespace penstock::facts
