// SPDX-License-Identifier: Apache-2.0

// Turns a caller's request into a flight: the session finds its file and memory, and the engine's router chooses its
// path. Every front end admits its requests here.
#pragma once

#include <optional>
#include <span>

#include "base/shortage.h"
#include "core/paths.h"
#include "session/session.h"

namespace penstock::core {

// Calls `ask` with the request's file while it is pinned. Returns an empty answer if there is no such file, or no
// memory.
template <typename Ask>
auto of_pinned_file(Session& session, const RawRequest& request, Ask ask) {
  using Answer = decltype(ask(*static_cast<File*>(nullptr)));
  const PinnedFile file(session, request.file);
  if (!file) return Answer();
  return unless_short_of_memory([&] { return ask(*file); }, [] { return Answer(); });
}

// Makes a new flight ready for the engine.
Status admit_and_route(Session& session, const RawRequest& request, File* file, Flight& flight);
// Admits a request that states the facts of its memory, on a path that was found earlier for such memory and the file.
// Asks no device. False if that path does not take it.
bool admit_by(Session& session, Path& path, const RawRequest& request, File* file, Flight& flight);
// Admits a request whose memory is in pieces, as one request: the pieces are memory of one device, and the path that
// serves it gathers. False if they have to be moved one by one, which also finds any error in them.
bool admit_together(Session& session, RawRequest request, std::span<const MemoryPiece> pieces, File* file,
                    Flight& flight);

// Admits requests one after the other that differ only in their offsets and sizes. The route of the first request holds
// for the following ones if they lie in the same registered buffer, until reset(). Call reset() where the path of that
// route may have refused a chunk since, and may no longer serve the file.
class RouteCache {
 public:
  void reset() { bytes_ = 0; }
  // Admits like core::admit_and_route(); the flight may have been used before.
  Status admit_and_route(Session& session, const RawRequest& request, File* file, Flight& flight);

 private:
  std::uint64_t file_ = 0;
  const void* base_ = nullptr;
  std::uint64_t bytes_ = 0;    // The size of the registered buffer; 0: there is no route yet.
  std::uint64_t changes_ = 0;  // The session's buffer_changes() when the route was found.
  // The route.
  Op op_ = Op::read;
  std::optional<PathId> required_;
  bool prefer_cached_ = false;
  Path* path_ = nullptr;
  PointerFacts facts_;
  Report report_;
};

}  // namespace penstock::core
