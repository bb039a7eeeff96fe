// SPDX-License-Identifier: Apache-2.0

#include "path/absent_path.h"

namespace penstock::core {

Verdict AbsentPath::judge(File& file, const PointerFacts& memory, Op) {
  if (!memory.needs_device()) return refused(id_, Reason::host_memory);
  if (file.facts().denied) return refused(id_, Reason::denied);
  if (memory.device != nullptr && memory.device->facts().stand_in) return refused(id_, Reason::stand_in);
  return refused(id_, Reason::not_built);
}

}  // namespace penstock::core
