// SPDX-License-Identifier: Apache-2.0

// Files that the configuration bars from direct paths: by their mount, its file system, the block devices under it or
// their drivers. Asked once for each file, when it is registered; the session then lets no direct path see it.
#pragma once

#include <optional>

#include "storage/file_facts.h"
#include "topology/denylist.h"

namespace penstock::core {

// The mount through which a descriptor was opened; nothing if /proc does not show it.
std::optional<int> mount_id_of(const Root& root, int fd);

// Denies also if the mount or the devices that a list names cannot be found out: they might be the named ones.
bool denies(const Denylist& list, const Root& root, const FileFacts& file, std::optional<int> mount_id);
// Asks the same about a file of this machine.
bool denies(const Denylist& list, const FileFacts& file, int fd);

}  // namespace penstock::core
