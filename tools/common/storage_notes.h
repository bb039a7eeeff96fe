// SPDX-License-Identifier: Apache-2.0

// What no try on a file can show of the storage under it, for `penstock explain` and `penstock odirect`: caches besides
// the page cache, data within messages of a network file system, who allocates, what is done to the bytes on their
// way, and when a write is safe. What this client shows is read; of the rest it is said who can tell, by which command.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/context.h"
#include "tools/common/page.h"
#include "topology/block_device.h"
#include "topology/mounts.h"
#include "topology/root.h"

namespace penstock::tools {

// Topics are stable: "server", "cache", "inline", "allocation", "transforms", "replication".
struct StorageNote {
  const char* topic = "";
  const char* section = "";  // Of NVIDIA's O_DIRECT guide.
  std::string text;          // Without a capital and a full stop.
  std::string ask;           // The command that tells more, and where; may be empty.
  std::string source;        // Who says so, where it is not this machine.
};
using StorageNotes = std::vector<StorageNote>;

// None for a local file system straight on a drive: there a try shows everything.
StorageNotes storage_notes(const core::Root& root, const std::optional<core::Mount>& mount,
                           const std::optional<core::BlockDevice>& stack);

void print_notes(const StorageNotes& notes, Page& page);
Json notes_json(const StorageNotes& notes);

}  // namespace penstock::tools
