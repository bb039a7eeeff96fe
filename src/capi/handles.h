// SPDX-License-Identifier: Apache-2.0

// The C API's opaque types. Each holds the memory of its session, which may long be closed.
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
  penstock::core::Staged staged;
};

struct penstock_session {
  std::shared_ptr<penstock::core::GuardedSession> guarded;
  bool owns = true;  // Else it belongs to cuFile's driver, which closes it.
};

struct penstock_buffer {
  std::shared_ptr<penstock::core::GuardedSession> guarded;
  const void* base = nullptr;
};

// A file that has no name yet.
struct UnpublishedFile {
  penstock::core::Mutex mutex;
  std::unique_ptr<penstock::core::NewFile> file PT_GUARDED_BY(mutex);
  bool replaces = false;  // A file of that name.
};

struct StripedObject;

struct penstock_file {
  std::shared_ptr<penstock::core::GuardedSession> guarded;
  std::uint64_t id = 0;
  bool owns = true;                              // Else it is a cuFile handle's.
  std::unique_ptr<UnpublishedFile> unpublished;  // If the library created it.
  std::unique_ptr<StripedObject> striped;        // If it is one: then it has no id of its own.
};

// An object in several files.
struct StripedObject {
  std::shared_ptr<penstock::core::Striped> set = std::make_shared<penstock::core::Striped>();
  std::string id;
  std::vector<penstock_file> members;  // Each with its file registered.
  penstock::core::Mutex mutex;
  std::unique_ptr<penstock::core::NewStripe> unpublished PT_GUARDED_BY(mutex);  // If it was created.
};
