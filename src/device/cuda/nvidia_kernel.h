// SPDX-License-Identifier: Apache-2.0

// The kernel as NvidiaClient uses it: the kernel's calls behind a seam, so that tests can answer in place of NVIDIA's
// driver; the versions of both; and the status numbers of the driver's resource manager (RM) and unified memory (UVM),
// which come with every step.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "base/status.h"
#include "core/p2pdma_needs.h"
#include "device/cuda/nvidia_ioctl.h"

namespace penstock::core {

// The calls to the kernel, so that tests can answer them. Failures are negated errnos.
class NvidiaKernel {
 public:
  virtual int open(const char* path) = 0;
  virtual void close(int fd) = 0;
  virtual int control(int fd, unsigned long request, void* argument) = 0;
  // Reserves addresses for a later mapping, with nothing behind them. Null if there are none.
  virtual std::byte* reserve(std::size_t size) = 0;
  // Puts the descriptor's memory in place of reserved addresses, at the file offset that equals the address. After a
  // failure the addresses are no longer ours.
  virtual int map_shared(std::byte* address, std::size_t size, int fd) = 0;
  virtual void unmap(std::byte* address, std::size_t size) = 0;

  static NvidiaKernel& real();

 protected:
  ~NvidiaKernel() = default;  // Nobody owns one by this type, and the real one outlives every thread.
};

struct NvidiaVersions {
  DriverVersion driver;  // 580 and 159 for 580.159.04; 0 if there is no driver.
  KernelVersion kernel;

  // Reads /proc and /sys below `root`; "" is the machine itself.
  static NvidiaVersions read(const std::string& root = "");
};

// A step and its result. If RM or UVM answered with a status of its own, the Status has the nearest errno.
struct NvidiaStep {
  Status status;
  nvidia::RmStatus rm_status = nvidia::NV_OK;

  // Makes a step from the answer of RM or UVM; the name is a literal.
  static NvidiaStep of(nvidia::RmStatus status, const char* name);
};

// Called after every step of making or undoing a mapping, whether it succeeded or not.
using NvidiaObserver = std::function<void(const char* name, const NvidiaStep&)>;
// Reports the step to the observer, if there is one, and returns its status.
inline Status report(const NvidiaObserver& observer, const char* name, const NvidiaStep& step) {
  if (observer) observer(name, step);
  return step.status;
}
// "could not make peer pages of GPU memory: Operation not supported (NV_ERR_NOT_SUPPORTED, 0x56)"
std::string describe(const NvidiaStep& step);

}  // namespace penstock::core
