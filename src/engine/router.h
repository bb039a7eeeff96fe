// SPDX-License-Identifier: Apache-2.0

// Chooses the path of a request: asks each listed path once if it serves, takes the first that does, and has it shape
// the request. Every refusal keeps its reason. The engine owns one router.
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

  // Sets the flight's path and report. Fails with path_refused.
  Status choose(Flight& flight) const;
  // Asks the chosen path how the request is to be moved, without any effect. `chunk_max` is the most bytes for each
  // storage operation; a path may ask for more.
  void shape(Flight& flight, SubmitMode mode, std::uint64_t chunk_max) const;
  // Tells the path that the request will be moved; the path may shape it anew. Then ends a direct read where the file
  // ends. Called once for each request.
  static void before_move(Flight& flight);
  // PathHooks::lend() of the path that was chosen for a read.
  static std::span<const std::byte> lend(const Flight& flight);
  // True if the request's bytes go between the file and its caller's staging memory, and not further.
  bool is_staging(const Flight& flight) const { return flight.path == staging_path_.get(); }
  // Asks every path, first the listed ones in their order. Returns the number of verdicts written.
  unsigned judge_all(File& file, const PointerFacts& memory, Op op, Verdict (&verdicts)[kPathCount]) const;
  // The path for the device's memory if no more direct one serves and the file needs no special one; null: none.
  Path* fallback_of(const Device& device) const;
  void forget_file(File& file);
  void add_buffer(const PointerFacts& memory, std::uint64_t base, std::uint64_t size);
  void remove_buffer(std::uint64_t base);

 private:
  using Paths = std::vector<std::unique_ptr<Path>>;

  const Paths& paths_for(const File& file) const { return file.userspace() != nullptr ? userspace_paths_ : paths_; }
  Verdict judge(const Flight& flight, std::size_t index) const;
  IoMode wanted_io_mode(const RoutedRequest& request) const;
  bool is_listed(PathId path) const;
  static void end_with_file(RoutedRequest& request);

  const EngineRules& rules_;
  Paths paths_;                         // In the configured order.
  Paths userspace_paths_;               // For files of file systems in user space.
  std::unique_ptr<Path> staging_path_;  // Moves bytes between files and staging memory.
};

inline const char* transfer_step(Op op) {
  return op == Op::read ? "read the file into the buffer" : "write the buffer to the file";
}

}  // namespace penstock::core
