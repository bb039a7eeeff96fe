// SPDX-License-Identifier: Apache-2.0

#include "path/pagecache/resident_pages.h"

namespace penstock::core {

bool ResidentPages::add(RegistrationCache& cache, CachedFile& file, std::uint64_t begin, std::uint64_t bytes) {
  if (!goes_on_()) return true;
  const std::uint64_t index = begin / Extent::kBytes;
  // First, since it may fail for lack of memory.
  held_.reserve(held_.size() + 1);
  if (addresses_.size() <= index) addresses_.resize(index + 1);
  cache.register_now(file, index);
  Extent* const extent = file.find(index);
  if (extent == nullptr || !extent->hold(cache.now())) return true;
  const Result<FileStamp> stamp = file.file().stamp();
  const bool is_whole = extent->begin() == begin && extent->end() - begin >= bytes;
  if (!is_whole || !stamp.ok() || !cache.watch().are_of_file(file, *extent, begin, bytes, *stamp)) {
    extent->release();
    cache.evict(*extent);
    return false;
  }
  held_.push_back(extent);
  addresses_[index] = extent->at(begin);
  bytes_ += bytes;
  return true;
}

void ResidentPages::release() {
  for (Extent* const extent : held_) extent->release();
  held_.clear();
  addresses_.clear();
  bytes_ = 0;
}

}  // namespace penstock::core
