// SPDX-License-Identifier: Apache-2.0

// How a request that callers state becomes a flight: the session finds out what it is about, and the engine's router
// which way it goes. Every front end admits its requests here.
#pragma once

#include <span>

#include "session/session.h"

namespace penstock::core {

// Ready for the engine. The flight is a new one.
Status admit(Session& session, const RawRequest& request, File* file, Flight& flight);
// The same for memory whose facts the request states, on a path that was found before for such memory and the file.
// Asks no device. False where it cannot be made so.
bool admit_by(Session& session, Path& path, const RawRequest& request, File* file, Flight& flight);
// The same for a request whose memory is in pieces, all of it as one: they are memory of one device, and the path that
// serves it gathers. False where they have to be moved one by one, which also finds what is wrong with them.
bool admit_together(Session& session, RawRequest request, std::span<const MemoryPiece> pieces, File* file,
                    Flight& flight);

// Admits requests one after the other that differ in their offsets and sizes alone. The route that the first was given
// holds for those behind it, if they lie in one registered buffer: until reset(), which is to be called before a
// request for which a path may have been given up.
class RouteCache {
 public:
  void reset() { bytes_ = 0; }
  // As admit(); the flight may have been another's.
  Status admit(Session& session, const RawRequest& request, File* file, Flight& flight);

 private:
  std::uint64_t file_ = 0;
  const void* base_ = nullptr;
  std::uint64_t bytes_ = 0;    // Registered. 0: there is nothing to go by.
  std::uint64_t changes_ = 0;  // The session's buffer_changes() by then.
  // The route.
  Op op_ = Op::read;
  bool prefer_cached_ = false;
  Path* path_ = nullptr;
  PointerFacts facts_;
  Report report_;
};

}  // namespace penstock::core
