// SPDX-License-Identifier: Apache-2.0

#include "path/reasons.h"

#include "path/dmabuf/dmabuf_reasons.h"
#include "path/nvfs/nvfs_reasons.h"
#include "path/pagecache/pagecache_reasons.h"
#include "path/pipeline/pipeline_reasons.h"
#include "path/vendor/vendor_reasons.h"

namespace penstock::core {
namespace {

constexpr ReasonText kUnknown = {"unknown", "", ""};

constexpr ReasonRange (*const kOwners[])() = {core_reasons, pipeline_reasons, pagecache_reasons, vendor_reasons,
                                              nvfs_reasons, dmabuf_reasons,   resident_reasons};

}  // namespace

ReasonText reason_text(Reason reason) {
  const auto number = static_cast<unsigned>(reason);
  for (const auto owner : kOwners) {
    const auto [first, texts] = owner();
    if (number >= first && number - first < texts.size()) return texts[number - first];
  }
  if (number <= kFirstObstacle || number >= kFirstPipelineReason) return kUnknown;
  const ObstacleText& text = obstacle_text(static_cast<Obstacle>(number - kFirstObstacle));
  return text.obstacle == Obstacle::none ? kUnknown : ReasonText{text.code, text.sentence, text.remedy};
}

}  // namespace penstock::core
