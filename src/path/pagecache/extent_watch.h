// SPDX-License-Identifier: Apache-2.0

// Says if the pages of registered extents are still the file's: the kernel may take pages out of the page cache, and a
// device would go on reading those that went. All pages of an extent are looked at once after each change of its file;
// later looks only compare the file's stamp (storage/file_stamp.h), which any further change alters. Calls no device.
// Thread-safe.
#pragma once

#include <mutex>
#include <optional>

#include "path/pagecache/cached_file.h"
#include "storage/file_stamp.h"
#include "storage/page_mapping.h"

namespace penstock::core {

class ExtentWatch {
 public:
  using Presence = PageWatch::Presence;

  // The errno if the process cannot read its own page table; else 0. Looks at the first call.
  int error();
  bool is_open() const { return pages_.has_value(); }

  // The others need error() to be 0, and the extent to be held, or its registration to be the caller's.

  // Returns the state of the range's pages. Does not wait.
  Presence look(const CachedFile& file, Extent& extent, std::uint64_t offset, std::uint64_t size,
                const FileStamp& stamp) const;
  // True if the range's pages belonged to the file all the time until the stamp was taken. Waits for pages that the
  // kernel is migrating.
  bool are_of_file(const CachedFile& file, Extent& extent, std::uint64_t offset, std::uint64_t size,
                   const FileStamp& stamp) const;
  // Looks at all pages of an extent that is settled. A direct write changes the file's stamp when it begins, and
  // removes pages when it ends: this finds writes that took longer than the settling time.
  void look_again(Extent& extent) const;
  // True if the whole range is registered, in extents whose pages are known to be the file's while the file is
  // unchanged. Needs nothing.
  static bool is_settled(const CachedFile& file, const FileRange& range);

 private:
  Presence look_at_all(const Extent& extent) const;

  std::once_flag opened_;
  std::optional<PageWatch> pages_;
  int error_ = 0;
};

}  // namespace penstock::core
