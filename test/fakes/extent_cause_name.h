// SPDX-License-Identifier: Apache-2.0

// What tests of files on drives call a cause when they compare and report it. The library tells users reasons, and no
// cause by its name.
#pragma once

#include "path/dmabuf/extent_cause.h"

namespace penstock::core {

// "asked_back"
inline const char* name_of(ExtentCause cause) {
  switch (cause) {
    case ExtentCause::none: return "none";
    case ExtentCause::not_a_file: return "not_a_file";
    case ExtentCause::file_system: return "file_system";
    case ExtentCause::realtime: return "realtime";
    case ExtentCause::encrypted: return "encrypted";
    case ExtentCause::verity: return "verity";
    case ExtentCause::compressed: return "compressed";
    case ExtentCause::dax: return "dax";
    case ExtentCause::journaled: return "journaled";
    case ExtentCause::drive_node: return "drive_node";
    case ExtentCause::not_readable: return "not_readable";
    case ExtentCause::lease_denied: return "lease_denied";
    case ExtentCause::no_lease: return "no_lease";
    case ExtentCause::inherited: return "inherited";
    case ExtentCause::descriptor_lost: return "descriptor_lost";
    case ExtentCause::no_helper: return "no_helper";
    case ExtentCause::inline_data: return "inline_data";
    case ExtentCause::writers: return "writers";
    case ExtentCause::cached: return "cached";
    case ExtentCause::asked_back: return "asked_back";
    case ExtentCause::extents_unknown: return "extents_unknown";
    case ExtentCause::too_many_extents: return "too_many_extents";
    case ExtentCause::hole: return "hole";
    case ExtentCause::unwritten: return "unwritten";
    case ExtentCause::delayed: return "delayed";
    case ExtentCause::packed: return "packed";
    case ExtentCause::encoded: return "encoded";
    case ExtentCause::shared: return "shared";
    case ExtentCause::unplaced: return "unplaced";
    case ExtentCause::unknown_flag: return "unknown_flag";
    case ExtentCause::beyond_end: return "beyond_end";
    case ExtentCause::misaligned: return "misaligned";
    case ExtentCause::too_scattered: return "too_scattered";
    case ExtentCause::lease_lost: return "lease_lost";
    case ExtentCause::moved: return "moved";
  }
  return "";
}

}  // namespace penstock::core
