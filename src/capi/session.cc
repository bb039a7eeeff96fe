// SPDX-License-Identifier: Apache-2.0

// The C API's sessions, their devices and buffers.
#include <algorithm>
#include <cstring>
#include <span>

#include "base/reachable_memory.h"
#include "capi/conversions.h"
#include "checksum/crc32c.h"
#include "penstock/checksums.h"
#include "penstock/device_memory.h"

namespace core = penstock::core;

namespace {

using core::Code;
using core::failure;
using core::GuardedSession;
using core::session_call;
using core::Status;
using core::status_call;
using core::success;

template <typename Number>
bool has_room(const Number* sums, std::uint64_t count) {
  return count <= SIZE_MAX / sizeof *sums && core::is_reachable(sums, count * sizeof *sums, core::Access::write);
}

// The array, if it can be written.
template <typename Number>
std::span<Number> room_at(Number* numbers, std::uint64_t count) {
  return {numbers, numbers != nullptr && has_room(numbers, count) ? count : 0};
}

penstock_device_info to_public(const core::DeviceFacts& facts) {
  penstock_device_info info{};
  info.ordinal = static_cast<std::uint32_t>(facts.ordinal);
  info.stand_in = facts.stand_in ? 1 : 0;
  info.memory_bytes = facts.memory_bytes;
  static_assert(sizeof info.name == sizeof facts.name && sizeof info.pci_address == sizeof facts.pci_address);
  std::memcpy(info.name, facts.name, sizeof info.name);
  std::memcpy(info.pci_address, facts.pci_address, sizeof info.pci_address);
  std::memcpy(info.uuid, facts.uuid, sizeof info.uuid);
  (void)core::copy_text(facts.kind, info.kind, sizeof info.kind);
  return info;
}

// Returns an empty piece if the address belongs to no device, and a piece without an end if the allocation's size is
// unknown.
core::MemoryPiece allocation_of(core::DeviceSet& devices, void* memory) {
  const core::PointerFacts facts = devices.describe(memory);
  if (!facts.needs_device()) return {memory, 0};
  if (facts.size != 0) return {memory, static_cast<std::size_t>(facts.size)};
  return {memory, SIZE_MAX - reinterpret_cast<std::uintptr_t>(memory)};
}

}  // namespace

extern "C" {

penstock_status penstock_session_open(const penstock_config* config, penstock_session** session) {
  return status_call("open a session", [&]() -> Status {
    if (session == nullptr) return failure(Code::invalid_argument, "open a session");
    *session = nullptr;
    auto opened = GuardedSession::open(config != nullptr ? config->pending : core::PendingValues{});
    if (!opened.ok()) return opened.status();
    *session = new penstock_session{std::move(*opened)};
    return success();
  });
}

void penstock_session_close(penstock_session* session) {
  return core::boundary(
      [&] {
        if (session == nullptr) return;
        if (session->owns && !session->guarded->is_inherited()) session->guarded->close();
        delete session;
      },
      [] {});
}

penstock_status penstock_session_reference(penstock_session* session, penstock_session** reference) {
  constexpr const char* kStep = "make a reference to the session";
  if (reference != nullptr) *reference = nullptr;
  return session_call(kStep, session, [&](const GuardedSession::Use&) -> Status {
    if (reference == nullptr) return failure(Code::invalid_argument, kStep);
    *reference = new penstock_session{session->guarded, false};
    return success();
  });
}

penstock_status penstock_session_get(penstock_session* session, penstock_session_info* info) {
  constexpr const char* kStep = "look at the session";
  return session_call(kStep, session, [&](const GuardedSession::Use& use) -> Status {
    if (const Status status = core::check_struct(info); !status.ok()) return status;
    core::write_struct(info, penstock_session_info{.struct_size = 0,
                                                   .device_count = use->devices().count(),
                                                   .pinned_bytes = use->engine().bounce_bytes(),
                                                   .device_kinds = session->guarded->device_kinds().c_str(),
                                                   .device_reason = session->guarded->device_reason().c_str()});
    return success();
  });
}

// ---- Devices -------------------------------------------------------------------------------------------------------

penstock_status penstock_device_get(penstock_session* session, uint32_t ordinal, penstock_device_info* info) {
  return session_call("look at the device", session, [&](const GuardedSession::Use& use) -> Status {
    if (const Status status = core::check_struct(info); !status.ok()) return status;
    const core::Result<core::Device*> device = use->devices().device(ordinal);
    if (device.ok()) core::write_struct(info, to_public((*device)->facts()));
    return device.status();
  });
}

penstock_status penstock_device_alloc(penstock_session* session, uint32_t ordinal, uint64_t size, void** memory) {
  constexpr const char* kStep = "allocate device memory";
  return session_call(kStep, session, [&](const GuardedSession::Use& use) -> Status {
    if (memory == nullptr) return failure(Code::invalid_argument, kStep);
    *memory = nullptr;
    const core::Result<core::Device*> device = use->devices().device(ordinal);
    if (!device.ok()) return device.status();
    const core::Result<void*> allocated = (*device)->memory().allocate(size);
    if (allocated.ok()) *memory = *allocated;
    return allocated.status();
  });
}

penstock_status penstock_device_free(penstock_session* session, uint32_t ordinal, void* memory) {
  return session_call("free device memory", session, [&](const GuardedSession::Use& use) -> Status {
    const core::Result<core::Device*> device = use->devices().device(ordinal);
    if (!device.ok() || memory == nullptr) return device.status();
    session->guarded->queues().wait_for(allocation_of(use->devices(), memory));
    (*device)->memory().drain_streams();
    (*device)->memory().release(memory);
    return success();
  });
}

penstock_status penstock_device_upload(penstock_session* session, void* device_memory, const void* host,
                                       uint64_t size) {
  constexpr const char* kStep = "copy to the device";
  return session_call(kStep, session, [&](const GuardedSession::Use&) -> Status {
    if (host == nullptr) return failure(Code::invalid_argument, kStep);
    return session->guarded->upload(device_memory, host, size);
  });
}

penstock_status penstock_device_download(penstock_session* session, void* host, const void* device_memory,
                                         uint64_t size) {
  constexpr const char* kStep = "copy from the device";
  return session_call(kStep, session, [&](const GuardedSession::Use&) -> Status {
    if (host == nullptr) return failure(Code::invalid_argument, kStep);
    return session->guarded->download(host, device_memory, size);
  });
}

// ---- Checksums -----------------------------------------------------------------------------------------------------

static bool is_memory(const void* memory, std::uint64_t size) {
  if (size == 0) return true;
  return memory != nullptr && size <= SIZE_MAX / 2 && reinterpret_cast<std::uintptr_t>(memory) <= UINTPTR_MAX - size;
}

penstock_status penstock_crc32c(penstock_session* session, const void* memory, uint64_t size, uint64_t piece_bytes,
                                uint32_t* sums) {
  constexpr const char* kStep = "make checksums";
  return session_call(kStep, session, [&](const GuardedSession::Use&) -> Status {
    if (size == 0) return core::success();
    if (!is_memory(memory, size) || sums == nullptr || piece_bytes == 0) return failure(Code::invalid_argument, kStep);
    const std::uint64_t count = (size - 1) / piece_bytes + 1;
    if (!has_room(sums, count)) return failure(Code::bad_pointer, kStep);
    return session->guarded->checksums().make(memory, size, piece_bytes, {sums, count});
  });
}

static Status check_pieces(const struct iovec* pieces, std::uint32_t count, const char* step) {
  if (count == 0) return success();
  if (pieces == nullptr) return failure(Code::invalid_argument, step);
  if (!core::is_reachable(pieces, count * sizeof(iovec), core::Access::read)) return failure(Code::bad_pointer, step);
  const bool are_memory =
      std::all_of(pieces, pieces + count, [](const iovec& one) { return is_memory(one.iov_base, one.iov_len); });
  return are_memory ? success() : failure(Code::invalid_argument, step);
}

penstock_status penstock_crc32c_vector(penstock_session* session, const struct iovec* pieces, uint32_t count,
                                       uint32_t* sums) {
  constexpr const char* kStep = "make checksums";
  return session_call(kStep, session, [&](const GuardedSession::Use&) -> Status {
    if (count == 0) return core::success();
    if (sums == nullptr) return failure(Code::invalid_argument, kStep);
    if (const Status status = check_pieces(pieces, count, kStep); !status.ok()) return status;
    if (!has_room(sums, count)) return failure(Code::bad_pointer, kStep);
    return session->guarded->checksums().make({pieces, count}, {sums, count});
  });
}

static penstock_status begin_checksums(penstock_session* session, const struct iovec* pieces, uint32_t count,
                                       void* stream, bool hashed, penstock_checksums** checksums) {
  constexpr const char* kStep = "make checksums";
  if (checksums != nullptr) *checksums = nullptr;
  return session_call(kStep, session, [&](const GuardedSession::Use&) -> Status {
    if (checksums == nullptr) return failure(Code::invalid_argument, kStep);
    if (const Status status = check_pieces(pieces, count, kStep); !status.ok()) return status;
    auto handle = std::make_unique<penstock_checksums>(penstock_checksums{session->guarded, 0, count});
    const core::Result<std::uint64_t> begun = session->guarded->checksums().begin({pieces, count}, stream, hashed);
    if (!begun.ok()) return begun.status();
    handle->number = *begun;
    *checksums = handle.release();
    return success();
  });
}

penstock_status penstock_crc32c_begin(penstock_session* session, const struct iovec* pieces, uint32_t count,
                                      void* stream, penstock_checksums** checksums) {
  return begin_checksums(session, pieces, count, stream, false, checksums);
}

penstock_status penstock_fingerprints_begin(penstock_session* session, const struct iovec* pieces, uint32_t count,
                                            void* stream, penstock_checksums** checksums) {
  return begin_checksums(session, pieces, count, stream, true, checksums);
}

penstock_status penstock_fingerprints_end(penstock_checksums* checksums, uint32_t* sums, uint64_t* hashes) {
  constexpr const char* kStep = "make checksums";
  const std::unique_ptr<penstock_checksums> owned(checksums);
  return session_call(kStep, checksums, [&](const GuardedSession::Use&) -> Status {
    const auto sums_room = room_at(sums, checksums->count);
    const auto hashes_room = room_at(hashes, checksums->count);
    const Status status = checksums->guarded->checksums().end(checksums->number, sums_room, hashes_room);
    const bool is_lost = (sums != nullptr && sums_room.size() < checksums->count) ||
                         (hashes != nullptr && hashes_room.size() < checksums->count);
    return status.ok() && is_lost ? failure(Code::bad_pointer, kStep) : status;
  });
}

penstock_status penstock_crc32c_end(penstock_checksums* checksums, uint32_t* sums) {
  return penstock_fingerprints_end(checksums, sums, nullptr);
}

uint32_t penstock_crc32c_combine(uint32_t first, uint32_t second, uint64_t second_bytes) {
  return core::crc32c_combine(first, second, second_bytes);
}

// ---- Buffers -------------------------------------------------------------------------------------------------------

penstock_status penstock_buffer_register(penstock_session* session, const void* base, uint64_t size,
                                         penstock_buffer** buffer) {
  constexpr const char* kStep = "register the buffer";
  if (buffer != nullptr) *buffer = nullptr;
  return session_call(kStep, session, [&](const GuardedSession::Use& use) -> Status {
    if (buffer == nullptr) return failure(Code::invalid_argument, kStep);
    auto handle = std::make_unique<penstock_buffer>(penstock_buffer{session->guarded, base});
    const Status status = use->register_buffer(base, size);
    if (status.ok()) *buffer = handle.release();
    return status;
  });
}

void penstock_buffer_close(penstock_buffer* buffer) {
  return core::boundary(
      [&] {
        if (buffer == nullptr) return;
        if (const GuardedSession::Use use(*buffer->guarded); use) {
          buffer->guarded->queues().wait_for(use->buffer_at(buffer->base));
          (void)use->deregister_buffer(buffer->base);
        }
        delete buffer;
      },
      [] {});
}

}  // extern "C"
