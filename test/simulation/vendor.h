// SPDX-License-Identifier: Apache-2.0

// NVIDIA's own libcufile on a simulated machine with a GPU (gpu.h) and nvidia-fs (nvfs.h): the unit tests' stand-in
// (fakes/fake_vendor), a library of its own, which the library loads by its file and whose calls of the C library come
// here as ours do. A seed may have it refuse, move less than it was asked for, fail behind half of the bytes, tell
// nonsense, or not come back for long. It reaches files by their names, which the simulated ones have for it.
#pragma once

#include <cstddef>
#include <string>

#include "simulation/scheduler.h"

namespace penstock::simulation {

class Vendor {
 public:
  // This run's machine has it. The GPU and nvidia-fs must be there.
  void plug_in();
  bool is_there() const { return is_there_; }
  static const char* library();
  // More threads are alive than these, and those that are in it or were given up there. Waits for who just comes out.
  bool are_more_alive(unsigned others) const;
  // Bytes that it was asked for.
  std::uint64_t asked() const { return asked_; }

  // ---- For the stand-in: before each of its calls. Returns where the CPU finds the memory.
  void* enter(const char* call, void* memory, std::size_t size);
  void leave() { --stuck_; }
  [[noreturn]] void stay();

 private:
  const char* draw_script(bool is_write);
  const char* draw_nature() const;

  bool is_there_ = false;
  const char* nature_ = "direct";
  unsigned fails_one_in_ = 0;
  std::uint64_t calm_ = 0;  // So many calls go well, first.
  std::uint64_t asked_ = 0;
  unsigned stuck_ = 0;
};

Vendor& vendor();

}  // namespace penstock::simulation
