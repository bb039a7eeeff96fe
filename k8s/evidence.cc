// SPDX-License-Identifier: Apache-2.0

#include "k8s/evidence.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "facts/near_adapters.h"
#include "facts/peer_pairs.h"
#include "facts/storage_kind.h"

namespace penstock::tools::k8s {
namespace {

PathEvidence evidence_of(const char* name, const facts::PathOutlook& path, std::string sentence, std::string remedy) {
  if (path.is_usable()) return {name, Standing::usable, "", "", ""};
  return {name, path.standing(), path.reason_name(), std::move(sentence), std::move(remedy), path.is_once_set()};
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
    const facts::PathOutlook& p2pdma = place.of(PENSTOCK_PATH_P2PDMA);
    all.push_back(
        {mount.mount_point,
         mount.type,
         {evidence_of("p2pdma", p2pdma, p2pdma.sentence(), p2pdma.remedy()),
          evidence_of("nvidia-fs", place.by_nvidia_fs(), place.sentence_by_nvidia_fs(), place.remedy_by_nvidia_fs())}});
  }
  return all;
}

facts::Findings facts_of(const facts::Examination& node) {
  facts::Findings all;
  for (const std::string_view code : {"nvidia_fs", "iommu", "gpu_memory_registration"}) {
    std::copy_if(node.findings.begin(), node.findings.end(), std::back_inserter(all),
                 [&](const facts::Finding& one) { return one.code == code; });
  }
  return all;
}

std::vector<AdapterEvidence> adapters_of(const facts::Examination& node) {
  std::vector<AdapterEvidence> all;
  for (const facts::NearAdapters& near : facts::nearest_adapters(node.machine)) {
    all.push_back({facts::peer_text(*near.of), near.names, core::distance_name(near.distance)});
  }
  return all;
}

}  // namespace penstock::tools::k8s
