// SPDX-License-Identifier: Apache-2.0

// The links of PCI devices, in tables for people and in JSON.
#pragma once

#include <fmt/format.h>

#include <string>

#include "facts/machine.h"
#include "tools/common/context.h"

namespace penstock::tools {

// A device's link: "32 GT/s x16", or "16 GT/s x1 of 16 GT/s x4" if it could be faster.
inline std::string link_text(const core::PciDevice& device) {
  const core::PciLink &now = device.current_link, &most = device.max_link;
  if (now.width == 0) return "unknown";
  const std::string text = fmt::format("{:g} GT/s x{}", now.gigatransfers_per_second, now.width);
  const bool is_full = most.width <= now.width && most.gigatransfers_per_second <= now.gigatransfers_per_second;
  return is_full ? text : fmt::format("{} of {:g} GT/s x{}", text, most.gigatransfers_per_second, most.width);
}

inline Json link_json(const core::PciLink& link) {
  return {{"speed_gts", link.gigatransfers_per_second}, {"width", link.width}};
}

}  // namespace penstock::tools
