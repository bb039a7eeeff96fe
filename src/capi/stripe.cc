// SPDX-License-Identifier: Apache-2.0

// The C API's striped objects: how they are opened and made. Calls that they share with files are in file.cc.
#include <vector>

#include "capi/conversions.h"
#include "stripe/members.h"

namespace core = penstock::core;

namespace {

using core::Code;
using core::failure;
using core::GuardedSession;
using core::session_call;
using core::Status;
using core::success;

// Deregisters the members, unless all were registered.
class Registering {
 public:
  Registering(const GuardedSession::Use& use, penstock_session* session, const core::Manifest& manifest)
      : use_(use), session_(session), object_(std::make_unique<StripedObject>()) {
    object_->set->layout = manifest.layout;
    object_->set->names = manifest.files;
    object_->id = manifest.id;
    object_->members.reserve(manifest.files.size());
  }
  ~Registering() {
    if (object_ == nullptr) return;
    for (const std::uint64_t file : object_->set->files) (void)use_->deregister_file(file);
  }
  Registering(const Registering&) = delete;
  Registering& operator=(const Registering&) = delete;

  Status add(int fd) {
    const core::Result<std::uint64_t> file = use_->register_file(fd);
    if (!file.ok()) return file.status();
    object_->set->files.push_back(*file);
    object_->members.push_back({.guarded = session_->guarded, .id = *file, .owns = false});
    return success();
  }
  StripedObject& object() { return *object_; }
  penstock_file* release() {
    auto handle = std::make_unique<penstock_file>(penstock_file{session_->guarded});
    handle->striped = std::move(object_);
    return handle.release();
  }

 private:
  const GuardedSession::Use& use_;
  penstock_session* const session_;
  std::unique_ptr<StripedObject> object_;
};

Status open_stripe(const GuardedSession::Use& use, penstock_session* session, const char* name, penstock_file** file) {
  const core::Result<core::StripeMembers> opened = core::open_members(name);
  if (!opened.ok()) return opened.status();
  Registering registering(use, session, opened->manifest);
  for (const core::UniqueFd& fd : opened->files) {
    if (const Status status = registering.add(fd.get()); !status.ok()) return status;
  }
  *file = registering.release();
  return success();
}

Status create_stripe(const GuardedSession::Use& use, penstock_session* session, const char* name,
                     const penstock_stripe_options& said, penstock_file** file) {
  constexpr std::uint32_t kKnown = PENSTOCK_CREATE_REPLACE | PENSTOCK_CREATE_DIRECT;
  if ((said.flags & ~kKnown) != 0) return failure(Code::invalid_argument, "create the striped object");
  core::NewStripe::Options options{.folders = {},
                                   .size = said.size,
                                   .stripe_bytes = said.stripe_bytes,
                                   .mode = said.mode,
                                   .direct = (said.flags & PENSTOCK_CREATE_DIRECT) != 0,
                                   .replace = (said.flags & PENSTOCK_CREATE_REPLACE) != 0};
  for (std::uint32_t i = 0; i < said.folder_count; ++i) {
    if (said.folders[i] == nullptr) return failure(Code::invalid_argument, "create the striped object");
    options.folders.emplace_back(said.folders[i]);
  }
  core::Result<std::unique_ptr<core::NewStripe>> made = core::NewStripe::create(name, options);
  if (!made.ok()) return made.status();
  Registering registering(use, session, (*made)->manifest());
  for (std::uint32_t i = 0; i < said.folder_count; ++i) {
    if (const Status status = registering.add((*made)->fd(i)); !status.ok()) return status;
    (void)use->advise_flushed_later(registering.object().set->files.back());  // By publish.
  }
  registering.object().unpublished = std::move(*made);
  *file = registering.release();
  return success();
}

}  // namespace

extern "C" {

penstock_status penstock_stripe_open(penstock_session* session, const char* manifest, uint32_t flags,
                                     penstock_file** file) {
  constexpr const char* kStep = "open the striped object";
  if (file != nullptr) *file = nullptr;
  return session_call(kStep, session, [&](const GuardedSession::Use& use) -> Status {
    if (file == nullptr || manifest == nullptr || flags != 0) return failure(Code::invalid_argument, kStep);
    return open_stripe(use, session, manifest, file);
  });
}

penstock_status penstock_stripe_create(penstock_session* session, const char* manifest,
                                       const penstock_stripe_options* options, penstock_file** file) {
  constexpr const char* kStep = "create the striped object";
  if (file != nullptr) *file = nullptr;
  return session_call(kStep, session, [&](const GuardedSession::Use& use) -> Status {
    penstock_stripe_options said{};
    if (const Status status = core::read_struct(options, said); !status.ok()) return status;
    const bool is_sane =
        said.folders != nullptr && said.folder_count <= core::StripeLayout::kMembersMax && (said.mode & ~07777u) == 0;
    if (file == nullptr || manifest == nullptr || !is_sane) return failure(Code::invalid_argument, kStep);
    return create_stripe(use, session, manifest, said, file);
  });
}

penstock_status penstock_stripe_get(penstock_file* file, penstock_stripe_info* info) {
  constexpr const char* kStep = "look at the striped object";
  return session_call(kStep, file, [&](const GuardedSession::Use&) -> Status {
    if (const Status status = core::check_struct(info); !status.ok()) return status;
    if (file->striped == nullptr) return failure(Code::unsupported_file, kStep);
    const core::StripeLayout& layout = file->striped->set->layout;
    core::write_struct(info, {.struct_size = 0,
                              .member_count = layout.members,
                              .size = layout.size,
                              .stripe_bytes = layout.stripe_bytes,
                              .object = file->striped->id.c_str()});
    return success();
  });
}

penstock_status penstock_stripe_member(penstock_file* file, uint32_t number, const char** name,
                                       penstock_file** member) {
  constexpr const char* kStep = "look at a member of the striped object";
  if (name != nullptr) *name = nullptr;
  if (member != nullptr) *member = nullptr;
  return session_call(kStep, file, [&](const GuardedSession::Use&) -> Status {
    if (file->striped == nullptr) return failure(Code::unsupported_file, kStep);
    StripedObject& object = *file->striped;
    if (number >= object.members.size()) return failure(Code::invalid_argument, kStep);
    if (name != nullptr) *name = object.set->names[number].c_str();
    if (member != nullptr) *member = &object.members[number];
    return success();
  });
}

}  // extern "C"
