#include "session/lane_pool.h"

#include <algorithm>

#include "base/align.h"
#include "stats/counters.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kSmallChunkMax = 1u << 20;
constexpr std::uint64_t kChunkMin = 64u << 10;
constexpr unsigned kLargeDepth = 3;  // One chunk with storage, one with the device, one to change over.

}  // namespace

bool RingBudget::reserve(std::uint64_t bytes) {
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ || used > limit_ - bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

LaneShapes shape_lanes(std::uint64_t ring_bytes, std::uint64_t chunk_bytes, unsigned workers) {
  LaneShapes shapes;
  const std::uint64_t small_total = ring_bytes / 8;
  LaneShape& small = shapes.small;
  small.count = std::clamp(2 * workers, 4u, 32u);
  small.chunk = kSmallChunkMax;
  while (small.chunk > kChunkMin && small.count * small.chunk > small_total) small.chunk /= 2;
  while (small.count > 1 && small.count * small.chunk > small_total) --small.count;

  const std::uint64_t large_total = ring_bytes - small.count * small.chunk;
  LaneShape& large = shapes.large;
  large = {.count = workers, .depth = kLargeDepth, .chunk = chunk_bytes};
  const auto bytes = [&] { return large.count * large.depth * large.chunk; };
  while (large.depth > 2 && bytes() > large_total) --large.depth;
  while (large.chunk > kChunkMin && bytes() > large_total) {
    large.chunk = std::max(align_down(large.chunk / 2, kChunkMin), kChunkMin);
  }
  while (large.count > 1 && bytes() > large_total) --large.count;
  return shapes;
}

LanePool::LanePool(Path& path, Device* device, const LaneShape& shape, RingBudget& budget)
    : path_(path), device_(device), shape_(shape), budget_(budget), places_(shape.count) {}

LanePool::~LanePool() {
  for (Place& place : places_) {
    if (place.lane != nullptr) budget_.give_back(path_.lane_bytes(lane_options()));
  }
}

bool LanePool::claim(unsigned& place) {
  const unsigned first = thread_number();
  for (unsigned i = 0; i < places_.size(); ++i) {
    place = (first + i) % static_cast<unsigned>(places_.size());
    std::atomic<bool>& busy = places_[place].busy;
    if (!busy.load(std::memory_order_relaxed) && !busy.exchange(true, std::memory_order_acquire)) return true;
  }
  return false;
}

Status LanePool::open(Place& place) {
  if (place.lane != nullptr) return success();
  const LaneOptions options = lane_options();
  const std::uint64_t bytes = path_.lane_bytes(options);
  if (!budget_.reserve(bytes)) return failure(Code::limit, "take pinned memory for the ring");
  Result<std::unique_ptr<Lane>> lane = path_.open_lane(options);
  if (!lane.ok()) {
    budget_.give_back(bytes);
    return lane.status();
  }
  place.lane = std::move(*lane);
  return success();
}

LanePool::Loan LanePool::try_borrow() {
  unsigned place = 0;
  if (!claim(place)) return {};
  if (!open(places_[place]).ok()) {
    take_back(place);
    return {};
  }
  return {this, place, places_[place].lane.get()};
}

Result<LanePool::Loan> LanePool::borrow() {
  for (;;) {
    const std::uint32_t seen = returns_.load(std::memory_order_acquire);
    unsigned place = 0;
    if (claim(place)) {
      const Status status = open(places_[place]);
      if (status.ok()) return Loan(this, place, places_[place].lane.get());
      take_back(place);
      return status;
    }
    returns_.wait(seen, std::memory_order_acquire);
  }
}

void LanePool::take_back(unsigned place) {
  Place& returned = places_[place];
  if (returned.lane != nullptr && returned.lane->is_broken()) {
    // Its memory stays mapped, but it is not this pool's any more: a new lane may be opened.
    returned.lane.reset();
    budget_.give_back(path_.lane_bytes(lane_options()));
  }
  returned.busy.store(false, std::memory_order_release);
  returns_.fetch_add(1, std::memory_order_release);
  returns_.notify_one();
}

}  // namespace penstock::core
