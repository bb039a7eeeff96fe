// SPDX-License-Identifier: Apache-2.0

// How bytes go between a file system's files and device memory, path by path, for a process of the given settings: the
// one answer that every program prints. "Usable" promises no direct path, whose self-test has the last word; but what
// is switched off, what only a try can tell and what may corrupt bytes is never usable. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "facts/finding.h"
#include "facts/machine.h"
#include "facts/peer_pairs.h"

namespace penstock::facts {

enum class Standing : std::uint8_t {  // The best first.
  usable,                             // With the process's settings.
  off,                                // A setting is all that is known to be in the way.
  unknown,                            // Only a try, or a look from elsewhere, can tell.
  closed
};
const char* standing_name(Standing standing);  // "usable", "off", "unknown", "closed"

struct PathOutlook {
  int path = 0;    // penstock_path
  Findings needs;  // All that it needs, in the order in which it is asked for.

  Standing standing() const;
  bool is_usable() const { return standing() == Standing::usable; }
  // True if a setting is indeed all: nothing else is in doubt.
  bool is_once_set() const;
  // The first need that makes the standing what it is; for a usable path the need that makes it slower, or null.
  const Finding* reason() const;
  // The reason's, or "".
  std::string sentence() const { return reason() == nullptr ? "" : reason()->sentence; }
  std::string remedy() const { return reason() == nullptr ? "" : reason()->remedy; }
  // By its public name (docs/reference/reasons.md), where it has one; else the need's code. "none" where there is none.
  std::string reason_name() const;
};

struct Outlook {
  const core::FileSystem* place = nullptr;  // Null where it is about the machine as a whole.
  std::vector<PathOutlook> paths;           // All that are tried where no paths are named, best first.

  const PathOutlook& of(int path) const;
  bool may_use(int path) const { return of(path).is_usable(); }
  // The first that moves bytes of device memory as the process is set; null where none does.
  const PathOutlook* first_usable() const;
  // The direct path that stands best, of several the first; null where `closed` ones alone are left.
  const PathOutlook* best_direct() const;
  // The better one of the two paths by nvidia-fs: Penstock's own, and NVIDIA's library's.
  const PathOutlook& by_nvidia_fs() const;
};

constexpr PathSet kByNvidiaFs = path_bit(PENSTOCK_PATH_NVFS) | path_bit(PENSTOCK_PATH_VENDOR);

// True if a path's bytes go around host memory.
bool is_direct_path(int path);
// known: the findings of drivers and system, of which some close paths.
Outlook outlook(const Machine& machine, const Findings& known, std::span<const PeerPair> pairs,
                const core::FileSystem& place);
// The same for one file there, whose obstacles to p2pdma are known besides.
Outlook outlook_of_file(Outlook place, const core::Findings& of_file);
// The outlook of p2pdma alone, between the two.
PathOutlook outlook(const Machine& machine, const Findings& known, const PeerPair& pair);
// For each path the best outlook that any place has.
Outlook best_of(const Machine& machine, const Findings& known, std::span<const PeerPair> pairs,
                const std::vector<Outlook>& places);

}  // namespace penstock::facts
