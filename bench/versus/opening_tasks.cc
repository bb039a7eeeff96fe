// SPDX-License-Identifier: Apache-2.0

// What a program waits for before its first byte. Each is measured in a process that has done nothing else; see
// Contest::fresh_processes.
#include <fcntl.h>

#include "bench/versus/failure.h"
#include "bench/versus/tasks.h"

namespace penstock::versus {

// The process opened its driver before it could be asked anything, and looked at the clocks.
Sample tell_driver_open(World& world, const Task&, const Gate& gate) {
  gate();
  return world.driver_open();
}

Sample register_first(World& world, const Task& task, const Gate& gate) {
  Stopwatch watch(gate);
  const Handle handle(world.calls(), task.file, O_RDONLY);
  watch.stop();
  return watch.sample(0, 1);
}

Sample read_first(World& world, const Task& task, const Gate& gate) {
  const Handle handle(world.calls(), task.file, O_RDONLY);
  Stopwatch watch(gate);
  expect(world.calls(), world.calls().read(handle.get(), world.memory(), task.block, 0, 0), task.block);
  watch.stop();
  const Sample sample = watch.sample(task.block, 1);
  if (task.verify) world.compare(handle.fd(), 0, world.memory(), task.block);
  return sample;
}

}  // namespace penstock::versus
