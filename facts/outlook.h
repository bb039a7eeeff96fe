// SPDX-License-Identifier: Apache-2.0

// How bytes go between a file system's files and device memory, path by path, for a process with the given settings.
// This is the one answer that every program prints. "Usable" does not promise that a direct path works, since its
// self-test has the last word; but a path that is switched off, that only a try can judge, or that may corrupt bytes is
// never called usable. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "facts/finding.h"
#include "facts/machine.h"
#include "facts/peer_pairs.h"

namespace penstock::facts {

enum class Standing : std::uint8_t {  // The best first.
  usable,                             // It works with the process's settings.
  off,                                // Only a setting is known to be in the way.
  unknown,                            // Only a try, or a look at another machine, can show it.
  closed
};
const char* standing_name(Standing standing);  // "usable", "off", "unknown", "closed"

struct PathOutlook {
  int path = 0;    // penstock_path
  Findings needs;  // All needs of the path, in the order in which they are judged.
  // The mount points that this is true of, where it tells of a machine as a whole, and not of all that hold data.
  std::vector<std::string> only_on;

  Standing standing() const;
  std::ptrdiff_t count(Standing standing) const;  // The needs that would give it this standing.
  bool is_usable() const { return standing() == Standing::usable; }
  // True if only a setting is in the way, and nothing else is in doubt.
  bool is_once_set() const;
  // True if nothing that could be set or installed on this machine opens the path.
  bool is_beyond_repair() const;
  // The first need that gives the path its standing. For a usable path, the need that makes it slower, or null.
  const Finding* reason() const;
  // The first thing that stays in doubt once a path that is off is switched on; null if there is none.
  const Finding* doubt() const;
  // All that has to be done before bytes take the path, in that order: needs that fail, those in doubt, and every
  // setting. Without a GPU, with settings that make no sense, or where only other hardware helps, that alone.
  std::vector<const Finding*> steps() const;
  // The sentence of reason(), and of the hardware that no step mends; for a path that is off those of all settings and
  // of doubt(); or "".
  std::string sentence() const;
  // The remedies of all steps(), each once; none where nothing is to be done, or one step cannot be taken. For a usable
  // path, the one that makes it quicker.
  std::vector<std::string> remedies() const;
  std::string remedy() const;  // remedies() as a text: "First: ... Then: ...", or "".
  // The public name of the reason (docs/reference/reasons.md), or if it has none the code of the need; "none" if there
  // is no reason.
  std::string reason_name() const;
};

struct Outlook {
  const core::FileSystem* place = nullptr;  // Null if it is about the machine as a whole.
  std::vector<PathOutlook> paths;           // All paths that are tried when no setting names any, best first.

  const PathOutlook& of(int path) const;
  bool may_use(int path) const { return of(path).is_usable(); }
  // The first path that moves bytes of device memory with the process's settings; null if there is none.
  const PathOutlook* first_usable() const;
  // True if nothing that could be set or installed on this machine opens any direct path.
  bool is_beyond_repair() const;
  // The direct path with the best standing, of equal ones the first; null if all are `closed`.
  const PathOutlook* best_direct() const;
  // The better of the two paths by nvidia-fs: Penstock's own, or NVIDIA's library.
  const PathOutlook& by_nvidia_fs() const;
  // The obstacles to both paths by nvidia-fs: the better one's sentence, and the other's if it differs. Either path
  // serves, so each is told by its name then.
  std::string sentence_by_nvidia_fs() const;
  std::string remedy_by_nvidia_fs() const;
};

constexpr PathSet kByNvidiaFs = path_bit(PENSTOCK_PATH_NVFS) | path_bit(PENSTOCK_PATH_VENDOR);

// True if bytes go more directly by `one`: its direct path has the better standing, or else its first path is better.
bool is_more_direct(const Outlook& one, const Outlook& other);
// The finding of each other path, where the setting PENSTOCK_REQUIRE names the one path `required`.
Finding left_out_by(const std::string& required);
// True for a need without which nothing else helps: a GPU, settings that make sense, the right hardware.
bool is_before_all(const Finding& need);
// True if a path's bytes go around host memory.
bool is_direct_path(int path);
// Judges every path between a file system and device memory. `known` are the findings about drivers and system, some of
// which close paths.
Outlook outlook(const Machine& machine, const Findings& known, std::span<const PeerPair> pairs,
                const core::FileSystem& place);
// The outlook of one file in that place; `of_file` are further obstacles to p2pdma that were found for the file.
Outlook outlook_of_file(Outlook place, const core::Findings& of_file, bool is_write);
// The outlook of p2pdma alone, for one pair.
PathOutlook outlook(const Machine& machine, const Findings& known, const PeerPair& pair);
// For each path the best outlook that any place has.
Outlook best_of(const Machine& machine, const Findings& known, std::span<const PeerPair> pairs,
                const std::vector<Outlook>& places);

}  // namespace penstock::facts
