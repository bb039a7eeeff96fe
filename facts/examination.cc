// SPDX-License-Identifier: Apache-2.0

#include "facts/examination.h"

#include <utility>

namespace penstock::facts {

Examination examine(Machine machine) {
  Examination examined;
  examined.machine = std::move(machine);
  judge_drivers(examined.machine, examined.findings);
  examined.pairs = peer_pairs(examined.machine);
  for (const core::FileSystem& one : examined.machine.file_systems) {
    examined.places.push_back(outlook(examined.machine, examined.findings, examined.pairs, one));
  }
  examined.whole = best_of(examined.machine, examined.findings, examined.pairs, examined.places);
  Findings more;
  judge_hooks(examined, more);
  judge_cufile(examined, more);
  examined.findings.insert(examined.findings.end(), more.begin(), more.end());
  more.clear();
  judge_paths(examined, more);
  judge_fabric(examined.machine, more);
  examined.findings.insert(examined.findings.end(), more.begin(), more.end());
  say_where(examined.findings, !examined.machine.platform.container.empty());
  settle_causes(examined.findings);
  return examined;
}

PathOutlook Examination::by_p2pdma(const PeerPair& pair) const { return outlook(machine, findings, pair); }

const Outlook* place_of(const Examination& examined, const core::Mount& mount) {
  for (const Outlook& one : examined.places) {
    if (one.place->mount.device == mount.device) return &one;
  }
  return nullptr;
}

}  // namespace penstock::facts
