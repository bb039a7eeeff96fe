// SPDX-License-Identifier: Apache-2.0

// The answer before a byte moves: it tells if anything certain stands between a device's memory and a file. No obstacle
// is no proof, which is the self-test's. The machine is one (machine_outlook); tests have their own.
#pragma once

#include <memory>
#include <string>

#include "core/verdict.h"
#include "device/device.h"
#include "storage/file.h"

namespace penstock::core {

class Outlook {
 public:
  virtual ~Outlook() = default;
  // Each is none where nothing certain is known against it. May take milliseconds; thread-safe.
  virtual Reason of_device(const DeviceFacts& device) = 0;             // Kernel, driver, BAR.
  virtual Reason of_file(File& file, Op op) = 0;                       // Mount, file system, how the file is stored.
  virtual Reason of_route(const DeviceFacts& device, File& file) = 0;  // Bus, block devices.
};

// By /proc and /sys below `root`, and by the file itself.
std::unique_ptr<Outlook> machine_outlook(const std::string& root);

}  // namespace penstock::core
