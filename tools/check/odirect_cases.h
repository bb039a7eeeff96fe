// SPDX-License-Identifier: Apache-2.0

// The conditions under which a file system may not do the direct I/O that it was asked for. Each condition is made and
// tried. They come from NVIDIA's GPUDirect Storage O_DIRECT Requirements Guide, in the order of its sections.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "tools/check/scratch.h"

namespace penstock::tools {

enum class Verdict : std::uint8_t {
  direct,    // The bytes went between memory and drive, around the page cache.
  cached,    // The bytes went through the page cache: no direct path of a GPU can move them.
  refused,   // The request failed.
  unproven,  // The bytes arrived; the kernel does not show here if they went around the page cache.
  absent,    // This file system, or this file's place, does not have the condition.
  wrong      // Other bytes came back than were written.
};
const char* verdict_name(Verdict verdict);

struct Case {
  const char* name;
  const char* section;  // The section of the guide.
  const char* what;     // The case in words.
  // The guide's statement on direct I/O in this case, or "".
  const char* guide;
  // Makes the condition in a new scratch file and tries it. If the verdict is `absent`, `note` says why.
  struct Told {
    Verdict verdict = Verdict::direct;
    std::string note;
    DirectTry moved{};
  };
  Told (*run)(const std::string& folder);
};

// Corrects the answer if a loop device below keeps its file in the page cache: the bytes pass through it, whatever the
// file system above did. The kernel's counts show this for writes only.
Case::Told on_buffered_loop(Case::Told told);

std::span<const Case> odirect_cases();
// Tries the case. Repeats it if other activity on the machine may have made it look as if it went through the page
// cache.
Case::Told run_case(const Case& one, const std::string& folder);

}  // namespace penstock::tools
