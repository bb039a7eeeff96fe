// SPDX-License-Identifier: Apache-2.0

// The C API's files, and its synchronous transfers.
#include <fcntl.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "capi/conversions.h"
#include "frontend/transfer.h"
#include "frontend/vectored.h"

namespace core = penstock::core;

namespace {

using core::Code;
using core::failure;
using core::GuardedSession;
using core::session_call;
using core::Status;
using core::success;

const char* name_of(core::AlignmentSource source) {
  switch (source) {
    case core::AlignmentSource::none: return "none";
    case core::AlignmentSource::statx: return "statx";
    case core::AlignmentSource::block_device: return "block device";
    case core::AlignmentSource::assumed: return "assumed";
  }
  return "none";
}

penstock_file_info to_public(const core::FileFacts& facts) {
  return {.struct_size = 0,
          .device_major = major(facts.block_device),
          .device_minor = minor(facts.block_device),
          .is_block_device = facts.type == core::FileType::block_device,
          .readable = facts.readable(),
          .writable = facts.writable(),
          .opened_direct = facts.opened_o_direct(),
          .direct_memory_align = facts.direct_memory_align,
          .direct_offset_align = facts.direct_offset_align,
          .reserved = 0,
          .size = facts.size,
          .inode = facts.inode,
          .alignment_source = name_of(facts.alignment_source),
          .file_system = core::file_system_name(facts.file_system_magic)};
}

Status register_with(const GuardedSession::Use& use, int fd, penstock_file& file) {
  const core::Result<std::uint64_t> registered = use->register_file(fd);
  if (registered.ok()) file.id = *registered;
  return registered.status();
}

// Falls back to no O_DIRECT where the file system refuses it.
core::Result<std::unique_ptr<core::NewFile>> create_new(const char* name, std::uint32_t mode, bool direct) {
  core::NewFile::Options options{.mode = mode};
  if (direct) options.flags = O_DIRECT;
  core::Result<std::unique_ptr<core::NewFile>> file = core::NewFile::create(name, options);
  if (file.ok() || !direct || !file.status().is_errno(EINVAL)) return file;
  options.flags = 0;
  return core::NewFile::create(name, options);
}

// Moves the request by move(use), which returns the outcome.
template <typename Move>
penstock_status transfer(penstock_file* file, penstock_report* report, Move move) {
  if (report != nullptr) {
    if (const Status status = core::check_struct(report); !status.ok()) return core::to_public(status);
    core::write_struct(report, {});
  }
  return session_call("move the request", file, [&](const GuardedSession::Use& use) -> Status {
    const core::Outcome outcome = move(use);
    if (report != nullptr) core::write_struct(report, core::to_public(outcome.report));
    return outcome.status;
  });
}

// Calls look(file) for the file, or for each member of a striped object until one fails.
template <typename Look>
Status each_file(const penstock_file& file, Look look) {
  if (file.striped == nullptr) return look(file.id);
  Status status;
  for (std::size_t i = 0; i < file.striped->set->files.size() && status.ok(); ++i)
    status = look(file.striped->set->files[i]);
  return status;
}

}  // namespace

extern "C" {

penstock_status penstock_file_register(penstock_session* session, int fd, penstock_file** file) {
  constexpr const char* kStep = "register the file";
  if (file != nullptr) *file = nullptr;
  return session_call(kStep, session, [&](const GuardedSession::Use& use) -> Status {
    if (file == nullptr) return failure(Code::invalid_argument, kStep);
    auto handle = std::make_unique<penstock_file>(penstock_file{session->guarded});
    const Status status = register_with(use, fd, *handle);
    if (status.ok()) *file = handle.release();
    return status;
  });
}

penstock_status penstock_file_create(penstock_session* session, const char* name, uint32_t mode, uint32_t flags,
                                     penstock_file** file) {
  constexpr const char* kStep = "create the file";
  constexpr uint32_t kKnown = PENSTOCK_CREATE_REPLACE | PENSTOCK_CREATE_DIRECT;
  if (file != nullptr) *file = nullptr;
  return session_call(kStep, session, [&](const GuardedSession::Use& use) -> Status {
    if (file == nullptr || name == nullptr || (flags & ~kKnown) != 0 || (mode & ~07777u) != 0) {
      return failure(Code::invalid_argument, kStep);
    }
    auto handle = std::make_unique<penstock_file>(penstock_file{session->guarded});
    handle->unpublished = std::make_unique<UnpublishedFile>();
    handle->unpublished->replaces = (flags & PENSTOCK_CREATE_REPLACE) != 0;
    core::Result<std::unique_ptr<core::NewFile>> created =
        create_new(name, mode, (flags & PENSTOCK_CREATE_DIRECT) != 0);
    if (!created.ok()) return created.status();
    const Status status = register_with(use, (*created)->fd(), *handle);
    handle->unpublished->file = std::move(*created);
    if (!status.ok()) return status;
    (void)use->advise_flushed_later(handle->id);  // By publish.
    *file = handle.release();
    return success();
  });
}

penstock_status penstock_file_publish(penstock_file* file) {
  constexpr const char* kStep = "publish the file";
  return session_call(kStep, file, [&](const GuardedSession::Use& use) -> Status {
    const bool is_new_stripe = file->striped != nullptr && file->striped->unpublished != nullptr;
    if (!is_new_stripe && file->unpublished == nullptr)
      return failure(Code::invalid_argument, "publish a file that penstock_file_create() did not make");
    const Status flushes = each_file(*file, [&](std::uint64_t id) { return use->check_flushes(id); });
    if (!flushes.ok()) return flushes;
    if (is_new_stripe) {
      const core::MutexLock lock(file->striped->mutex);
      return file->striped->unpublished->publish();
    }
    // Otherwise another file of the program's would get the name, and be told as this one.
    if (const Status status = use->check_descriptors(file->id); !status.ok()) return status;
    const core::MutexLock lock(file->unpublished->mutex);
    return file->unpublished->file->publish(file->unpublished->replaces);
  });
}

penstock_status penstock_file_sync(penstock_file* file) {
  return session_call("flush the file", file, [&](const GuardedSession::Use& use) -> Status {
    return each_file(*file, [&](std::uint64_t id) { return use->sync_file(id); });
  });
}

penstock_status penstock_file_advise(penstock_file* file, uint32_t advice) {
  constexpr const char* kStep = "advise on the file";
  return session_call(kStep, file, [&](const GuardedSession::Use& use) -> Status {
    const bool is_store = advice == PENSTOCK_ADVICE_OWN_STORE;
    if (!is_store && advice != PENSTOCK_ADVICE_READ_ONCE) return failure(Code::invalid_argument, kStep);
    return each_file(
        *file, [&](std::uint64_t id) { return is_store ? use->advise_own_store(id) : use->advise_read_once(id); });
  });
}

void penstock_file_close(penstock_file* file) {
  return core::boundary(
      [&] {
        if (file == nullptr) return;
        if (const GuardedSession::Use use(*file->guarded); use && file->owns) {
          (void)each_file(*file, [&](std::uint64_t id) {
            (void)use->deregister_file(id);
            return success();
          });
        }
        delete file;
      },
      [] {});
}

penstock_status penstock_file_get(penstock_file* file, penstock_file_info* info) {
  return session_call("look at the file", file, [&](const GuardedSession::Use& use) -> Status {
    if (const Status status = core::check_struct(info); !status.ok()) return status;
    const StripedObject* const striped = file->striped.get();
    const core::Result<core::FileFacts> facts = use->file_facts(striped == nullptr ? file->id : striped->set->files[0]);
    if (!facts.ok()) return facts.status();
    penstock_file_info result = to_public(*facts);
    if (striped != nullptr) {  // Reports the first member's facts, except those that no single member has.
      result.device_major = result.device_minor = 0;
      result.inode = 0;
      result.size = striped->set->layout.size;
    }
    core::write_struct(info, result);
    return success();
  });
}

penstock_status penstock_transfer(const penstock_request* request, penstock_report* report) {
  penstock_request said{};
  if (const Status status = core::read_struct(request, said); !status.ok()) return core::to_public(status);
  core::QueuedRequest made;
  if (const Status status = core::make_queued(said, made); !status.ok()) return core::to_public(status);
  return transfer(said.file, report, [&](const GuardedSession::Use& use) -> core::Outcome {
    if (core::has_passed(made.deadline)) return {failure(Code::timed_out, "begin the request"), {}};
    if (made.striped != nullptr) {
      return core::transfer_striped(*use, use.frontends().executor(), *made.striped, made.request, made.pieces);
    }
    return made.pieces.empty() ? core::transfer(*use, made.request)
                               : core::transfer_vectored(*use, made.request, made.pieces);
  });
}

}  // extern "C"
