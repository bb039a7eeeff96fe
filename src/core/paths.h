// SPDX-License-Identifier: Apache-2.0

// Every path that bytes can take, best first: the one table of paths, for configuration, the public interfaces,
// statistics, tools and documentation. A new path is a row here, and a folder of src/path/ with what path/path.h needs.
// The order of the table is the order in which paths are tried; its number is public and never changes, and a new one
// takes the next free number.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace penstock::core {

// Facts of a path for code that does not know which path it has.
struct PathTraits {
  bool direct = false;       // Its bytes go around the page cache and around host memory.
  bool compat = false;       // Not direct; it belongs to cuFile's compatibility mode.
  bool posix = false;        // Not direct; it uses only calls that every file system has.
  bool gathers = false;      // It takes memory in pieces like memory in one place.
  bool host_memory = false;  // It serves host memory only.
  bool nvidia_fs = false;    // It uses the kernel module nvidia-fs, whoever calls the module.
  bool blocking = false;     // Its calls wait for storage, so a thread has one of its chunks in flight.
  bool userspace = false;    // It serves only files of file systems in user space. No list of paths names it.
  bool pretends = false;     // It moves nothing, and is used only if it is named.

  // True if it is tried when no paths are named.
  constexpr bool by_default() const { return !pretends && !userspace; }
};

// ROW(id, number, traits)
// clang-format off
#define PENSTOCK_PATHS(ROW)                                                                                            \
  ROW(p2pdma, 0, (PathTraits{.direct = true}))                                 /* The drive's DMA to device memory. */ \
  ROW(dmabuf, 8, (PathTraits{.direct = true, .gathers = true}))                /* By a dma-buf of that memory. */      \
  ROW(pagecache, 1, (PathTraits{.compat = true, .gathers = true}))             /* Device DMA on the page cache. */     \
  ROW(nvfs, 7, (PathTraits{.direct = true, .gathers = true, .nvidia_fs = true, .blocking = true}))  /* Our calls. */   \
  ROW(vendor, 2, (PathTraits{.direct = true, .nvidia_fs = true, .blocking = true})) /* Uses NVIDIA's library. */       \
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

// The row of each path number. This does not compile if a number is not below the count.
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
