// SPDX-License-Identifier: Apache-2.0

// Says before any byte moves if there is a certain obstacle between a device's memory and a file. Finding none proves
// nothing; only the self-test does. machine_outlook() looks at the machine; tests have outlooks of their own.
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
  // Each returns Reason::none if it knows of no certain obstacle. May take milliseconds; thread-safe.
  virtual Reason of_device(const DeviceFacts& device) = 0;             // Kernel, driver, BAR.
  virtual Reason of_file(File& file, Op op) = 0;                       // Mount, file system, storage form of the file.
  virtual Reason of_route(const DeviceFacts& device, File& file) = 0;  // Bus, block devices.
  // For drives that reach the memory by a dma-buf, which needs less of the machine: a raw drive.
  virtual Reason of_drive(const DeviceFacts& /*device*/, File& /*file*/) { return Reason::none; }
  // The most bytes of one request that the kernel does not split on the drive; 0: unknown.
  virtual std::uint64_t request_max(File& /*file*/) { return 0; }
};

// Looks at /proc and /sys below `root`, and at the file itself.
std::unique_ptr<Outlook> machine_outlook(const std::string& root);

}  // namespace penstock::core
