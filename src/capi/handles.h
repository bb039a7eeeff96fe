// SPDX-License-Identifier: Apache-2.0

// The C API's opaque types. Each keeps the memory of its session alive, which may already be closed.
#pragma once

#include <memory>

#include "base/mutex.h"
#include "base/new_file.h"
#include "capi/guarded_session.h"
#include "frontend/striped.h"
#include "penstock/penstock.h"
#include "settings/settings.h"
#include "stripe/members.h"

struct penstock_config {
  penstock::core::PendingValues pending;
};

struct penstock_session {
  std::shared_ptr<penstock::core::GuardedSession> guarded;
  bool owns = true;  // False: cuFile's driver owns and closes it.
};

struct penstock_buffer {
  std::shared_ptr<penstock::core::GuardedSession> guarded;
  const void* base = nullptr;
};

struct penstock_checksums {
  std::shared_ptr<penstock::core::GuardedSession> guarded;
  std::uint64_t number = 0;  // For Checksums::end().
  std::uint32_t count = 0;
};

struct penstock_gpu_file {
  std::shared_ptr<penstock::core::GuardedSession> guarded;
  std::uint64_t number = 0;  // Among the session's GpuFiles.
};

// A created file without its final name.
struct UnpublishedFile {
  penstock::core::Mutex mutex;
  std::unique_ptr<penstock::core::NewFile> file PT_GUARDED_BY(mutex);
  bool replaces = false;  // Publishing replaces a file of that name.
};

struct StripedObject;

struct penstock_file {
  std::shared_ptr<penstock::core::GuardedSession> guarded;
  std::uint64_t id = 0;
  bool owns = true;                              // False: a cuFile handle owns it.
  std::unique_ptr<UnpublishedFile> unpublished;  // Set if the library created the file.
  std::unique_ptr<StripedObject> striped;        // Set for a striped object, which has no id of its own.
};

// An object in several files.
struct StripedObject {
  std::shared_ptr<penstock::core::Striped> set = std::make_shared<penstock::core::Striped>();
  std::string id;
  std::vector<penstock_file> members;  // The members, each a registered file.
  penstock::core::Mutex mutex;
  // Set if the library created the object.
  std::unique_ptr<penstock::core::NewStripe> unpublished PT_GUARDED_BY(mutex);
};
