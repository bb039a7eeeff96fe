// SPDX-License-Identifier: Apache-2.0

#include "frontend/call.h"

#include "base/shortage.h"
#include "stats/usage.h"

namespace penstock::core {
namespace {

Outcome move(Session& session, const RawRequest& request, File& file, Routed& routed) {
  Outcome outcome = session.engine().move(routed);
  if (request.op == Op::write && outcome.report.bytes < request.size) session.release_blocks(request.file, file);
  return outcome;
}

Outcome transfer_pinned(Session& session, const RawRequest& request, File* file) {
  Routed routed;
  // Where nothing is to be moved, it does not matter where to.
  Status status = request.size > 0 ? session.admit(request, file, routed) : session.check(request, file, routed);
  if (status.ok() && request.size > 0 && !file->has_its_descriptors(&routed.input.file_end)) status = descriptor_lost();
  if (!status.ok() || request.size == 0) return {status, routed.report};
  return move(session, request, *file, routed);
}

std::optional<Outcome> move_together(Session& session, const RawRequest& request, std::span<const MemoryPiece> pieces,
                                     File& file) {
  Routed routed;
  if (!session.admit_together(request, pieces, &file, routed)) return std::nullopt;
  if (!file.has_its_descriptors()) return Outcome{descriptor_lost(), routed.report};
  FileUsage* const usage = session.config().usage == nullptr ? nullptr : file.usage();
  const std::uint64_t began = usage == nullptr ? 0 : usage->begin();
  const Outcome outcome = move(session, request, file, routed);
  if (usage != nullptr) usage->end(request.op, outcome.report.bytes, !outcome.status.ok(), began);
  return outcome;
}

std::optional<Outcome> read_cached(Session& session, const RawRequest& request, File& file) {
  Routed routed;
  // A report counts what was begun, and this may come to nothing.
  if (session.config().usage != nullptr || !session.admit(request, &file, routed).ok()) return std::nullopt;
  return file.has_its_descriptors() ? session.engine().read_cached(routed) : std::nullopt;
}

}  // namespace

std::optional<Outcome> transfer_cached(Session& session, const RawRequest& request) {
  File* const file = session.pin_file(request.file);
  if (file == nullptr) return std::nullopt;
  const auto no_room = [] { return std::optional<Outcome>(); };
  const std::optional<Outcome> outcome =
      unless_short_of_memory([&] { return read_cached(session, request, *file); }, no_room);
  session.unpin_file(request.file);
  return outcome;
}

std::optional<Outcome> transfer_together(Session& session, const RawRequest& request,
                                         std::span<const MemoryPiece> pieces) {
  File* const file = session.pin_file(request.file);
  if (file == nullptr) return std::nullopt;
  using Moved = std::optional<Outcome>;
  const auto no_room = [&] { return Moved({failure(Code::out_of_memory, transfer_step(request.op)), {}}); };
  Moved outcome = unless_short_of_memory([&] { return move_together(session, request, pieces, *file); }, no_room);
  session.unpin_file(request.file);
  return outcome;
}

Outcome transfer_uncounted(Session& session, const RawRequest& request) {
  File* const file = session.pin_file(request.file);
  const auto no_room = [&] { return Outcome{failure(Code::out_of_memory, transfer_step(request.op)), {}}; };
  Outcome outcome = unless_short_of_memory([&] { return transfer_pinned(session, request, file); }, no_room);
  if (file != nullptr) session.unpin_file(request.file);
  return outcome;
}

Outcome transfer_counted(Session& session, const RawRequest& request) {
  File* const file = session.pin_file(request.file);
  if (file == nullptr) return transfer_uncounted(session, request);
  const std::uint64_t began = file->usage()->begin();
  const Outcome outcome = transfer_uncounted(session, request);
  file->usage()->end(request.op, outcome.report.bytes, !outcome.status.ok(), began);
  session.unpin_file(request.file);
  return outcome;
}

}  // namespace penstock::core
