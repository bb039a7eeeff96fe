// SPDX-License-Identifier: Apache-2.0

// One side of a comparison: a separate process with one library, kept alive between tasks, since a library reads its
// settings once. Several that work in parallel, each with one GPU, are a Team.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/versus/calls.h"
#include "bench/versus/task.h"

namespace penstock::versus {

struct SideSettings {
  std::string name;
  std::function<Calls()> load;  // Called in the new process.
  std::vector<std::pair<std::string, std::string>> environment;
  std::uint64_t memory_bytes = 0;  // Bytes of device memory.
  bool stand_in = false;           // Host memory stands in for the GPU.
};

class Side {
 public:
  // Forks: the calling process must have only one thread. The new process opens library and GPU; greet() waits for
  // that.
  explicit Side(const SideSettings& settings);
  ~Side();
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  // Waits until library and GPU are open; returns the GPU's name.
  std::string greet();
  // The three steps of a task. An error in the process is thrown here, as a Failure.
  void prepare(const Task& task);
  void wait_until_ready();
  void go();
  Sample result();
  void quit();  // Asks it to end without waiting, like the destructor.

 private:
  nlohmann::json receive();
  [[noreturn]] void lost();
  void send(const std::string& text);

  std::string name_;
  int socket_ = -1;
  pid_t process_ = -1;
};

class Team {
 public:
  // ranks > 1: each sees one GPU, and the file of a task is FILE.RANK.
  Team(const SideSettings& settings, unsigned ranks);
  ~Team();
  Sample run(const Task& task);
  const std::string& gpu() const { return gpu_; }

 private:
  std::vector<std::unique_ptr<Side>> sides_;
  std::string gpu_;
};

// The file of one rank.
std::string rank_file(const std::string& file, unsigned rank, unsigned ranks);

}  // namespace penstock::versus
