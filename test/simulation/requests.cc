// SPDX-License-Identifier: Apache-2.0

#include "simulation/requests.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/host/host_streams.h"
#include "simulation/asked.h"
#include "simulation/dmabufs.h"
#include "simulation/ends.h"
#include "simulation/forks.h"
#include "simulation/gpu.h"
#include "simulation/leases.h"
#include "simulation/nvfs.h"
#include "simulation/peers.h"
#include "simulation/program.h"
#include "simulation/vendor.h"

namespace penstock::simulation {
namespace {

constexpr unsigned kDepthMax = 6;
constexpr std::uint64_t kLongWrite = 64 << 10;
constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr unsigned kPatienceOfStreams = 600;  // Seconds.

}  // namespace

Program::Program() {
  Random& random = scheduler().random();
  draw_weather(random);
  file_max_ = std::uint64_t{1} << random.between(14, 20);
  size_max_ = std::min<std::uint64_t>(file_max_, random.one_in(4) ? 1 << 20 : 64 << 10);
  rounds_ = static_cast<unsigned>(random.between(10, 160));
  is_restless_ = random.one_in(4);
  if (dmabufs().is_there()) dmabufs().make_drives(file_max_);
  if (open_session(random, &session_).code != 0) scheduler().fail("no session opens");
  for (std::uint64_t i = random.between(1, 3); i > 0; --i) slots_.push_back(new_slot(session_, random));
}

Program::Slot Program::new_slot(penstock_session* session, Random& random) {
  const std::shared_ptr<File> file = dmabufs().is_there() && random.one_in(2)
                                         ? dmabufs().drive(random)
                                         : disk().create(random.one_in(8) ? 0 : random.between(1, file_max_));
  Slot slot;
  for (const bool is_direct : {false, true}) {
    slot.handles[is_direct] = std::make_shared<Handle>();
    slot.handles[is_direct]->file = file;
    const int fd = disk().open(file, is_direct);
    const penstock_status status = penstock_file_register(session, fd, &slot.handles[is_direct]->raw);
    if (status.code != 0 && !may_refuse(status, false)) scheduler().fail("a file is not taken");
    ::close(fd);
  }
  return slot;
}

std::shared_ptr<Handle> Program::pick(Random& random) {
  return slots_[random.below(slots_.size())].handles[random.below(2)];
}

// ---- What a thread does ---------------------------------------------------------------------------------------------

void Program::finish(Asked& asked, const penstock_status& status, const penstock_report& report, Sums& sums) {
  ++tally_.requests;
  if (status.code != 0) ++tally_.failed;
  if (status.domain == PENSTOCK_DOMAIN_PENSTOCK && status.code == PENSTOCK_CANCELED) ++tally_.canceled;
  if (status.domain == PENSTOCK_DOMAIN_PENSTOCK && status.code == PENSTOCK_TIMED_OUT) ++tally_.late;
  asked.end(status, report, sums);
}

// Why a request may be refused before it is taken.
bool Program::may_refuse(const penstock_status& status, bool is_late) const {
  const auto is = [&](int code) { return status.domain == PENSTOCK_DOMAIN_PENSTOCK && status.code == code; };
  if (disk().has_had(Fault::ring) && is_of_a_broken_ring(status)) return true;
  if (is_of_the_gpu(status)) return true;
  if (is(PENSTOCK_CLOSED)) return is_closing_;
  if (is(PENSTOCK_PATH_REFUSED)) return may_refuse_for_want_of_a_path();
  if (is(PENSTOCK_DESCRIPTOR_LOST)) return disk().has_taken_descriptors();
  if (is(PENSTOCK_OUT_OF_MEMORY)) return scheduler().refuses_threads();
  return is(PENSTOCK_LIMIT) || (is(PENSTOCK_TIMED_OUT) && is_late);  // Pinned memory may be all in use.
}

void Program::end(Asked& asked, const penstock_status& status, const penstock_report& report) {
  asked.may_be_closed = is_closing_;
  finish(asked, status, report, sums_);
}

void Program::call(Self& self) {
  const auto move = [this](Asked& one) {
    Report report;
    end(one, penstock_transfer(&one.request, &report), report);
  };
  Asked asked;
  const Place& place = self.places[self.random.below(2)];
  const std::shared_ptr<Handle> handle = pick(self.random);
  if (!asked.begin(self.random, place, handle, size_max_, self.random.one_in(3))) return;
  const auto first = static_cast<std::uint64_t>(asked.request.file_offset), size = asked.request.size;
  if (self.random.one_in(4)) asked.cut_into_pieces(self.random);
  move(asked);
  if (!self.random.one_in(8)) return;
  // What was there before is not to be taken for what is there now.
  for (const bool is_write : {true, false}) {
    Asked again;
    if (again.begin_at(self.random, place, handle, first, size, is_write)) move(again);
  }
}

penstock_queue* Program::queue_of(Self& self, bool is_polled) {
  penstock_queue*& queue = self.queues[is_polled];
  if (queue != nullptr) return queue;
  penstock_queue_options options{};
  options.struct_size = sizeof options;
  options.mode = is_polled ? PENSTOCK_QUEUE_POLLED : PENSTOCK_QUEUE_THREADED;
  options.depth = kDepthMax;
  options.request_bytes_max = is_polled ? size_max_ + 8192 : 0;
  const penstock_status status = penstock_queue_open(self.session, &options, &queue);
  if (status.code == 0) return queue;
  if (!may_refuse(status, false)) scheduler().fail(("no queue opens: " + text_of(status)).c_str());
  return queue = nullptr;
}

// Begins what a queue is to be asked for.
std::vector<Asked> Program::ask_for_many(Self& self, bool is_polled) {
  std::vector<Asked> asked;
  const auto count = static_cast<unsigned>(self.random.between(1, kDepthMax));
  // One file is written in long pieces, which threads that go by the page cache take in turns.
  const std::shared_ptr<Handle> long_file =
      size_max_ >= kLongWrite && self.random.one_in(8) ? pick(self.random) : nullptr;
  for (unsigned i = 0; i < count; ++i) {
    Asked one;
    const Place& place = self.places[2 + i];
    const bool is_begun = long_file != nullptr
                              ? one.begin_at(self.random, place, long_file, i * kLongWrite, kLongWrite, true)
                              : one.begin(self.random, place, pick(self.random), size_max_, self.random.one_in(3));
    if (!is_begun) continue;
    if (!is_polled && self.random.one_in(4)) one.cut_into_pieces(self.random);
    one.may_be_late = self.random.one_in(4);
    if (one.may_be_late) one.request.deadline_ns = scheduler().now() + self.random.below(2 * kMillisecond);
    asked.push_back(std::move(one));
  }
  return asked;
}

// Submits them one by one or several at once, and leaves those that the queue has taken.
void Program::submit(Self& self, penstock_queue* queue, bool is_polled, std::vector<Asked>& asked) {
  for (std::size_t done = 0; done < asked.size();) {
    std::vector<penstock_request> requests;
    const std::size_t end = self.random.one_in(2) ? done + 1 : self.random.between(done + 1, asked.size());
    for (std::size_t i = done; i < end; ++i) {
      asked[i].request.cookie = i;
      requests.push_back(asked[i].request);
    }
    std::uint32_t taken = 0;
    const auto count = static_cast<std::uint32_t>(requests.size());
    const penstock_status status = penstock_queue_submit(queue, requests.data(), count, &taken);
    if (taken > count || (status.code == 0) != (taken == count))
      scheduler().fail("a queue takes another number of requests than it tells");
    done += taken;
    if (status.code == 0) continue;
    if (!may_refuse(status, asked[done].may_be_late && is_polled))
      scheduler().fail(("a queue with room refuses a request: " + text_of(status)).c_str());
    asked[done].take_back();
    asked.erase(asked.begin() + static_cast<std::ptrdiff_t>(done));
  }
}

// A queue whose depth is reached says so, whatever is through by now.
void Program::ask_for_one_too_many(penstock_queue* queue, const Request& request) const {
  std::uint32_t taken = 0;
  const penstock_status status = penstock_queue_submit(queue, &request, 1, &taken);
  const bool is_full = status.domain == PENSTOCK_DOMAIN_PENSTOCK && status.code == PENSTOCK_LIMIT;
  if (taken != 0 || (!is_full && !may_refuse(status, true))) scheduler().fail("a full queue takes one more");
  if (is_full && text_of(status).find("depth") == std::string::npos)
    scheduler().fail("a full queue does not say what is full");
}

void Program::use_queue(Self& self, bool is_polled) {
  penstock_queue* const queue = queue_of(self, is_polled);
  if (queue == nullptr) return;
  std::vector<Asked> asked = ask_for_many(self, is_polled);
  submit(self, queue, is_polled, asked);
  if (asked.size() == kDepthMax) ask_for_one_too_many(queue, asked[0].request);
  if (!is_polled && !asked.empty() && self.random.one_in(3)) {
    Asked& one = asked[self.random.below(asked.size())];
    std::uint32_t canceled = 0;
    (void)penstock_queue_cancel(queue, one.request.cookie, &canceled);
    one.is_canceled = canceled == 1;
  }
  reap(self, queue, asked);
  if (!self.random.one_in(disk().has_had(Fault::ring) ? 2 : 8)) return;  // One with a broken ring takes no more.
  penstock_queue_close(queue);
  self.queues[is_polled] = nullptr;
}

void Program::reap(Self& self, penstock_queue* queue, std::vector<Asked>& asked) {
  Completion completions[kDepthMax];
  std::vector<bool> seen(asked.size());
  std::uint32_t reaped = 0;
  for (auto left = static_cast<unsigned>(asked.size()); left > 0;) {
    const std::int64_t limit = self.random.one_in(2) ? -1 : static_cast<std::int64_t>(self.random.below(kMillisecond));
    const auto least = static_cast<unsigned>(self.random.between(limit < 0 ? 1 : 0, left));
    const penstock_status status = penstock_queue_reap(queue, completions, kDepthMax, least, limit, &reaped);
    if (status.code != 0) scheduler().fail("a reap fails");
    if (reaped > left || (limit < 0 && reaped < least)) scheduler().fail("a reap returns another number than it must");
    for (unsigned i = 0; i < reaped; ++i) {
      const std::uint64_t cookie = completions[i].cookie;
      if (cookie >= seen.size() || seen[cookie]) scheduler().fail("a request is reaped twice, or was never submitted");
      seen[cookie] = true;
      end(asked[cookie], completions[i].status, completions[i].report);
    }
    left -= reaped;
  }
}

// One of a thread's two.
void* Program::stream_of(Self& self) const {
  const std::uint64_t number = self.random.below(2);
  if (!gpu().is_there()) return reinterpret_cast<void*>(self.number * 16 + 16 * number);
  if (self.streams[number] == nullptr) self.streams[number] = gpu().open_stream(self.random.one_in(2));
  return self.streams[number];
}

// False if that cannot be waited for any more.
bool Program::drain(void* stream) const {
  if (!gpu().is_there()) return core::HostStreamHome::of_process().drain(stream).ok();
  const auto& own = *static_cast<const GpuStream*>(stream);
  gpu().wait_for(own, own.end());
  return !gpu().is_lost();
}

// Nobody tells what became of a request on a stream, of which parts may have moved.
void Program::give_up(Asked& asked) {
  (asked.request.op == PENSTOCK_READ ? sums_.read_behind_gaps : sums_.written_behind_gaps) += asked.request.size;
  asked.take_back();
}

// Of a request whose stream fails with its GPU. What was begun goes on without it: a write from staged bytes may still
// succeed, and what a read tells of does not land. The driver calls no function of a stream any more, so that a request
// that has one left there does not end. False if nothing is left to judge.
bool Program::was_begun_before_the_loss(Asked& asked, const volatile penstock_stream_result& result) {
  for (unsigned i = 0; result.done != 1 && i < kPatienceOfStreams; ++i)
    scheduler().wait(Call::program, nullptr, scheduler().now() + 1000 * kMillisecond);
  if (result.done == 1 && asked.request.op == PENSTOCK_WRITE) return true;
  if (result.done != 1 && !Gpu::has_call_left(*static_cast<const GpuStream*>(asked.request.stream)))
    scheduler().fail("a request on a stream does not end after its GPU is lost");
  give_up(asked);
  return false;
}

void Program::use_stream(Self& self) {
  Asked asked;
  if (!asked.begin(self.random, self.places[1], pick(self.random), size_max_, self.random.one_in(3))) return;
  asked.request.stream = stream_of(self);
  penstock_stream_result result{};
  result.struct_size = sizeof result;
  result.report.struct_size = sizeof result.report;
  const penstock_status status = penstock_stream_submit(&asked.request, &result);
  if (status.code != 0) {
    if (!may_refuse(status, false) && !is_stream_unsupported(status))
      scheduler().fail(("a stream refuses a request: " + text_of(status)).c_str());
    return give_up(asked);
  }
  // The result may be there before the stream has copied.
  const bool is_through = drain(asked.request.stream);
  if (is_through && result.done != 1) scheduler().fail("a stream is through, and its request is not");
  if (!is_through && !was_begun_before_the_loss(asked, result)) return;
  end(asked, result.status, result.report);
}

// Of a file that nobody uses just now: what is under way by a descriptor goes where that leads.
void Program::take_descriptors(Slot& slot) {
  const bool is_idle = other_sessions_ == 0 && slot.handles[0].use_count() == 1 && slot.handles[1].use_count() == 1;
  if (!is_idle || slot.handles[0]->is_lost || slot.handles[0]->file->is_raw_drive()) return;
  slot.handles[0]->is_lost = slot.handles[1]->is_lost = true;
  disk().take_descriptors(*slot.handles[0]->file);
}

void Program::change_file(Self& self) {
  Random& random = self.random;
  scheduler().point(Call::program);  // Another thread may have the slot's file replaced meanwhile.
  Slot& slot = slots_[random.below(slots_.size())];
  File& file = *slot.handles[0]->file;
  (void)pass_leases(file, true);
  const std::uint64_t size = file.size();
  if (random.one_in(16)) return take_descriptors(slot);
  switch (file.is_raw_drive() ? 5 : random.below(6)) {
    case 0: return file.resize(random.below(file_max_));
    case 1: return file.resize(size - random.below(std::min<std::uint64_t>(size, 8192) + 1));
    case 2: return file.resize(size + random.below(8192));
    case 3: {
      const std::uint64_t first = random.below(size + 1);
      return first == size ? void() : file.punch(first, random.between(first + 1, size));
    }
    default: {
      Slot fresh = new_slot(self.session, random);
      if (fresh.handles[0]->raw != nullptr && fresh.handles[1]->raw != nullptr)
        std::swap(slot, fresh);  // Handles go with their last request.
    }
  }
}

// Beside the others, on one of their files, by settings of its own, which are in force from here on.
void Program::use_another_session(Self& self) {
  Random& random = self.random;
  penstock_session* session = nullptr;
  const penstock_status opened = open_session(random, &session);
  if (opened.code != 0) return may_refuse(opened, false) ? void() : scheduler().fail("no other session opens");
  ++other_sessions_;
  Sums sums;
  {
    const auto handle = std::make_shared<Handle>();
    handle->file = pick(random)->file;
    const int fd = disk().open(handle->file, random.one_in(2));
    const penstock_status status = penstock_file_register(session, fd, &handle->raw);
    if (status.code != 0 && !may_refuse(status, false)) scheduler().fail("another session does not take a file");
    ::close(fd);
    const Place place(session, size_max_, random.one_in(2));
    for (std::uint64_t left = handle->raw == nullptr ? 0 : random.between(1, 4); left > 0; --left) {
      Asked asked;
      if (!asked.begin(random, place, handle, size_max_, random.one_in(3))) continue;
      if (random.one_in(4)) asked.cut_into_pieces(random);
      Report report;
      finish(asked, penstock_transfer(&asked.request, &report), report, sums);
    }
  }
  if (random.one_in(4)) compare_counters(session, sums);  // All of its pages are touched for that.
  penstock_session_close(session);
  --other_sessions_;
}

// What was written before would survive a loss of power.
void Program::flush_file(Self& self) {
  const std::shared_ptr<Handle> handle = pick(self.random);
  const File& file = *handle->file;
  // It tells of those of requests as well, which are told to whoever flushes next.
  const unsigned told = handle->flushes_told, failed = file.failed_flushes();
  const std::uint64_t writes = file.writes();
  const penstock_status status = penstock_file_sync(handle->raw);
  const bool is_fault = status.domain == PENSTOCK_DOMAIN_OS && status.code == EIO && file.failed_flushes() != told;
  handle->flushes_told = std::max(handle->flushes_told, failed);
  if (status.code != 0 && !is_fault && !may_refuse(status, false))
    scheduler().fail(("a file is not flushed: " + text_of(status)).c_str());
  if (status.code == 0 && file.durable_writes() < writes)
    scheduler().fail("a file was flushed, and a loss of power would lose what was written before");
}

void Program::ask_for_advice(Self& self) {
  Asked asked;
  if (!asked.begin(self.random, self.places[0], pick(self.random), size_max_, false)) return;
  std::array<Verdict, 16> verdicts;
  std::uint32_t count = 0;
  char text[512];
  const bool is_told = penstock_explain(&asked.request, verdicts.data(), 16, &count).code == 0 &&
                       penstock_plan(&asked.request, text, sizeof text, nullptr).code == 0;
  const bool may_fail = is_closing_ || disk().has_taken_descriptors() || may_refuse_for_want_of_a_path();
  if (!may_fail && (!is_told || count == 0)) scheduler().fail("a dry run fails");
  asked.take_back();
}

// An operation that is none, or a read into memory that is none.
void Program::ask_for_nonsense(Self& self) {
  Asked asked;
  const bool is_write = self.random.one_in(2);
  if (!asked.begin(self.random, self.places[0], pick(self.random), size_max_, is_write)) return;
  if (is_write) asked.request.op = 77;
  else asked.request.base = reinterpret_cast<void*>(0x10000), asked.request.buffer_offset = 0;
  Report report;
  const penstock_status status = penstock_transfer(&asked.request, &report);
  if (report.bytes != 0 || (status.code == 0 && is_write)) scheduler().fail("a request that makes no sense is taken");
  asked.take_back();
}

void Program::use_another_process(Self& self) {
  const std::shared_ptr<Handle> handle = pick(self.random);
  if (!self.random.one_in(16) || handle->raw == nullptr) return use_another_session(self);
  fork_a_child(self.random, {self.session, handle, self.queues[self.random.below(2)], self.places[0]});
}

void Program::act_once(Self& self) {
  if (is_restless_ && self.random.one_in(3)) return change_file(self);
  switch (self.random.below(12)) {
    case 0:
    case 1: return use_queue(self, false);
    case 2:
    case 3: return use_queue(self, true);
    case 4: return use_stream(self);
    case 5: return self.random.one_in(6) ? use_another_process(self) : change_file(self);
    case 6:
      switch (self.random.below(4)) {
        case 0: return ask_for_advice(self);
        case 1: return ask_for_nonsense(self);
        default: return flush_file(self);
      }
    default: return call(self);
  }
}

// Who closes the session is woken by calls that were under way, and not by those that come later.
void Program::await_closing() const {
  while (!is_closed_) scheduler().wait(Call::program, &is_closed_);
}

void Program::act(penstock_session* session, std::uint64_t number, std::uint64_t seed) {
  Self self{session, Random(seed), {}, {}, number, {}};
  for (unsigned i = 0; i < 2 + kDepthMax; ++i)
    self.places.emplace_back(session, size_max_, i == 1 || (i > 1 && self.random.one_in(2)));
  for (unsigned i = 0; i < rounds_ && !(is_closing_ && self.random.one_in(4)); ++i) {
    ends().exit_if_due();
    act_once(self);
    if (is_closing_ && self.random.one_in(2)) await_closing();
  }
  for (penstock_queue* const queue : self.queues) penstock_queue_close(queue);
  self.places.clear();
  penstock_session_close(session);
}

// ---- The whole ------------------------------------------------------------------------------------------------------

Tally Program::run() {
  Random& random = scheduler().random();
  std::vector<std::thread> threads;
  for (std::uint64_t i = random.between(1, 4); i > 0; --i) {
    penstock_session* reference = nullptr;
    if (penstock_session_reference(session_, &reference).code != 0) scheduler().fail("no reference can be had");
    threads.emplace_back([=, this, seed = random.next()] { act(reference, i, seed); });
  }
  if (random.one_in(4)) scheduler().refuse_threads(static_cast<unsigned>(random.between(1, 4)));
  if (random.one_in(nvfs().is_there() ? 3 : 10)) ends().draw(random, tally_);
  const bool is_closed_early = random.one_in(4);
  if (is_closed_early) {
    scheduler().wait(Call::program, nullptr, scheduler().now() + random.below(20 * kMillisecond));
    is_closing_ = true;
    penstock_session_close(session_);
    is_closed_ = true;
    scheduler().wake(&is_closed_);
  }
  for (std::thread& thread : threads) thread.join();
  if (!is_closed_early && random.one_in(2)) compare_counters(session_, sums_);
  slots_.clear();
  if (!is_closed_early) penstock_session_close(session_);
  for (const char* const left : {nvfs().left_over(), dmabufs().left_over(), peers().left_over(is_closed_early)})
    if (left != nullptr) scheduler().fail(left);
  if (!disk().give_up_taken()) scheduler().fail("a descriptor is closed that had become another file's");
  if (vendor().are_more_alive(1 + gpu().threads())) scheduler().fail("a thread outlives the session");
  return tally_;
}

// Its place must be the same in each run, and on the stack it follows what the process was called by.
Tally run_requests() { return std::make_unique<Program>()->run(); }

}  // namespace penstock::simulation
