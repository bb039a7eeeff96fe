// SPDX-License-Identifier: Apache-2.0

#include "frontend/job_context.h"

#include "base/shortage.h"
#include "engine/spin_wait.h"
#include "frontend/transfer.h"

namespace penstock::core {
namespace {

// The most that are launched together: the device fetches them while the next are prepared.
constexpr std::size_t kLaunched = 32;

MovedBy who_moved(const Report& report) {
  if (report.path == PathId::pagecache && report.bounced_bytes == 0) return MovedBy::device;
  return traits_of(report.path).blocking ? MovedBy::thread : MovedBy::storage;
}

}  // namespace

bool JobContext::begin(Job& job, bool may_block) {
  if (job.is_late()) {
    job.time_out();
    return true;
  }
  if (!queues_ || !job.fits_queue() || (queue_ == nullptr && !(may_block && open_queue()))) return false;
  const Status status = queue_->submit(job.request, reinterpret_cast<std::uintptr_t>(&job), may_block);
  if (status.is(Code::limit) || status.is(Code::closed)) return false;
  if (status.ok()) ++in_flight_;
  else job.complete({status, {}});
  return true;
}

std::size_t JobContext::begin_reads(std::span<Job* const> jobs, bool may_block) {
  std::size_t begun = 0;
  while (begun < jobs.size() && !is_blocked() && has_room() && begin(*jobs[begun], may_block)) {
    if (++begun % kLaunched == 0) reap(0);
  }
  reap(0);
  return begun;
}

bool JobContext::has_room() {
  const auto has_some = [this] {
    reap(0);
    return room() > 0;
  };
  return room() > 0 || (looks_ ? spin_wait(has_some) : has_some());
}

void JobContext::reap(unsigned least) {
  if (is_idle()) return;
  const auto take = [](void* next, std::uint64_t cookie, const Outcome& outcome) {
    *(*static_cast<EndedJob**>(next))++ = {reinterpret_cast<Job*>(cookie), outcome};
  };
  EndedJob* next = ended_.data();
  const unsigned count = queue_->reap(ended_.size(), least, std::nullopt, take, &next);
  in_flight_ -= count;
  complete_jobs(std::span(ended_).first(count));
}

bool JobContext::open_queue() {
  const auto open = [&] { return ChannelQueue::open(session_, kDepth, Job::kQueuedBytesMax); };
  using Opened = Result<std::unique_ptr<ChannelQueue>>;
  Opened queue = unless_short_of_memory(open, [] { return Opened(failure(Code::out_of_memory, "open the queue")); });
  if (queue.ok()) queue_ = std::move(*queue);
  return queue_ != nullptr;
}

// Completes neighbouring jobs of one owner together.
void JobContext::complete_jobs(std::span<const EndedJob> ended) {
  if (!ended.empty()) latest_moved_by_ = who_moved(ended.back().outcome.report);
  for (auto rest = ended; !rest.empty();) {
    const void* const owner = rest[0].job->owner();
    std::size_t count = 1;
    while (owner != nullptr && count < rest.size() && rest[count].job->owner() == owner) ++count;
    rest[0].job->complete_all(rest.first(count));
    rest = rest.subspan(count);
  }
}

void JobContext::move_and_wait(Job& job) {
  reap(0);
  job.complete(transfer(session_, job.request));
}

bool JobContext::move_together(Job& job) {
  if (job.request.size <= Job::kQueuedBytesMax) return false;
  reap(0);
  const std::optional<Outcome> outcome = transfer_together(session_, job.request, job.pieces);
  if (outcome) job.complete(*outcome);
  return outcome.has_value();
}

}  // namespace penstock::core
