// SPDX-License-Identifier: Apache-2.0

#include "k8s/evidence.h"

#include "facts/storage_kind.h"

namespace penstock::tools::k8s {
namespace {

PathEvidence evidence_of(const char* name, const facts::PathOutlook& path) {
  if (path.is_usable()) return {name, Standing::usable, "", "", ""};
  return {name, path.standing(), path.reason_name(), path.sentence(), path.remedy(), path.is_once_set()};
}

}  // namespace

const char* standing_words(Standing standing) {
  return standing == Standing::usable ? "open, not proven" : facts::standing_name(standing);
}

std::vector<StorageEvidence> evidence_of(const facts::Examination& node) {
  std::vector<StorageEvidence> all;
  for (const facts::Outlook& place : node.places) {
    const core::Mount& mount = place.place->mount;
    if (!facts::holds_data(*place.place)) continue;
    all.push_back(
        {mount.mount_point,
         mount.type,
         {evidence_of("p2pdma", place.of(PENSTOCK_PATH_P2PDMA)), evidence_of("nvidia-fs", place.by_nvidia_fs())}});
  }
  return all;
}

}  // namespace penstock::tools::k8s
