// SPDX-License-Identifier: Apache-2.0

#include "frontend/transfer.h"

#include "base/shortage.h"
#include "frontend/admission.h"
#include "stats/usage.h"

namespace penstock::core {
namespace {

Outcome move(Session& session, const RawRequest& request, File& file, Flight& flight) {
  Outcome outcome = session.engine().move(flight);
  if (request.op == Op::write && outcome.report.bytes < request.size) session.release_blocks(request.file, file);
  return outcome;
}

Outcome transfer_with_file(Session& session, const RawRequest& request, File* file) {
  Flight flight;
  // If no bytes are to be moved, the path does not matter.
  if (request.size == 0) return {session.check(request, file, flight.request), flight.report};
  if (const Status status = admit_and_route(session, request, file, flight); !status.ok())
    return {status, flight.report};
  if (!file->fstat_descriptors(&flight.request.file_end)) return {descriptor_lost(), flight.report};
  return move(session, request, *file, flight);
}

std::optional<Outcome> move_together(Session& session, const RawRequest& request, std::span<const MemoryPiece> pieces,
                                     File& file) {
  Flight flight;
  if (!admit_together(session, request, pieces, &file, flight)) return std::nullopt;
  if (!file.fstat_descriptors()) return Outcome{descriptor_lost(), flight.report};
  const UsageCount usage(file.usage());
  const Outcome outcome = move(session, request, file, flight);
  usage.end(request.op, outcome.report.bytes, outcome.status);
  return outcome;
}

std::optional<Outcome> read_if_cached(Session& session, const RawRequest& request, File& file) {
  Flight flight;
  // A report counts a request when it begins, and this one may not happen.
  if (session.config().usage != nullptr || !admit_and_route(session, request, &file, flight).ok()) return std::nullopt;
  return file.fstat_descriptors() ? session.engine().read_if_cached(flight) : std::nullopt;
}

}  // namespace

std::optional<Outcome> transfer_if_cached(Session& session, const RawRequest& request) {
  return of_pinned_file(session, request, [&](File& file) { return read_if_cached(session, request, file); });
}

std::optional<Outcome> transfer_together(Session& session, const RawRequest& request,
                                         std::span<const MemoryPiece> pieces) {
  const PinnedFile file(session, request.file);
  if (!file) return std::nullopt;
  using Moved = std::optional<Outcome>;
  const auto no_room = [&] { return Moved({failure(Code::out_of_memory, transfer_step(request.op)), {}}); };
  return unless_short_of_memory([&] { return move_together(session, request, pieces, *file); }, no_room);
}

Outcome transfer(Session& session, const RawRequest& request) {
  const PinnedFile file(session, request.file);
  const UsageCount usage(file ? file->usage() : nullptr);
  const auto no_room = [&] { return Outcome{failure(Code::out_of_memory, transfer_step(request.op)), {}}; };
  const Outcome outcome =
      unless_short_of_memory([&] { return transfer_with_file(session, request, file.get()); }, no_room);
  usage.end(request.op, outcome.report.bytes, outcome.status);
  return outcome;
}

}  // namespace penstock::core
