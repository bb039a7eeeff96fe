// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "bench/versus/failure.h"
#include "bench/versus/tasks.h"

namespace penstock::versus {
namespace {

// What a library leaves for its threads to tidy up is its cost too.
void let_threads_finish() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

}  // namespace

Sample load_memory(World& world, const Task& task, const Gate& gate) {
  world.load(task.file, task.size);
  gate();
  return {};
}

Sample open_kept(World& world, const Task& task, const Gate& gate) {
  world.keep(task.file, O_RDONLY);
  gate();
  return {};
}

Sample close_kept(World& world, const Task& task, const Gate& gate) {
  world.let_go(task.file);
  gate();
  return {};
}

Sample read_whole(World& world, const Task& task, const Gate& gate) {
  if (task.verify) world.spoil(task.size);
  std::optional<Handle> fresh;
  const Handle* handle = world.kept(task.file);
  if (handle == nullptr) handle = &fresh.emplace(world.calls(), task.file, O_RDONLY | (task.direct ? O_DIRECT : 0));
  Stopwatch watch(gate);
  for (unsigned i = 0; i < task.times; ++i) {
    expect(world.calls(), world.calls().read(handle->get(), world.memory(), task.size, 0, 0), task.size);
  }
  watch.stop();
  fresh.reset();
  let_threads_finish();
  const Sample sample = watch.sample(task.size * task.times, task.times);
  if (task.verify) world.compare(task.file, task.size);
  return sample;
}

Sample write_whole(World& world, const Task& task, const Gate& gate) {
  if (task.fresh) ::unlink(task.file.c_str());
  std::optional<Handle> handle;
  handle.emplace(world.calls(), task.file, O_RDWR | O_CREAT);
  if (::fsync(handle->fd()) != 0) fail_errno(task.file, "flush it");  // Every overwrite begins with clean pages.
  Stopwatch watch(gate);
  expect(world.calls(), world.calls().write(handle->get(), world.memory(), task.size, 0, 0), task.size);
  watch.stop();
  handle.reset();
  let_threads_finish();
  const Sample sample = watch.sample(task.size, 1);
  if (task.verify) world.compare(task.file, task.size);
  return sample;
}

Sample copy_pinned(World& world, const Task& task, const Gate& gate) {
  Stopwatch watch(gate);
  for (unsigned i = 0; i < task.times; ++i) {
    for (std::uint64_t at = 0; at < task.size; at += world.pinned_size()) {
      world.gpu().to_device(world.memory() + at, world.pinned(), std::min(world.pinned_size(), task.size - at));
    }
  }
  watch.stop();
  return watch.sample(task.size * task.times, task.times);
}

}  // namespace penstock::versus
