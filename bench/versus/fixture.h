// SPDX-License-Identifier: Apache-2.0

// The environment of one side's tasks: its library, its GPU, device memory as large as the file, and the clocks. One
// per process.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "bench/versus/calls.h"
#include "bench/versus/gpu.h"
#include "bench/versus/task.h"

namespace penstock::versus {

// Called when everything is ready; returns when the clock may start.
using Gate = std::function<void()>;

core::UniqueFd open_plainly(const std::string& file);  // Opens the file to read it without a library.

double now();
double cpu_seconds();  // CPU time of this process, user and system.

// Owns a descriptor and its registration.
class Handle {
 public:
  Handle(const Calls& calls, const std::string& file, int flags);
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  CUfileHandle_t get() const { return handle_; }
  int fd() const { return fd_.get(); }

 private:
  const Calls& calls_;
  core::UniqueFd fd_;
  CUfileHandle_t handle_ = nullptr;
};

// Registers device memory with the library while it lives. If the library refuses, the tasks run without, and a message
// says so.
class Registration {
 public:
  Registration(const Calls& calls, const char* memory, std::size_t size);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  const Calls& calls_;
  const char* memory_;
};

class Fixture {
 public:
  Fixture(const Calls& calls, Gpu& gpu, std::size_t memory_bytes, const Sample& driver_open);

  const Calls& calls() const { return calls_; }
  Gpu& gpu() const { return gpu_; }
  char* memory() const { return memory_; }  // Device memory.
  char* pinned() const { return pinned_; }
  std::size_t pinned_size() const { return pinned_size_; }
  const Sample& driver_open() const { return driver_open_; }  // The time that opening the library's driver took.

  // Keeps a file's handle open between tasks.
  void keep(const std::string& file, int flags) { kept_.try_emplace(file, calls_, file, flags); }
  void let_go(const std::string& file) { kept_.erase(file); }
  const Handle* kept(const std::string& file) const;

  // Fills the first bytes of device memory: with the file's bytes, or with other bytes; or compares them with the file.
  void load(const std::string& file, std::size_t size);
  void spoil(std::size_t size);
  void compare(const std::string& file, std::size_t size) const;
  void compare(const std::string& file, std::size_t size, const Gpu& gpu, const char* device) const;
  // Compares the bytes of one small request.
  void compare(int fd, std::uint64_t offset, const char* device, std::size_t size) const;

 private:
  void compare(int fd, std::uint64_t offset, const char* device, std::size_t size, const Gpu& gpu) const;

  const Calls& calls_;
  Gpu& gpu_;
  char* memory_;
  const std::size_t pinned_size_;
  char* pinned_;
  const Sample driver_open_;
  std::map<std::string, Handle> kept_;
};

// The file of a task, with its kept handle or a new one.
class Opened {
 public:
  Opened(const Fixture& fixture, const std::string& file, int flags) : handle_(fixture.kept(file)) {
    if (handle_ == nullptr) handle_ = &fresh_.emplace(fixture.calls(), file, flags);
  }
  const Handle& handle() const { return *handle_; }
  void close() { fresh_.reset(); }

 private:
  const Handle* handle_;
  std::optional<Handle> fresh_;
};

class Stopwatch {
 public:
  explicit Stopwatch(const Gate& gate);
  void stop() { sample_.end = now(); }
  // Takes the sample; CPU time counts up to here.
  Sample sample(std::uint64_t bytes, std::uint64_t operations);

 private:
  Sample sample_;
};

// Throws unless a call moved exactly `wanted` bytes.
void expect(const Calls& calls, ssize_t moved, std::size_t wanted);

}  // namespace penstock::versus
