// SPDX-License-Identifier: Apache-2.0

// Which way a request goes: asks each listed path once whether it serves, takes the first that does, and has it
// shape the request. Every refusal keeps its reason. The engine owns one.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/engine_rules.h"
#include "engine/flight.h"
#include "path/paths.h"

namespace penstock::core {

class Router {
 public:
  Router(const EngineRules& rules, const PathEnvironment& environment);

  // Sets path and report. Fails with path_refused.
  Status choose(Flight& flight) const;
  // How a request is moved whose path was chosen, without any effect. `chunk_max`: bytes that storage is asked for at
  // once, at most; a path may ask for more.
  void shape(Flight& flight, SubmitMode mode, std::uint64_t chunk_max) const;
  // It will be moved in that way, and is shaped anew where its path wants it so. Once for each request.
  static void commit(Flight& flight);
  // PathHooks::lend() of the path that was chosen for a read.
  static std::span<const std::byte> lend(const Flight& flight);
  // True if the request's bytes go between the file and its caller's staging memory, and no other way.
  bool is_staging(const Flight& flight) const { return flight.path == staging_path_.get(); }
  // Asks every path, listed ones first and in their order. Returns how many were written.
  unsigned judge_all(File& file, const PointerFacts& memory, Op op, Verdict (&verdicts)[kPathCount]) const;
  // By which the device's memory goes where no more direct path serves, if no file says otherwise; null: by none.
  Path* fallback_of(const Device& device) const;
  void forget_file(File& file);
  void add_buffer(const PointerFacts& memory, std::uint64_t base, std::uint64_t size);
  void remove_buffer(std::uint64_t base);

 private:
  using Paths = std::vector<std::unique_ptr<Path>>;

  const Paths& paths_for(const File& file) const { return file.userspace() != nullptr ? userspace_paths_ : paths_; }
  IoMode wanted_io_mode(const RoutedRequest& request) const;
  bool is_listed(PathId path) const;
  static void end_with_file(RoutedRequest& request);

  const EngineRules& rules_;
  Paths paths_;                         // In the configured order.
  Paths userspace_paths_;               // For files of file systems in user space.
  std::unique_ptr<Path> staging_path_;  // Between files and staging memory.
};

inline const char* transfer_step(Op op) {
  return op == Op::read ? "read the file into the buffer" : "write the buffer to the file";
}

}  // namespace penstock::core
