// SPDX-License-Identifier: Apache-2.0

// The C API: translates between include/penstock/penstock.h and the core, and nothing more.
#include "penstock/penstock.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>

#include "capi/call.h"
#include "device/providers.h"
#include "frontend/call.h"
#include "frontend/queue.h"

namespace core = penstock::core;

namespace {

using core::Code;
using core::failed;
using core::Status;
using core::status_call;

constexpr unsigned kReapMax = 16;  // At once: threads may have small stacks.

Status to_core(const penstock_status& status) {
  return {status.step != nullptr ? status.step : "", status.code, static_cast<core::Domain>(status.domain),
          static_cast<std::uint8_t>(status.driver)};
}

// The C name of a queue is the queue itself.
core::Queue* to_core(penstock_queue* queue) { return reinterpret_cast<core::Queue*>(queue); }

const char* name_of(core::AlignmentSource source) {
  switch (source) {
    case core::AlignmentSource::none: return "none";
    case core::AlignmentSource::statx: return "statx";
    case core::AlignmentSource::block_device: return "block device";
    case core::AlignmentSource::assumed: return "assumed";
  }
  return "none";
}

// Fields that an older caller's structure does not reach are left at "not said".
penstock_options read_options(const penstock_options* options) {
  penstock_options known{};
  if (options != nullptr) std::memcpy(&known, options, std::min(options->size, sizeof known));
  return known;
}

// Zero and null leave a setting to the environment. Whole units of it, as the settings have them.
Status stage_options(core::Staged& staged, const penstock_options& said) {
  Status status;
  const auto stage = [&](const char* name, const std::string& value) {
    if (status.ok()) status = core::stage_named(staged, name, value);
  };
  if (said.ring_bytes != 0) stage("bounce_mib", std::to_string((said.ring_bytes - 1) / (1u << 20) + 1));
  if (said.chunk_bytes != 0) stage("chunk_kib", std::to_string((said.chunk_bytes >> 16) << 6));
  if (said.workers != 0) stage("workers", std::to_string(said.workers));
  if (said.device != nullptr) stage("device", said.device);
  if (said.paths != nullptr) stage("paths", said.paths);
  if (said.require != nullptr) stage("require", said.require);
  if (said.direct_io != nullptr) stage("direct_io", said.direct_io);
  if (said.io_uring != nullptr) stage("io_uring", said.io_uring);
  return status;
}

// Whether a newer caller says something there that this version has no name for.
bool says_more(const penstock_options& options) {
  const auto* const bytes = reinterpret_cast<const char*>(&options);
  return options.size > sizeof options &&
         std::any_of(bytes + sizeof options, bytes + options.size, [](char byte) { return byte != 0; });
}

penstock_status transfer(penstock_session* session, const core::RawRequest& request, penstock_report* report) {
  if (report != nullptr) *report = {};
  if (session == nullptr) return failed(Code::invalid_argument, "use the session");
  return status_call("move the request", [&] {
    const core::Outcome outcome = core::transfer(*session->session, request);
    if (report != nullptr) *report = core::to_public(outcome.report);
    return core::to_public(outcome.status);
  });
}

// `device_memory` decides the device; the copy is over when this returns.
template <typename Copy>
penstock_status copy_now(penstock_session* session, const void* device_memory, Copy copy) {
  const core::PointerFacts facts = session->session->devices().describe(device_memory);
  if (!facts.needs_device()) return failed(Code::bad_pointer, "copy device memory");
  if (facts.device == nullptr) return failed(Code::no_device, "copy device memory");
  const std::lock_guard lock(session->copies_mutex);
  std::unique_ptr<core::CopyQueue>& queue = session->copies[facts.device];
  if (queue == nullptr) {
    core::Result<std::unique_ptr<core::CopyQueue>> opened = facts.device->open_copy_queue(1);
    if (!opened.ok()) return core::to_public(opened.status());
    queue = std::move(*opened);
  }
  return core::to_public(core::finish_copies(*queue, copy(*queue)));
}

}  // namespace

namespace penstock::core {

std::size_t copy_text(const std::string& message, char* text, std::size_t capacity) {
  if (text == nullptr || capacity == 0) return 0;
  const std::size_t length = std::min(message.size(), capacity - 1);
  std::memcpy(text, message.data(), length);
  text[length] = '\0';
  return length;
}

}  // namespace penstock::core

extern "C" {

const char* penstock_version(void) { return "0.1.0"; }

size_t penstock_status_message(penstock_status status, char* text, size_t capacity) {
  return core::count_call([&] {
    const Status told = to_core(status);
    return core::copy_text(core::describe(told, core::driver_of(told)), text, capacity);
  });
}

const char* penstock_status_driver(penstock_status status) { return core::driver_of(to_core(status)); }

const char* penstock_path_name(int path) {
  return path >= 0 && path < static_cast<int>(core::kPathCount) ? core::path_name(static_cast<core::PathId>(path))
                                                                : "unknown";
}

int penstock_path_by_name(const char* name) {
  const std::optional<core::PathId> path = name != nullptr ? core::path_named(name) : std::nullopt;
  return path ? static_cast<int>(*path) : -1;
}

const char* penstock_reason_name(int reason) {
  return reason >= 0 && reason < PENSTOCK_REASON_COUNT ? core::reason_name(static_cast<core::Reason>(reason))
                                                       : "unknown";
}
const char* penstock_reason_sentence(int reason) {
  return reason >= 0 && reason < PENSTOCK_REASON_COUNT ? core::reason_sentence(static_cast<core::Reason>(reason)) : "";
}
const char* penstock_reason_remedy(int reason) {
  return reason >= 0 && reason < PENSTOCK_REASON_COUNT ? core::reason_remedy(static_cast<core::Reason>(reason)) : "";
}

// ---- Session -------------------------------------------------------------------------------------------------------

penstock_status penstock_session_open(const penstock_options* options, penstock_session** session) {
  return status_call("open a session", [&]() -> penstock_status {
    if (session == nullptr) return failed(Code::invalid_argument, "open a session");
    *session = nullptr;
    if (options != nullptr && options->size < sizeof options->size) {
      return failed(Code::invalid_argument, "open a session with options whose size is not set");
    }
    if (options != nullptr && says_more(*options)) {
      return failed(Code::unsupported, "open a session with options of a newer version");
    }
    const penstock_options said = read_options(options);
    core::Staged staged;
    if (const Status status = stage_options(staged, said); !status.ok()) return core::to_public(status);
    core::Result<std::unique_ptr<penstock_session>> opened = core::open_session(staged);
    if (!opened.ok()) return core::to_public(opened.status());
    *session = opened->release();
    return {};
  });
}

void penstock_session_close(penstock_session* session) {
  return core::boundary(
      [&] {
        if (session == nullptr || session->session->is_inherited()) return;
        delete session;
      },
      [] {});
}

const char* penstock_session_device_kind(penstock_session* session) {
  return session != nullptr ? session->device_kind.c_str() : "";
}
const char* penstock_session_device_reason(penstock_session* session) {
  return session != nullptr ? session->device_reason.c_str() : "";
}
uint64_t penstock_ring_bytes(penstock_session* session) {
  return session != nullptr ? session->session->engine().bounce_bytes() : 0;
}

// ---- Devices -------------------------------------------------------------------------------------------------------

const char* penstock_device_kind_name(unsigned number) {
  return number < core::providers().size() ? core::providers()[number].name : nullptr;
}
const char* penstock_device_kind_sentence(unsigned number) {
  return number < core::providers().size() ? core::providers()[number].what : nullptr;
}

unsigned penstock_device_count(penstock_session* session) {
  return session != nullptr ? session->session->devices().count() : 0;
}

penstock_status penstock_device_get(penstock_session* session, unsigned ordinal, penstock_device_info* info) {
  return status_call("look at the device", [&]() -> penstock_status {
    if (session == nullptr || info == nullptr) return failed(Code::invalid_argument, "look at the device");
    const core::Result<core::Device*> device = session->session->devices().device(ordinal);
    if (!device.ok()) return core::to_public(device.status());
    const core::DeviceFacts& facts = (*device)->facts();
    *info = {};
    info->ordinal = facts.ordinal;
    info->stand_in = facts.stand_in ? 1 : 0;
    std::memcpy(info->name, facts.name, sizeof info->name);
    std::memcpy(info->pci_address, facts.pci_address, sizeof info->pci_address);
    std::memcpy(info->uuid, facts.uuid, sizeof info->uuid);
    info->memory_bytes = facts.memory_bytes;
    std::snprintf(info->kind, sizeof info->kind, "%.15s", facts.kind);
    return {};
  });
}
static_assert(sizeof(penstock_device_info::name) == sizeof(core::DeviceFacts::name));
static_assert(sizeof(penstock_device_info::pci_address) == sizeof(core::DeviceFacts::pci_address));

penstock_status penstock_device_alloc(penstock_session* session, unsigned ordinal, size_t size, void** memory) {
  return status_call("allocate device memory", [&]() -> penstock_status {
    if (session == nullptr || memory == nullptr) return failed(Code::invalid_argument, "allocate device memory");
    *memory = nullptr;
    const core::Result<core::Device*> device = session->session->devices().device(ordinal);
    if (!device.ok()) return core::to_public(device.status());
    const core::Result<void*> allocated = (*device)->allocate(size);
    if (!allocated.ok()) return core::to_public(allocated.status());
    *memory = *allocated;
    return {};
  });
}

void penstock_device_free(penstock_session* session, unsigned ordinal, void* memory) {
  return core::boundary(
      [&] {
        if (session == nullptr || memory == nullptr) return;
        const core::Result<core::Device*> device = session->session->devices().device(ordinal);
        if (device.ok()) (*device)->release(memory);
      },
      [] {});
}

penstock_status penstock_device_upload(penstock_session* session, void* device_memory, const void* host, size_t size) {
  return status_call("copy to the device", [&]() -> penstock_status {
    if (session == nullptr || host == nullptr) return failed(Code::invalid_argument, "copy to the device");
    return copy_now(session, device_memory,
                    [&](core::CopyQueue& queue) { return queue.copy_to_device(device_memory, host, size); });
  });
}

penstock_status penstock_device_download(penstock_session* session, void* host, const void* device_memory,
                                         size_t size) {
  return status_call("copy from the device", [&]() -> penstock_status {
    if (session == nullptr || host == nullptr) return failed(Code::invalid_argument, "copy from the device");
    return copy_now(session, device_memory,
                    [&](core::CopyQueue& queue) { return queue.copy_to_host(host, device_memory, size); });
  });
}

// ---- Files and buffers ---------------------------------------------------------------------------------------------

penstock_status penstock_file_register(penstock_session* session, int fd, penstock_file* file) {
  return status_call("register the file", [&]() -> penstock_status {
    if (session == nullptr || file == nullptr) return failed(Code::invalid_argument, "register the file");
    *file = 0;
    const core::Result<std::uint64_t> registered = session->session->register_file(fd);
    if (!registered.ok()) return core::to_public(registered.status());
    *file = *registered;
    return {};
  });
}

penstock_status penstock_file_deregister(penstock_session* session, penstock_file file) {
  return status_call("deregister the file", [&]() -> penstock_status {
    if (session == nullptr) return failed(Code::invalid_argument, "deregister the file");
    return core::to_public(session->session->deregister_file(file));
  });
}

penstock_status penstock_file_get(penstock_session* session, penstock_file file, penstock_file_info* info) {
  return status_call("look at the file", [&]() -> penstock_status {
    if (session == nullptr || info == nullptr) return failed(Code::invalid_argument, "look at the file");
    const core::Result<core::FileFacts> facts = session->session->file_facts(file);
    if (!facts.ok()) return core::to_public(facts.status());
    *info = {.size = facts->size,
             .inode = facts->inode,
             .device_major = major(facts->block_device),
             .device_minor = minor(facts->block_device),
             .is_block_device = facts->type == core::FileType::block_device,
             .readable = facts->readable(),
             .writable = facts->writable(),
             .opened_direct = facts->opened_direct(),
             .direct_memory_align = facts->direct_memory_align,
             .direct_offset_align = facts->direct_offset_align,
             .alignment_source = name_of(facts->alignment_source),
             .file_system = core::file_system_name(facts->file_system_magic)};
    return {};
  });
}

penstock_status penstock_buffer_register(penstock_session* session, const void* base, size_t size) {
  return status_call("register the buffer", [&]() -> penstock_status {
    if (session == nullptr) return failed(Code::invalid_argument, "register the buffer");
    return core::to_public(session->session->register_buffer(base, size));
  });
}

penstock_status penstock_buffer_deregister(penstock_session* session, const void* base) {
  return status_call("deregister the buffer", [&]() -> penstock_status {
    if (session == nullptr) return failed(Code::invalid_argument, "deregister the buffer");
    return core::to_public(session->session->deregister_buffer(base));
  });
}

// ---- Transfers -----------------------------------------------------------------------------------------------------

penstock_status penstock_read(penstock_session* session, penstock_file file, void* base, size_t size,
                              int64_t file_offset, int64_t buffer_offset, penstock_report* report) {
  return transfer(session, {core::Op::read, file, base, size, file_offset, buffer_offset}, report);
}

penstock_status penstock_write(penstock_session* session, penstock_file file, const void* base, size_t size,
                               int64_t file_offset, int64_t buffer_offset, penstock_report* report) {
  return transfer(session, {core::Op::write, file, base, size, file_offset, buffer_offset}, report);
}

penstock_status penstock_queue_open(penstock_session* session, unsigned depth, size_t request_bytes_max,
                                    penstock_queue** queue) {
  return status_call("open the queue", [&]() -> penstock_status {
    if (session == nullptr || queue == nullptr) return failed(Code::invalid_argument, "open the queue");
    *queue = nullptr;
    core::Result<std::unique_ptr<core::Queue>> opened = core::Queue::open(*session->session, depth, request_bytes_max);
    if (!opened.ok()) return core::to_public(opened.status());
    *queue = reinterpret_cast<penstock_queue*>(opened->release());
    return {};
  });
}

void penstock_queue_close(penstock_queue* queue) {
  return core::boundary(
      [&] {
        if (queue == nullptr || to_core(queue)->is_inherited()) return;
        delete to_core(queue);
      },
      [] {});
}

penstock_status penstock_queue_submit(penstock_queue* queue, const penstock_request* request) {
  return status_call("submit to the queue", [&]() -> penstock_status {
    if (queue == nullptr || request == nullptr) return failed(Code::invalid_argument, "submit to the queue");
    const core::Result<core::Op> op = core::op_of(request->is_write);
    if (!op.ok()) return core::to_public(op.status());
    if ((request->reserved[0] | request->reserved[1]) != 0) {
      return failed(Code::invalid_argument, "submit a request whose reserved members are not zero");
    }
    return core::to_public(to_core(queue)->submit(
        {*op, request->file, request->base, request->size, request->file_offset, request->buffer_offset},
        request->cookie));
  });
}

unsigned penstock_queue_reap(penstock_queue* queue, penstock_completion* completions, unsigned capacity,
                             unsigned least) {
  return core::count_call([&]() -> unsigned {
    if (queue == nullptr) return 0;
    if (completions == nullptr) capacity = 0;
    unsigned count = 0;
    do {
      core::QueueCompletion batch[kReapMax];
      const unsigned wanted = std::min(capacity - count, kReapMax);
      const unsigned got = to_core(queue)->reap({batch, wanted}, least > count ? least - count : 0);
      for (unsigned i = 0; i < got; ++i) {
        completions[count++] = {batch[i].cookie, core::to_public(batch[i].status), core::to_public(batch[i].report)};
      }
      if (got < wanted) break;
    } while (count < capacity);
    return count;
  });
}

}  // extern "C"

static_assert(PENSTOCK_REASON_COUNT == core::kReasonCount && PENSTOCK_REASON_OBSTACLE == core::kFirstObstacle);
static_assert(PENSTOCK_PATH_NULL == static_cast<int>(core::PathId::null));
static_assert(PENSTOCK_REASON_USERSPACE_FILE == static_cast<int>(core::Reason::userspace_file));
static_assert(PENSTOCK_REASON_SELF_TEST_REFUSED == core::kFirstPipelineReason);
static_assert(PENSTOCK_REASON_NOT_KEPT == core::kFirstPagecacheReason);
static_assert(PENSTOCK_REASON_VENDOR_LIBRARY_MISSING == core::kFirstVendorReason);
static_assert(PENSTOCK_DENIED == static_cast<int>(core::Code::denied));
static_assert(PENSTOCK_NO_DIRECT_PATH == static_cast<int>(core::Code::no_direct_path));
static_assert(PENSTOCK_DESCRIPTOR_LOST == static_cast<int>(core::Code::descriptor_lost));
