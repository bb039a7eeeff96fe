// SPDX-License-Identifier: Apache-2.0

// The conditions under which a file system may not do direct I/O though it was asked for it, each made and tried. They
// are those of NVIDIA's GPUDirect Storage O_DIRECT Requirements Guide, by its sections.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "tools/check/scratch.h"

namespace penstock::tools {

enum class Verdict : std::uint8_t {
  direct,    // Between the memory and the drive, around the page cache.
  cached,    // Done, through the page cache: no direct path of a GPU can have it.
  refused,   // An error.
  unproven,  // Done; the kernel does not tell here whether around the page cache.
  absent,    // This file system, or this file's place, does not have the condition.
  wrong      // Other bytes came back than were written.
};
const char* verdict_name(Verdict verdict);

struct Case {
  const char* name;
  const char* section;  // The guide's.
  const char* what;     // The case in words.
  // The guide's word on whether direct I/O is to be expected, or "".
  const char* guide;
  // Makes the condition in a new scratch file and tries it. A verdict of `absent` has its reason in `note`.
  struct Told {
    Verdict verdict = Verdict::direct;
    std::string note;
    DirectTry moved{};
  };
  Told (*run)(const std::string& folder);
};

// The answer if a loop device below keeps its file in the page cache: there the bytes pass, whatever the file system
// above did. The kernel's counts tell it of writes alone.
Case::Told on_buffered_loop(Case::Told told);

std::span<const Case> odirect_cases();
// The case, more than once where something else on the machine may have made it look as if it went by the page cache.
Case::Told run_case(const Case& one, const std::string& folder);

}  // namespace penstock::tools
