// SPDX-License-Identifier: Apache-2.0

#include "frontend/channel_queue.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/align.h"
#include "base/invariant.h"
#include "base/page_size.h"
#include "base/shortage.h"

namespace penstock::core {
namespace {

constexpr std::uint64_t kRequestBytesMax = std::uint64_t{1} << 30;
constexpr std::size_t kPollMax = 32;
constexpr const char* kWithoutWait = "submit to the queue without a wait";
constexpr const char* kTooLarge = "submit a request of this size to the queue";
constexpr std::chrono::microseconds kPollInterval{20};  // The pause between looks at a device while time is limited.

}  // namespace

ChannelQueue::ChannelQueue(Session& session, unsigned depth, std::uint64_t chunk_max, std::uint64_t request_bytes_max)
    : chunk_max_(chunk_max), request_bytes_max_(request_bytes_max), session_(&session), pending_(depth) {
  free_.reserve(depth);
  done_.reserve(depth);
  channels_.reserve(kChannelsMax);
  for (unsigned i = depth; i > 0; --i) free_.push_back(i - 1);
}

Result<std::unique_ptr<ChannelQueue>> ChannelQueue::open(Session& session, unsigned depth,
                                                         std::uint64_t request_bytes_max) {
  if (depth == 0 || depth > kDepthMax || request_bytes_max == 0 || request_bytes_max > kRequestBytesMax) {
    return failure(Code::invalid_argument, "open the queue");
  }
  // An unaligned request touches one block more than its bytes need. If blocks are larger than a page, the request
  // takes two chunks.
  const std::uint64_t page = page_size();
  const std::uint64_t chunk_max = align_up(request_bytes_max, page) + (request_bytes_max % page != 0 ? page : 0);
  std::unique_ptr<ChannelQueue> queue(new ChannelQueue(session, depth, chunk_max, request_bytes_max));
  session.add(queue.get());
  return queue;
}

ChannelQueue::~ChannelQueue() {
  if (session_ == nullptr) return;
  // The session may ask the queue to forget a file or memory as long as a request is under way.
  Session& session = *session_;
  stop();
  session.remove(this);
}

// Takes the queue away from the session. Completions can still be reaped.
void ChannelQueue::stop() {
  const MutexLock lock(mutex_);
  session_->engine().leave_budgets(this);
  while (poll_all(true)) {
  }
  for (OwnChannel& own : channels_) {
    own.channel.reset();
    own.budget->give_back(own.bytes);
  }
  channels_.clear();
  session_ = nullptr;
}

bool ChannelQueue::has_storage_under_way() {
  const MutexLock lock(mutex_);
  const auto waits = [](const OwnChannel& own) { return !own.waiting.empty() || own.channel->has_storage_under_way(); };
  return std::any_of(channels_.begin(), channels_.end(), waits);
}

ChannelQueue::OwnChannel* ChannelQueue::find_channel(const Path& path, const Device* device) {
  for (OwnChannel& own : channels_) {
    if (own.path == &path && own.device == device) return &own;
  }
  return nullptr;
}

Result<ChannelQueue::OwnChannel*> ChannelQueue::open_channel(Path& path, Device* device) {
  if (channels_.size() == kChannelsMax) close_idle_locked();
  if (channels_.size() == kChannelsMax) return failure(Code::limit, "use one more device in this queue");
  const ChannelOptions options{.device = device,
                               .depth = static_cast<unsigned>(pending_.size()),
                               .chunk_max = chunk_max_,
                               .o_direct_only = false,
                               .placement = &session_->config().placement};
  BounceBudget& budget = session_->engine().budget_of(device);
  const std::uint64_t bytes = path.channel_bytes(options);
  if (!reserve(budget, bytes)) return failure(Code::limit, "take pinned memory for the queue");
  OwnChannel own{.path = &path, .device = device, .budget = &budget, .bytes = bytes};
  const auto open = [&] {
    budget.add(this);
    own.waiting.reserve(options.depth);
    Result<std::unique_ptr<Channel>> channel = path.open_channel(options);
    if (channel.ok()) own.channel = std::move(*channel);
    return channel.status();
  };
  const auto no_room = [] { return failure(Code::out_of_memory, "open a channel for the queue"); };
  if (const Status status = unless_short_of_memory(open, no_room); !status.ok()) {
    budget.give_back(bytes);
    return status;
  }
  channels_.push_back(std::move(own));  // Room for it was reserved.
  return &channels_.back();
}

// Reserves memory. If there is none, closes idle channels: first this queue's own, then all others'.
bool ChannelQueue::reserve(BounceBudget& budget, std::uint64_t bytes) {
  if (budget.reserve(bytes)) return true;
  close_idle_locked();
  return budget.reserve_or_reclaim(bytes, this);
}

void ChannelQueue::close_idle_locked() {
  std::erase_if(channels_, [](OwnChannel& own) {
    if (!own.is_idle()) return false;
    own.channel.reset();
    own.budget->give_back(own.bytes);
    return true;
  });
}

IdleChannel ChannelQueue::take_idle_channel(const BounceBudget& budget) {
  if (!mutex_.try_lock()) return {};
  const MutexLock lock(mutex_, std::adopt_lock);
  while (poll_all(false)) {
  }
  const auto is_meant = [&](const OwnChannel& own) { return own.budget == &budget && own.is_idle(); };
  const auto found = std::find_if(channels_.begin(), channels_.end(), is_meant);
  if (found == channels_.end()) return {};
  IdleChannel taken{std::move(found->channel), found->bytes};
  channels_.erase(found);
  return taken;
}

Status ChannelQueue::submit(const RawRequest& request, std::uint64_t cookie, bool may_block) {
  const MutexLock lock(mutex_);
  if (session_ == nullptr) return failure(Code::closed, "submit to the queue");
  File* const file = pin(request.file);
  const auto no_room = [] { return failure(Code::out_of_memory, "submit to the queue"); };
  const auto submit_it = [&] {
    mutex_.assume_held();
    return submit_with_file(request, file, cookie, may_block);
  };
  const Status status = unless_short_of_memory(submit_it, no_room);
  if (file != nullptr && !status.ok()) unpin(request.file);
  return status;
}

// Pins the file once for all requests. A file that is being deregistered is not pinned again: its requests are drained
// (forget_file()), and the pin ends with the last of them.
File* ChannelQueue::pin(std::uint64_t handle) {
  if (pinned_.requests > 0 && pinned_.handle == handle) {
    ++pinned_.requests;
    return pinned_.file;
  }
  File* const file = session_->pin_file(handle);
  if (file != nullptr && pinned_.requests == 0) pinned_ = {handle, file, 1};
  return file;
}

void ChannelQueue::unpin(std::uint64_t handle) {
  const bool is_last = pinned_.handle != handle || pinned_.requests == 0 || --pinned_.requests == 0;
  if (is_last) session_->unpin_file(handle);
}

Status ChannelQueue::submit_with_file(const RawRequest& request, File* file, std::uint64_t cookie, bool may_block) {
  if (free_.empty()) return full_error_.status(pending_.size());
  const std::uint32_t index = free_.back();
  Pending& pending = pending_[index];
  Flight& flight = pending.flight;
  if (const Status status = routes_.admit_and_route(*session_, request, file, flight); !status.ok()) return status;
  if (const Status status = check_descriptors(*file); !status.ok()) return status;
  if (request.size > request_bytes_max_) return failure(Code::limit, kTooLarge);
  const Result<OwnChannel*> own = channel_for(flight, may_block);
  if (!own.ok()) return own.status();
  flight.request.file_end = checked_end_;
  session_->engine().router().shape(flight, SubmitMode::queued, chunk_max_);
  if (!may_block && flight.request.shape.channel_facts.registers_first) return failure(Code::limit, kWithoutWait);
  if (flight.request.shape.limits.chunk_max < chunk_max_ && !cut_if_it_fits(flight))
    return failure(Code::limit, kTooLarge);
  // Paths learn from the requests that will move, and a refused one may be submitted elsewhere: so nothing may refuse
  // it from here on.
  Router::before_move(flight);
  flight.cut_into_chunks(chunk_max_);
  PENSTOCK_INVARIANT(flight.plan().chunk_count() <= kChunksMax);
  free_.pop_back();
  pending.handle = request.file;
  pending.cookie = cookie;
  pending.usage = UsageCount(file->usage());
  if (!flight.is_under_way()) complete(index, request.size > 0);  // The file ends before it, or it asks for nothing.
  else if ((*own)->waiting.empty()) begin_chunks(**own, index);
  if (flight.has_next()) (*own)->waiting.push_back(index);
  latest_is_blocking_.store(traits_of(flight.report.path).blocking, std::memory_order_relaxed);
  return success();
}

// True if the request has no more chunks than there is room for, because a path may cut it into more.
bool ChannelQueue::cut_if_it_fits(Flight& flight) const {
  flight.cut_into_chunks(chunk_max_);
  const bool has_room = flight.plan().chunk_count() <= kChunksMax;
  if (!has_room) flight = {};
  return has_room;
}

// Finds or opens a channel. A channel that may have to wait for the device is warmed up when there is time for that.
Result<ChannelQueue::OwnChannel*> ChannelQueue::channel_for(const Flight& flight, bool may_block) {
  Device* const device = flight.request.device();
  OwnChannel* own = find_channel(*flight.path, device);
  if (!may_block && own != nullptr) own->shall_be_warm = !own->channel->hooks().is_warm();
  if (!may_block && (own == nullptr || own->shall_be_warm)) return failure(Code::limit, kWithoutWait);
  if (own == nullptr) {
    const Result<OwnChannel*> opened = open_channel(*flight.path, device);
    if (!opened.ok()) return opened;
    own = *opened;
  }
  if (own->channel->is_broken()) return failure(Code::closed, "submit to the queue");
  if (own->shall_be_warm && own->channel->is_idle()) {
    own->channel->hooks().warm_up();
    own->shall_be_warm = false;
  }
  return own;
}

// Checks the file's descriptors once for consecutive requests to one file, until the next reap: a check costs a system
// call. A request that was refused leaves its check to nobody, since its user may have done with the file.
Status ChannelQueue::check_descriptors(const File& file) {
  const bool has_requests = free_.size() < pending_.size();
  if (checked_file_ == file.id() && has_requests) return success();
  checked_file_ = checked_end_ = 0;
  if (!file.fstat_descriptors(&checked_end_)) return descriptor_lost();
  checked_file_ = file.id();
  return success();
}

// Begins the chunks of the request for which the channel has room. So that no caller waits for a broken channel, the
// others fail there.
void ChannelQueue::begin_chunks(OwnChannel& own, std::uint32_t index) {
  Flight& flight = pending_[index].flight;
  while (flight.has_next() && own.channel->has_room()) own.channel->submit(flight.request, flight.next(), index);
  while (flight.has_next() && own.channel->is_broken()) {
    const Chunk chunk = flight.next();
    flight.on_completion({.file_offset = chunk.file_offset,
                          .size = chunk.size,
                          .status = own.channel->hooks().broken_by(),
                          .io_mode = chunk.io_mode});
  }
}

void ChannelQueue::begin_waiting(OwnChannel& own) {
  std::size_t begun = 0;
  for (; begun < own.waiting.size(); ++begun) {
    const std::uint32_t index = own.waiting[begun];
    begin_chunks(own, index);
    if (pending_[index].flight.has_next()) break;
    if (!pending_[index].flight.is_under_way()) complete(index, true);
  }
  own.waiting.erase(own.waiting.begin(), own.waiting.begin() + static_cast<std::ptrdiff_t>(begun));
}

void ChannelQueue::complete(std::uint32_t index, bool asks_for_bytes) {
  const Pending& pending = pending_[index];
  const Flight& flight = pending.flight;
  const RoutedRequest& request = flight.request;
  if (asks_for_bytes) session_->engine().account_for(flight);
  pending.usage.end(request.op, flight.report.bytes, flight.progress().status());
  unpin(pending.handle);
  done_.push_back(index);
}

// A request that waits for room leaves the others that wait when a chunk of it has failed.
void ChannelQueue::on_completion(OwnChannel& own, const Completion& completion) {
  const auto index = static_cast<std::uint32_t>(completion.cookie);
  Flight& flight = pending_[index].flight;
  const bool waits = flight.has_next();
  flight.on_completion(completion);
  if (waits && !flight.has_next()) std::erase(own.waiting, index);
  if (!flight.is_under_way()) complete(index, true);
  else if (flight.has_next() && !waits) own.waiting.push_back(index);
}

bool ChannelQueue::poll(OwnChannel& own, bool wait) {
  Completion completions[kPollMax];
  const std::size_t done_before = done_.size();
  begin_waiting(own);
  const unsigned count = own.channel->poll(completions, wait);
  for (unsigned i = 0; i < count; ++i) on_completion(own, completions[i]);
  begin_waiting(own);
  return count > 0 || done_.size() != done_before;  // A broken channel fails the chunks that it has not begun.
}

// Polls every channel; only if none moved a chunk does it wait, for the first busy one.
bool ChannelQueue::poll_all(bool wait) {
  const auto [busy, count] = busy_channels();
  if (busy == nullptr) return false;
  if (count == 1) return poll(*busy, wait);
  bool progress = false;
  for (OwnChannel& own : channels_) progress |= poll(own, false);
  return progress || (wait && poll(*busy, true));
}

// The first channel with chunks in flight, and the number of such channels.
std::pair<ChannelQueue::OwnChannel*, unsigned> ChannelQueue::busy_channels() {
  std::pair<OwnChannel*, unsigned> found{nullptr, 0};
  for (OwnChannel& own : channels_) {
    if (own.channel->is_idle() && own.waiting.empty()) continue;
    found = {&own, found.second + 1};
  }
  return found;
}

// False if there is nothing to wait for, or no time left. The kernel limits a wait for storage. A wait for a device has
// no limit of its own, so the queue looks again and again, and others may use it between two looks.
bool ChannelQueue::poll_until(const Deadline& deadline) {
  if (!deadline) return poll_all(true);
  const auto now = std::chrono::steady_clock::now();
  if (now >= *deadline) return false;
  if (poll_all(false)) return true;
  const auto [busy, count] = busy_channels();
  if (count == 1 && busy->channel->hooks().wait_for_storage(*deadline)) return true;
  const MutexUnlock unlock(mutex_);
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(kPollInterval, *deadline - now));
  return true;
}

unsigned ChannelQueue::reap(std::span<QueueCompletion> completions, unsigned least, Deadline deadline) {
  const auto take = [](void* next, std::uint64_t cookie, const Outcome& outcome) {
    *(*static_cast<QueueCompletion**>(next))++ = {cookie, outcome.status, outcome.report};
  };
  QueueCompletion* next = completions.data();
  return reap(completions.size(), least, deadline, take, &next);
}

unsigned ChannelQueue::reap(std::size_t room, unsigned least, Deadline deadline, Taker take, void* taker) {
  if (is_inherited()) return 0;
  const MutexLock lock(mutex_);
  checked_file_ = 0;
  routes_.reset();
  // Another thread may reap meanwhile.
  const auto wanted = [&] {
    mutex_.assume_held();
    return std::min({std::size_t{least}, room, pending_.size() - free_.size()});
  };
  // If the caller waits anyway, one system call looks and waits.
  if (done_.size() >= wanted() || deadline) (void)poll_all(false);
  while (done_.size() < wanted() && poll_until(deadline)) {
  }
  const auto count = static_cast<unsigned>(std::min(room, done_.size()));
  for (unsigned i = 0; i < count; ++i) {
    const Pending& pending = pending_[done_[i]];
    take(taker, pending.cookie, pending.flight.outcome());
    free_.push_back(done_[i]);
  }
  done_.erase(done_.begin(), done_.begin() + count);
  return count;
}

// submit() pins a file with the mutex held, so the pin is visible here.
void ChannelQueue::forget_file(const File& file) {
  const MutexLock lock(mutex_);
  drain_if([&](const Pending& pending) { return pending.flight.request.file == &file; });
  for (OwnChannel& own : channels_) own.channel->forget_file(file.id());
}

// submit() finds registered memory with the mutex held, so its use is visible here.
void ChannelQueue::forget_memory(std::byte* kept) {
  const MutexLock lock(mutex_);
  drain_if([&](const Pending& pending) { return pending.flight.request.shape.channel_facts.buffer == kept; });
  for (OwnChannel& own : channels_) own.channel->hooks().forget_memory(kept);
}

void ChannelQueue::drain() {
  const MutexLock lock(mutex_);
  drain_if([](const Pending&) { return true; });
}

template <typename IsMeant>
void ChannelQueue::drain_if(IsMeant is_meant) {
  const auto moving = [&](const Pending& pending) { return pending.flight.is_under_way() && is_meant(pending); };
  while (std::any_of(pending_.begin(), pending_.end(), moving)) (void)poll_all(true);
}

}  // namespace penstock::core
