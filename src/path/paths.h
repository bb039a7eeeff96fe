// SPDX-License-Identifier: Apache-2.0

// Makes the paths of the one table (core/paths.h). Each folder has, for the row ID, two functions:
//
//   std::unique_ptr<Path> make_ID_path(const PathEnvironment& environment);
//   Reason ID_outlook(const PathSettings& settings); // A certain obstacle here; none: it may serve.
#pragma once

#include <memory>

#include "path/path.h"
#include "path/path_settings.h"
#include "storage/storage.h"

namespace penstock::core {

struct PathEnvironment {
  Storage& storage;
  DeviceSet& devices;
  const PathSettings& settings;
};

std::unique_ptr<Path> make_path(PathId path, const PathEnvironment& environment);
Reason outlook_of(PathId path, const PathSettings& settings);
// The path between files and the staging memory of requests on streams, whichever path these use.
std::unique_ptr<Path> make_staging_path(const PathEnvironment& environment);

}  // namespace penstock::core
