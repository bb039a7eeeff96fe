// SPDX-License-Identifier: Apache-2.0

// Every way that bytes can travel, best first: the one table of paths, which configuration, the faces, statistics,
// tools and the documentation go through. A new path is a row here and a folder of src/path/ with what path/path.h
// asks for. Its place in the table says when it is tried; its number is public, stays, and is the next that is free.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace penstock::core {

// Facts of a path that can be asked for without knowing it.
struct PathTraits {
  bool direct = false;       // Its bytes go around the page cache and around host memory.
  bool compat = false;       // They do not: cuFile's compatibility mode.
  bool posix = false;        // They do not, and go by the calls that every file system has.
  bool gathers = false;      // Takes memory in pieces as it takes memory in one place.
  bool host_memory = false;  // Serves host memory, and no device's.
  bool nvidia_fs = false;    // By the kernel module nvidia-fs, whoever calls it.
  bool blocking = false;     // Its calls wait for storage: a thread has one of its chunks under way.
  bool userspace = false;    // Serves files of file systems in user space, and no others. No list names it.
  bool pretends = false;     // Moves nothing. Serves only where it is named.

  // True if it is tried where no paths are named.
  constexpr bool by_default() const { return !pretends && !userspace; }
};

// ROW(id, number, traits)
// clang-format off
#define PENSTOCK_PATHS(ROW)                                                                                            \
  ROW(p2pdma, 0, (PathTraits{.direct = true}))                                 /* The drive's DMA to device memory. */ \
  ROW(pagecache, 1, (PathTraits{.compat = true, .gathers = true}))             /* The device's to the page cache. */   \
  ROW(nvfs, 7, (PathTraits{.direct = true, .gathers = true, .nvidia_fs = true, .blocking = true}))  /* Our calls. */   \
  ROW(vendor, 2, (PathTraits{.direct = true, .nvidia_fs = true, .blocking = true})) /* Called by NVIDIA's library. */  \
  ROW(bounce, 3, (PathTraits{.compat = true, .posix = true, .gathers = true})) /* Through pinned host memory. */       \
  ROW(host, 4, (PathTraits{.host_memory = true}))                              /* Storage directly to host memory. */  \
  ROW(null, 5, (PathTraits{.pretends = true}))                                 /* Measures the library's own cost. */  \
  ROW(userspace, 6, (PathTraits{.blocking = true, .userspace = true}))         /* A file system's own calls. */
// clang-format on

enum class PathId : std::uint8_t {
#define PENSTOCK_PATH_ID(id, number, ...) id = number,
  PENSTOCK_PATHS(PENSTOCK_PATH_ID)
#undef PENSTOCK_PATH_ID
};

struct PathRow {
  PathId id;
  const char* name;
  PathTraits traits;
};

inline constexpr PathRow kPaths[] = {
#define PENSTOCK_PATH_ROW(id, number, traits) {PathId::id, #id, traits},
    PENSTOCK_PATHS(PENSTOCK_PATH_ROW)
#undef PENSTOCK_PATH_ROW
};
inline constexpr unsigned kPathCount = std::size(kPaths);

// The rows' places by their paths' numbers. Does not compile where a number is not below the count.
inline constexpr auto kPlaces = [] {
  std::array<std::uint8_t, kPathCount> places{};
  for (unsigned i = 0; i < kPathCount; ++i) places[static_cast<unsigned>(kPaths[i].id)] = static_cast<std::uint8_t>(i);
  return places;
}();
constexpr unsigned place_of(PathId path) { return kPlaces[static_cast<unsigned>(path)]; }

constexpr const PathRow& row_of(PathId path) { return kPaths[place_of(path)]; }
constexpr const char* path_name(PathId path) { return row_of(path).name; }
constexpr const PathTraits& traits_of(PathId path) { return row_of(path).traits; }

constexpr std::optional<PathId> path_named(std::string_view name) {
  for (const PathRow& row : kPaths) {
    if (name == row.name) return row.id;
  }
  return std::nullopt;
}

}  // namespace penstock::core
