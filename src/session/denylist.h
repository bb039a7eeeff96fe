// SPDX-License-Identifier: Apache-2.0

// Files that the configuration excludes from direct paths: by their mount, its file system, the block devices under it
// or their drivers. Checked once for each file, when it is registered; direct paths refuse a denied file.
#pragma once

#include <optional>

#include "storage/file_facts.h"
#include "topology/denylist.h"

namespace penstock::core {

// The mount through which a descriptor was opened; nothing if /proc does not show it.
std::optional<int> mount_id_of(const Root& root, int fd);

// Also denies if the mount or the devices cannot be determined: they might be the listed ones.
bool denies(const Denylist& list, const Root& root, const FileFacts& file, std::optional<int> mount_id);
// The same for a file on this machine.
bool denies(const Denylist& list, const FileFacts& file, int fd);

}  // namespace penstock::core
