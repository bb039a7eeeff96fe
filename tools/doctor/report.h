// SPDX-License-Identifier: Apache-2.0

// An examination as text, and as JSON:
//   schema            1
//   files[]           path, size, cached_bytes (null where the kernel does not tell)
//   bytes, cached_bytes, memory_available
//   places[]          file, bytes, file_system, block_device, path, reason, refused_path
//   buses[]           name, pci_address, numa_node, link and link_max {speed_gts, width}, relation
//   device            as of `penstock explain`
//   stages[]          name, bytes_per_second, slowest, fastest (of the turns), bytes, seconds, cpus_busy
//   operation         "load" or "save"
//   forecast          seconds, plain_seconds (null where it is not known), cold_seconds, binds; binds_text and
//                     changes_text, the sentences on what binds and on the changes as a whole
//   changes[]         what, command, seconds, at_best: true for a bound, false for a prediction
//   doubts[]          what, low, high: a change of which nothing can be told, and how many times as fast it may be
//   cpu_share_of_others  what other programs had of the processors meanwhile
//   notes[]           sentences
// Bytes, seconds, bytes a second.
#pragma once

#include "tools/common/terminal.h"
#include "tools/doctor/examine.h"

namespace penstock::tools {

Text examination_text(const Examination& found, const ExamineSettings& settings);
Json examination_json(const Examination& found);
std::string_view doctor_page();  // "" if this build has no plots.

}  // namespace penstock::tools
