#include "path/storage_terms.h"

#include <algorithm>
#include <cerrno>

#include "base/align.h"

namespace penstock::core {
namespace {

// Direct writes are cut at whole pages, whatever smaller blocks the device has: then no page is ever written both
// directly and through the page cache, and no write can bring back a neighbour's old bytes.
constexpr std::uint32_t kPage = 4096;

}  // namespace

Verdict usable_with_rings(PathId path, Storage& storage) {
  switch (const int error = storage.io_uring_error()) {
    case 0: return usable(path);
    case ECANCELED: return usable(path, Reason::io_uring_off);
    default: return usable(path, Reason::io_uring_forbidden, error);
  }
}

std::uint32_t file_align_for(File& file, Op op, Way way, std::uint64_t chunk_max) {
  if (way != Way::direct) return 1;
  std::uint32_t align = file.direct_offset_align();
  if (op == Op::write && align > 1) align = std::max(align, kPage);
  return is_aligned(chunk_max, align) ? align : 1;
}

}  // namespace penstock::core
