// SPDX-License-Identifier: Apache-2.0

// Facts of a file's storage that no try on the file can show, for `penstock explain` and `penstock odirect`: caches
// besides the page cache, data within messages of a network file system, who allocates, what is done to the bytes on
// their way, and when a write is safe. Facts that this client shows are read; others come with a command to ask by.
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
  const char* section = "";  // In NVIDIA's O_DIRECT guide.
  std::string text;          // Without a capital and a full stop.
  std::string ask;           // The command that tells more, and where; may be empty.
  std::string source;        // The document that says so, unless this machine does.
};
using StorageNotes = std::vector<StorageNote>;

// None for a local file system straight on a drive: there a try shows everything.
StorageNotes storage_notes(const core::Root& root, const std::optional<core::Mount>& mount,
                           const std::optional<core::BlockDevice>& stack);

void print_notes(const StorageNotes& notes, Page& page);
Json notes_json(const StorageNotes& notes);

}  // namespace penstock::tools
