// SPDX-License-Identifier: Apache-2.0

// Files that the configuration bars from direct paths: by the mount they are on, its file system, the block devices
// under it or their drivers. Asked once a file, when it is registered; the session then lets no direct path see it.
#pragma once

#include <optional>

#include "storage/file_facts.h"
#include "topology/denylist.h"

namespace penstock::core {

// The mount that an open descriptor was opened through; nothing where /proc does not tell.
std::optional<int> mount_id_of(const Root& root, int fd);

// Denies also where the mount or the devices that a list speaks of cannot be found: they might be the named ones.
bool denies(const Denylist& list, const Root& root, const FileFacts& file, std::optional<int> mount_id);
// The same on this machine.
bool denies(const Denylist& list, const FileFacts& file, int fd);

}  // namespace penstock::core
