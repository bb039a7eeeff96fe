// SPDX-License-Identifier: Apache-2.0

#include "path/paths.h"

namespace penstock::core {

#define PENSTOCK_DECLARE(id, ...)                                 \
  std::unique_ptr<Path> make_##id##_path(const PathEnvironment&); \
  Reason id##_outlook(const PathSettings&);
PENSTOCK_PATHS(PENSTOCK_DECLARE)
#undef PENSTOCK_DECLARE

namespace {

struct Maker {
  std::unique_ptr<Path> (*make)(const PathEnvironment&);
  Reason (*outlook)(const PathSettings&);
};

constexpr Maker kMakers[] = {
#define PENSTOCK_MAKER(id, ...) {make_##id##_path, id##_outlook},
    PENSTOCK_PATHS(PENSTOCK_MAKER)
#undef PENSTOCK_MAKER
};

}  // namespace

std::unique_ptr<Path> make_path(PathId path, const PathEnvironment& environment) {
  return kMakers[place_of(path)].make(environment);
}

Reason outlook_of(PathId path, const PathSettings& settings) { return kMakers[place_of(path)].outlook(settings); }

std::unique_ptr<Path> make_staging_path(const PathEnvironment& environment) { return make_host_path(environment); }

}  // namespace penstock::core
