// SPDX-License-Identifier: Apache-2.0

#include "engine/channel_pool.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/align.h"
#include "base/shortage.h"
#include "stats/counters.h"

namespace penstock::core {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSmallChunkMax = 1u << 20;
constexpr std::uint64_t kChunkMin = 64u << 10;
constexpr unsigned kLargeDepth = 3;  // One chunk is with storage, one with the device, and one is changing over.
// The wait while other holders have the whole budget, for requests that are under way.
constexpr auto kPatience = 2s;
constexpr auto kLooksApart = 1ms;

}  // namespace

bool BounceBudget::reserve(std::uint64_t bytes) {
  std::uint64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ || used > limit_ - bytes) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

ChannelShapes shape_channels(std::uint64_t bounce_bytes, std::uint64_t chunk_bytes, unsigned workers) {
  ChannelShapes shapes;
  const std::uint64_t small_total = bounce_bytes / 8;
  ChannelShape& small = shapes.small;
  small.count = std::clamp(2 * workers, 4u, 32u);
  small.chunk = kSmallChunkMax;
  while (small.chunk > kChunkMin && small.count * small.chunk > small_total) small.chunk /= 2;
  while (small.count > 1 && small.count * small.chunk > small_total) --small.count;

  const std::uint64_t large_total = bounce_bytes - small.count * small.chunk;
  ChannelShape& large = shapes.large;
  // There are more channels than workers, because callers work, too, and one is kept for short requests.
  large = {.count = 2 * workers + 1, .depth = kLargeDepth, .chunk = chunk_bytes};
  const auto bytes = [&] { return large.count * large.depth * large.chunk; };
  while (large.depth > 2 && bytes() > large_total) --large.depth;
  while (large.chunk > kChunkMin && bytes() > large_total) {
    large.chunk = std::max(align_down(large.chunk / 2, kChunkMin), kChunkMin);
  }
  while (large.count > 1 && bytes() > large_total) --large.count;
  return shapes;
}

bool BounceBudget::reserve_or_reclaim(std::uint64_t bytes, const ChannelHolder* caller) {
  while (!reserve(bytes)) {
    IdleChannel idle = take_idle_channel(caller);
    if (idle.channel == nullptr) return reserve(bytes);
    idle.channel.reset();
    give_back(idle.bytes);
  }
  return true;
}

IdleChannel BounceBudget::take_idle_channel(const ChannelHolder* caller) {
  const MutexLock lock(holders_mutex_);
  for (ChannelHolder* holder : holders_) {
    IdleChannel idle = holder != caller ? holder->take_idle_channel(*this) : IdleChannel();
    if (idle.channel != nullptr) return idle;
  }
  return {};
}

void BounceBudget::add(ChannelHolder* holder) {
  const MutexLock lock(holders_mutex_);
  if (std::find(holders_.begin(), holders_.end(), holder) == holders_.end()) holders_.push_back(holder);
}

void BounceBudget::remove(ChannelHolder* holder) {
  const MutexLock lock(holders_mutex_);
  std::erase(holders_, holder);
}

ChannelPool::ChannelPool(Path& path, Device* device, const ChannelShape& shape, BounceBudget& budget,
                         const Placement* placement)
    : path_(path), device_(device), shape_(shape), budget_(budget), placement_(placement), places_(shape.count) {
  budget_.add(this);
}

ChannelPool::~ChannelPool() { budget_.remove(this); }

// Long requests do without the last place.
unsigned ChannelPool::places_for(bool is_long) const {
  const auto all = static_cast<unsigned>(places_.size());
  return is_long && all > 1 ? all - 1 : all;
}

// Finds, among so many places, a free one that has an open channel, or one in which a channel can be opened; the
// thread's usual place first.
bool ChannelPool::claim(bool open, unsigned& place, unsigned places) {
  const unsigned first = thread_number();
  for (unsigned i = 0; i < places; ++i) {
    place = (first + i) % places;
    Place& candidate = places_[place];
    if (candidate.open.load() != open || candidate.busy.load() || candidate.busy.exchange(true)) continue;
    if (candidate.open.load(std::memory_order_relaxed) == open) return true;
    free(candidate);
  }
  return false;
}

bool ChannelPool::has_open(unsigned places) const {
  return std::any_of(places_.begin(), places_.begin() + places, [](const Place& place) { return place.open.load(); });
}

Status ChannelPool::open(Place& place) {
  const ChannelOptions options = channel_options();
  const std::uint64_t bytes = path_.channel_bytes(options);
  if (!budget_.reserve_or_reclaim(bytes)) return failure(Code::limit, "take pinned memory for bounce buffers");
  using Opened = Result<std::unique_ptr<Channel>>;
  const auto no_room = [] { return Opened(failure(Code::out_of_memory, "open a channel")); };
  Opened channel = unless_short_of_memory([&] { return path_.open_channel(options); }, no_room);
  if (!channel.ok()) {
    budget_.give_back(bytes);
    return channel.status();
  }
  place.channel = std::move(*channel);
  place.open.store(true);
  return success();
}

IdleChannel ChannelPool::vacate(Place& place) {
  place.open.store(false);
  return {std::move(place.channel), path_.channel_bytes(channel_options())};
}

void ChannelPool::close(Place& place) {
  IdleChannel idle = vacate(place);
  idle.channel.reset();
  budget_.give_back(idle.bytes);
}

IdleChannel ChannelPool::take_idle_channel(const BounceBudget&) {
  unsigned place = 0;
  if (!claim(true, place, places_for(false))) return {};
  IdleChannel taken = vacate(places_[place]);
  free(places_[place]);
  return taken;
}

ChannelPool::Loan ChannelPool::try_borrow(bool is_long) {
  const unsigned places = places_for(is_long);
  unsigned place = 0;
  if (claim(true, place, places)) return {this, place, places_[place].channel.get()};
  if (!claim(false, place, places)) return {};
  if (open(places_[place]).ok()) return {this, place, places_[place].channel.get()};
  free(places_[place]);
  return {};
}

Result<ChannelPool::Loan> ChannelPool::borrow(bool is_long) {
  const unsigned places = places_for(is_long);
  unsigned place = 0;
  if (claim(true, place, places)) return Loan(this, place, places_[place].channel.get());
  waiting_.fetch_add(1);
  Result<Loan> loan = borrow_waiting(places);
  waiting_.fetch_sub(1);
  return loan;
}

Result<ChannelPool::Loan> ChannelPool::borrow_waiting(unsigned places) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    const std::uint32_t seen = returns_.load();
    unsigned place = 0;
    if (claim(true, place, places)) return Loan(this, place, places_[place].channel.get());
    if (claim(false, place, places)) {
      const Status status = open(places_[place]);
      if (status.ok()) return Loan(this, place, places_[place].channel.get());
      if (!has_open(places)) {
        free(places_[place]);
        const unsigned all = places_for(false);
        if (std::exchange(places, all) < all) continue;  // Better the last channel than none.
        if (!status.is(Code::limit) || std::chrono::steady_clock::now() >= give_up) return status;
        std::this_thread::sleep_for(kLooksApart);
        continue;
      }
      // No thread is woken: one that waits will also take a channel that is already open.
      places_[place].busy.store(false);
    }
    returns_.wait(seen, std::memory_order_acquire);
  }
}

void ChannelPool::take_back(unsigned place) {
  Place& returned = places_[place];
  // A broken channel's memory may stay mapped, but it no longer belongs to this pool: a new channel may be opened.
  if (returned.channel != nullptr && returned.channel->is_broken()) close(returned);
  free(returned);
}

void ChannelPool::free(Place& place) {
  place.busy.store(false);
  // A waiting thread counts itself before it looks again. So either we see its count here, or it sees the place.
  if (waiting_.load() == 0) return;
  returns_.fetch_add(1);
  // A thread with a long request can do nothing with the last place, so it must not be the only one that is woken.
  if (&place == &places_.back()) returns_.notify_all();
  else returns_.notify_one();
}

}  // namespace penstock::core
