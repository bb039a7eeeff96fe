// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/versus/failure.h"
#include "bench/versus/side.h"
#include "bench/versus/tasks.h"

namespace penstock::versus {
namespace {

// Cleanup by a library's threads is part of its cost.
void let_threads_finish() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

// A further GPU, with its own memory.
struct OtherGpu {
  std::unique_ptr<Gpu> gpu;
  char* memory = nullptr;
};

OtherGpu& other_gpu(Fixture& fixture, unsigned ordinal, std::uint64_t size) {
  static std::map<unsigned, OtherGpu> others;
  OtherGpu& other = others[ordinal];
  if (other.gpu == nullptr) {
    other.gpu = fixture.gpu().other(ordinal);
    other.memory = other.gpu->allocate(size);
    fixture.gpu().enter();
  }
  return other;
}

// One GPU's part of read_on_gpus().
struct Part {
  const Gpu* gpu = nullptr;
  char* memory = nullptr;
  std::string file;
  std::optional<Handle> fresh;
  const Handle* handle = nullptr;
};

}  // namespace

Sample load_memory(Fixture& fixture, const Task& task, const Gate& gate) {
  fixture.load(task.file, task.size);
  gate();
  return {};
}

Sample open_kept(Fixture& fixture, const Task& task, const Gate& gate) {
  fixture.keep(task.file, O_RDONLY);
  gate();
  return {};
}

Sample close_kept(Fixture& fixture, const Task& task, const Gate& gate) {
  fixture.let_go(task.file);
  gate();
  return {};
}

Sample read_whole(Fixture& fixture, const Task& task, const Gate& gate) {
  if (task.verify) fixture.spoil(task.size);
  Opened opened(fixture, task.file, O_RDONLY | (task.direct ? O_DIRECT : 0));
  const std::uint64_t block = task.block == 0 ? task.size : task.block;
  Stopwatch watch(gate);
  for (unsigned i = 0; i < task.times; ++i) {
    for (std::uint64_t at = 0; at < task.size; at += block) {
      const std::uint64_t size = std::min(block, task.size - at);
      const auto offset = static_cast<off_t>(at);
      expect(fixture.calls(), fixture.calls().read(opened.handle().get(), fixture.memory(), size, offset, offset),
             size);
    }
  }
  watch.stop();
  opened.close();
  let_threads_finish();
  const Sample sample = watch.sample(task.size * task.times, task.times);
  if (task.verify) fixture.compare(task.file, task.size);
  return sample;
}

Sample read_on_gpus(Fixture& fixture, const Task& task, const Gate& gate) {
  std::vector<Part> parts(task.threads);
  for (unsigned rank = 0; rank < task.threads; ++rank) {
    Part& part = parts[rank];
    OtherGpu* const other = rank == 0 ? nullptr : &other_gpu(fixture, rank, task.size);
    part.gpu = other == nullptr ? &fixture.gpu() : other->gpu.get();
    part.memory = other == nullptr ? fixture.memory() : other->memory;
    part.file = rank_file(task.file, rank, task.depth);
    if (!task.fresh) fixture.keep(part.file, O_RDONLY);
    part.handle = task.fresh ? &part.fresh.emplace(fixture.calls(), part.file, O_RDONLY) : fixture.kept(part.file);
  }
  std::vector<std::string> failures(parts.size());
  const auto read = [&](std::size_t index) {
    const Part& part = parts[index];
    try {
      part.gpu->enter();
      for (unsigned i = 0; i < task.times; ++i) {
        expect(fixture.calls(), fixture.calls().read(part.handle->get(), part.memory, task.size, 0, 0), task.size);
      }
    } catch (const Failure& failure) {
      failures[index] = failure.what();
    }
  };
  Stopwatch watch(gate);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < parts.size(); ++i) threads.emplace_back(read, i);
  }
  watch.stop();
  for (const std::string& failure : failures) {
    if (!failure.empty()) throw Failure(failure);
  }
  for (const Part& part : parts) {
    if (task.verify) fixture.compare(part.file, task.size, *part.gpu, part.memory);
  }
  parts.clear();
  let_threads_finish();
  return watch.sample(task.size * task.times * task.threads, std::uint64_t{task.times} * task.threads);
}

Sample write_whole(Fixture& fixture, const Task& task, const Gate& gate) {
  if (task.fresh) ::unlink(task.file.c_str());
  std::optional<Handle> handle;
  handle.emplace(fixture.calls(), task.file, O_RDWR | O_CREAT);
  if (::fsync(handle->fd()) != 0) fail_errno(task.file, "flush it");  // Every overwrite begins with clean pages.
  Stopwatch watch(gate);
  expect(fixture.calls(), fixture.calls().write(handle->get(), fixture.memory(), task.size, 0, 0), task.size);
  watch.stop();
  handle.reset();
  let_threads_finish();
  const Sample sample = watch.sample(task.size, 1);
  if (task.verify) fixture.compare(task.file, task.size);
  return sample;
}

Sample copy_pinned(Fixture& fixture, const Task& task, const Gate& gate) {
  Stopwatch watch(gate);
  for (unsigned i = 0; i < task.times; ++i) {
    for (std::uint64_t at = 0; at < task.size; at += fixture.pinned_size()) {
      fixture.gpu().to_device(fixture.memory() + at, fixture.pinned(), std::min(fixture.pinned_size(), task.size - at));
    }
  }
  watch.stop();
  return watch.sample(task.size * task.times, task.times);
}

// Waits of a program before its first byte. Each is measured in a new process; see Contest::fresh_processes.

// Returns the time that was measured when the process opened its driver at start.
Sample tell_driver_open(Fixture& fixture, const Task&, const Gate& gate) {
  gate();
  return fixture.driver_open();
}

Sample register_first(Fixture& fixture, const Task& task, const Gate& gate) {
  Stopwatch watch(gate);
  const Handle handle(fixture.calls(), task.file, O_RDONLY);
  watch.stop();
  return watch.sample(0, 1);
}

Sample read_first(Fixture& fixture, const Task& task, const Gate& gate) {
  const Handle handle(fixture.calls(), task.file, O_RDONLY);
  Stopwatch watch(gate);
  expect(fixture.calls(), fixture.calls().read(handle.get(), fixture.memory(), task.block, 0, 0), task.block);
  watch.stop();
  const Sample sample = watch.sample(task.block, 1);
  if (task.verify) fixture.compare(handle.fd(), 0, fixture.memory(), task.block);
  return sample;
}

}  // namespace penstock::versus
