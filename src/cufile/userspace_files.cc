// SPDX-License-Identifier: Apache-2.0

#include "cufile/userspace_files.h"

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/shortage.h"

namespace penstock::core {
namespace {

constexpr std::size_t kPieceBytes = 4u << 20;  // Through the host at once.

const char* step_of(Op op) {
  return op == Op::read ? "read by the file system's own call" : "write by the file system's own call";
}

// One call. Call-backs say -1 with errno, or a negative errno.
Result<std::size_t> call(const void* handle, const CUfileFSOps_t& calls, Op op, std::byte* memory, std::size_t size,
                         std::uint64_t offset) {
  errno = 0;
  const auto position = static_cast<off_t>(offset);
  auto* text = reinterpret_cast<char*>(memory);
  const ssize_t moved = op == Op::read ? calls.read(handle, text, size, position, nullptr)
                                       : calls.write(handle, text, size, position, nullptr);
  if (moved < -1) return os_failure(static_cast<int>(-std::max<ssize_t>(moved, -4095)), step_of(op));
  if (moved < 0) return os_failure(errno != 0 ? errno : EIO, step_of(op));
  if (static_cast<std::size_t>(moved) > size) return failure(Code::no_progress, step_of(op));
  return static_cast<std::size_t>(moved);
}

// Until everything is moved, the file ends, or something fails; `bytes` counts what was.
Status call_until_done(const void* handle, const CUfileFSOps_t& calls, Op op, std::byte* memory, std::size_t size,
                       std::uint64_t offset, std::uint64_t& bytes) {
  for (std::size_t done = 0; done < size;) {
    const Result<std::size_t> moved = call(handle, calls, op, memory + done, size - done, offset + done);
    // What was moved before a signal is told; where nothing was, that it came.
    if (!moved.ok()) return moved.status().is_errno(EINTR) && done > 0 ? success() : moved.status();
    if (*moved == 0) return op == Op::read ? success() : failure(Code::no_progress, step_of(op));
    done += *moved;
    bytes += *moved;
  }
  return success();
}

// Piece by piece through host memory.
Status move_device_memory(const void* handle, const CUfileFSOps_t& calls, Device& device, Op op, std::byte* memory,
                          std::size_t size, std::uint64_t offset, std::uint64_t& bytes) {
  Result<std::unique_ptr<CopyQueue>> copies = device.open_copy_queue(1);
  if (!copies.ok()) return copies.status();
  std::vector<std::byte> piece(std::min(size, kPieceBytes));
  while (bytes < size) {
    const std::size_t wanted = std::min<std::size_t>(piece.size(), size - bytes);
    std::byte* const there = memory + bytes;
    if (op == Op::write) {
      const Status copied = finish_copies(**copies, (*copies)->copy_to_host(piece.data(), there, wanted));
      if (!copied.ok()) return copied;
    }
    std::uint64_t moved = 0;
    const Status status = call_until_done(handle, calls, op, piece.data(), wanted, offset + bytes, moved);
    if (op == Op::read && moved > 0) {
      const Status copied = finish_copies(**copies, (*copies)->copy_to_device(there, piece.data(), moved));
      if (!copied.ok()) return copied;
    }
    bytes += moved;
    if (!status.ok() || moved < wanted) return status;
  }
  return success();
}

}  // namespace

Result<std::uint64_t> UserspaceFiles::insert(const void* handle, const CUfileFSOps_t* calls) {
  if (calls == nullptr) return failure(Code::unsupported, "register the file without its file system's calls");
  const Result<std::uint64_t> number = entries_.insert(std::make_unique<Entry>(Entry{handle, calls}));
  if (!number.ok()) return number.status();
  return *number | kMark;
}

Status UserspaceFiles::remove(std::uint64_t file) {
  if (entries_.retire(file & ~kMark) == nullptr) return failure(Code::not_registered, "deregister the file");
  (void)entries_.finish(file & ~kMark);
  return success();
}

bool UserspaceFiles::contains(std::uint64_t file) {
  const bool known = is_number(file) && entries_.pin(file & ~kMark) != nullptr;
  if (known) entries_.unpin(file & ~kMark);
  return known;
}

Outcome UserspaceFiles::transfer(Session& session, const RawRequest& request) {
  const std::uint64_t number = request.file & ~kMark;
  const Entry* entry = entries_.pin(number);
  if (entry == nullptr) return {failure(Code::not_registered, step_of(request.op)), {}};
  const auto no_room = [&] { return Outcome{failure(Code::out_of_memory, step_of(request.op)), {}}; };
  const auto move_all = [&] { return move(session, *entry, request); };
  const Outcome outcome = request.size == 0 ? Outcome{} : unless_short_of_memory(move_all, no_room);
  entries_.unpin(number);
  return outcome;
}

Outcome UserspaceFiles::move(Session& session, const Entry& entry, const RawRequest& request) {
  const bool able = request.op == Op::read ? entry.calls->read != nullptr : entry.calls->write != nullptr;
  if (!able) return {failure(Code::unsupported, step_of(request.op)), {}};
  const Result<PointerFacts> memory = session.memory_of(request);
  if (!memory.ok()) return {memory.status(), {}};
  Outcome outcome;
  outcome.report.path = memory->needs_device() ? PathId::bounce : PathId::host;
  outcome.report.path_reason = Reason::userspace_file;
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(request.base)) + request.buffer_offset;
  const auto offset = static_cast<std::uint64_t>(request.file_offset);
  std::uint64_t bytes = 0;
  outcome.status = memory->needs_device()
                       ? move_device_memory(entry.handle, *entry.calls, *memory->device, request.op, begin,
                                            request.size, offset, bytes)
                       : call_until_done(entry.handle, *entry.calls, request.op, begin, request.size, offset, bytes);
  outcome.report.bytes = bytes;
  session.engine().count(outcome.report, request.op);
  return outcome;
}

}  // namespace penstock::core
