// SPDX-License-Identifier: Apache-2.0

#include "python/native/requests.h"

#include <nanobind/stl/shared_ptr.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#include "python/native/delivery.h"
#include "python/native/failure.h"
#include "python/native/no_gil.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

constexpr std::uint32_t kDepth = 1024;
constexpr std::uint32_t kReapMax = 64;
constexpr int kStreamPauseMs = 1;  // The interval of polling requests on streams, which have no descriptor.
constexpr int kClosePauseMs = 10;  // While closing: another thread may have reaped what this one waits for.
constexpr double kTimeoutMax = 1e9;

std::uint64_t nanoseconds(std::chrono::steady_clock::time_point time) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

}  // namespace

Requests::Requests(std::shared_ptr<SessionHandle> session) : session_(std::move(session)) {
  const Engine& engine = session_->engine();
  penstock_queue_options options{};
  options.struct_size = sizeof options;
  options.mode = PENSTOCK_QUEUE_THREADED;
  options.depth = kDepth;
  check(engine.queue_open(session_->raw(), &options, &queue_));
  int event = -1;
  penstock_status status = engine.queue_eventfd(queue_, &event);
  queue_event_ = event;
  wake_event_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (status.code == 0 && wake_event_ < 0) status = {PENSTOCK_DOMAIN_OS, 0, errno, "make an eventfd"};
  if (status.code == 0) return;
  engine.queue_close(queue_);
  if (wake_event_ >= 0) ::close(wake_event_);
  check(status);
}

Requests::~Requests() {
  if (is_ending() || ::getpid() != process_) {
    new Numbered(std::move(requests_));  // Leaked: the kernel may still use their memory, or it was the parent's.
    return;
  }
  {
    const NoGil no_gil;
    close();
  }
  ::close(wake_event_);
}

void Requests::close() {
  if (::getpid() != process_) return;  // Another thread may have held the lock when the process forked.
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(closing_, true)) return;
    for (const std::uint64_t number : waiting_) {
      end(number, own_status(PENSTOCK_CANCELED, "begin a request before its session was closed"), empty_report());
    }
    waiting_.clear();
  }
  for (;;) {
    penstock_queue* finished = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      collect();
      if (queued_ == 0 && on_streams_ == 0) finished = std::exchange(queue_, nullptr);
    }
    deliver_all();
    if (finished != nullptr) {
      queue_event_ = -1;
      session_->engine().queue_close(finished);
      return;
    }
    wait(kClosePauseMs);
  }
}

// Makes a request from the arguments, not yet queued. Raises ValueError or TypeError for impossible ones.
std::unique_ptr<Requests::Request> Requests::request_of(const File& file, bool is_write, nb::handle memories,
                                                        std::int64_t offset, std::int64_t size,
                                                        std::int64_t buffer_offset, nb::handle stream) {
  auto request = std::make_unique<Request>();
  request->file = file.use();
  request->op = is_write ? PENSTOCK_WRITE : PENSTOCK_READ;
  request->offset = offset;
  const nb::list objects = nb::cast<nb::list>(memories);
  const bool is_part = objects.size() == 1;
  for (nb::handle object : objects) {
    const Memory& memory = request->memories.emplace_back(object, access_for(request->op), stream);
    const std::uint64_t bytes = is_part ? size_in(memory, size, buffer_offset) : memory.size();
    request->pieces.push_back({memory.data() + (is_part ? buffer_offset : 0), bytes});
    request->size += bytes;
    if (memory.order().is_given && !request->order.is_given) request->order = memory.order();
  }
  if (request->pieces.empty()) raise_value_error("there are no buffers: pass one at least");
  if (request->order.is_given && request->pieces.size() != 1) {
    raise_value_error(
        "a request in the order of a CUDA stream has one piece of memory: pass stream=-1 and wait for the "
        "stream, or submit one request for each piece");
  }
  return request;
}

void Requests::set_deadline(Request& request, double timeout_s) {
  request.has_deadline = timeout_s >= 0 && timeout_s < kTimeoutMax;
  if (!request.has_deadline) return;
  if (request.order.is_given) {
    raise_value_error(
        "a request in the order of a CUDA stream has no deadline: pass stream=-1 and wait for the stream, or "
        "leave timeout out");
  }
  request.deadline = Clock::now() + std::chrono::nanoseconds(std::llround(timeout_s * 1e9));
  if (request.op == PENSTOCK_READ) request.staging.reset(new std::byte[std::max<std::uint64_t>(request.size, 1)]);
}

std::uint64_t Requests::submit(const File& file, bool is_write, nb::handle memories, std::int64_t offset,
                               std::int64_t size, std::int64_t buffer_offset, nb::handle stream, double timeout_s) {
  if (::getpid() != process_) raise(exception_of(own_status(PENSTOCK_CLOSED, "submit a request of the parent's")));
  std::unique_ptr<Request> request = request_of(file, is_write, memories, offset, size, buffer_offset, stream);
  set_deadline(*request, timeout_s);
  std::unique_lock lock(mutex_);
  if (closing_) {
    lock.unlock();
    raise(exception_of(own_status(PENSTOCK_CLOSED, "submit a request")));
  }
  const std::uint64_t number = ++last_number_;
  Request& placed = *(requests_[number] = std::move(request));
  const bool on_stream = placed.order.is_given;
  if (on_stream) {
    start_on_stream(placed);
  } else {
    waiting_.push_back(number);
    pump();
  }
  const bool needs_watch = placed.has_deadline || on_stream || !ended_.empty();
  lock.unlock();
  if (needs_watch) wake();
  return number;
}

// Call it with the lock held.
void Requests::start_on_stream(Request& request) {
  request.stream_result = std::make_unique<penstock_stream_result>();
  penstock_stream_result* const result = request.stream_result.get();
  result->struct_size = sizeof *result;
  const iovec& piece = request.pieces.front();
  penstock_request on_stream =
      penstock_request_of(request.op, request.file->raw(), piece.iov_base, piece.iov_len, request.offset, 0);
  on_stream.stream = reinterpret_cast<void*>(static_cast<std::uintptr_t>(request.order.stream));
  const penstock_status status = session_->engine().stream_submit(&on_stream, result);
  request.state = State::queued;
  ++on_streams_;
  if (status.code == 0) return;
  result->status = status;
  result->report = empty_report().raw;
  __atomic_store_n(&result->done, 1, __ATOMIC_RELEASE);
}

// Submits as many as the queue takes. Call it with the lock held.
void Requests::pump() {
  while (!waiting_.empty() && queued_ < kDepth) {
    const std::uint64_t number = waiting_.front();
    waiting_.pop_front();
    Request& request = *requests_.at(number);
    penstock_request raw{};
    raw.struct_size = sizeof raw;
    raw.op = request.op;
    raw.file = request.file->raw();
    raw.file_offset = request.offset;
    raw.cookie = number;
    if (request.has_deadline) raw.deadline_ns = nanoseconds(request.deadline);
    if (request.staging != nullptr) {
      raw.base = request.staging.get();
      raw.size = request.size;
    } else if (request.pieces.size() == 1) {
      raw.base = request.pieces.front().iov_base;
      raw.size = request.pieces.front().iov_len;
    } else {
      raw.pieces = request.pieces.data();
      raw.piece_count = static_cast<std::uint32_t>(request.pieces.size());
    }
    const penstock_status status = session_->engine().queue_submit(queue_, &raw, 1, nullptr);
    if (status.code != 0) {
      end(number, status, empty_report());
      continue;
    }
    request.state = State::queued;
    ++queued_;
  }
}

// Call it with the lock held. The request is destroyed by reap(), which has the GIL.
void Requests::end(std::uint64_t number, const penstock_status& status, const Report& report) {
  const auto found = requests_.find(number);
  ended_.push_back({number, status, report});
  finished_.push_back(std::move(found->second));
  requests_.erase(found);
}

bool Requests::cancel(std::uint64_t number) {
  if (::getpid() != process_) return false;
  const std::scoped_lock lock(mutex_);
  const auto found = requests_.find(number);
  if (found == requests_.end() || found->second->stream_result != nullptr) return false;
  if (const auto place = std::find(waiting_.begin(), waiting_.end(), number); place != waiting_.end()) {
    waiting_.erase(place);
    end(number, own_status(PENSTOCK_CANCELED, "begin the request"), empty_report());
    wake();
    return true;
  }
  std::uint32_t canceled = 0;
  return session_->engine().queue_cancel(queue_, number, &canceled).code == 0 && canceled > 0;
}

// Copies from our memory to the program's.
penstock_status Requests::deliver(Request& request, std::uint64_t bytes) {
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < request.pieces.size() && at < bytes; ++i) {
    const iovec& piece = request.pieces[i];
    const std::uint64_t part = std::min<std::uint64_t>(piece.iov_len, bytes - at);
    const penstock_status status =
        python::deliver(*session_, request.memories[i], piece.iov_base, request.staging.get() + at, part);
    if (status.code != 0) return status;
    at += part;
  }
  return {};
}

// Call it with the lock held, like the next three.
void Requests::collect() {
  if (queue_ != nullptr) collect_queue();
  collect_streams();
  collect_late();
  if (queue_ != nullptr) pump();
}

void Requests::collect_queue() {
  std::array<penstock_completion, kReapMax> done{};
  std::uint32_t count = 0;
  do {
    for (penstock_completion& completion : done) completion.struct_size = sizeof completion;
    if (session_->engine().queue_reap(queue_, done.data(), kReapMax, 0, 0, &count).code != 0) return;
    for (std::uint32_t i = 0; i < count; ++i) {
      --queued_;
      const auto found = requests_.find(done[i].cookie);
      if (found == requests_.end()) continue;
      Request& request = *found->second;
      // The request was late, and its future has failed already. Its memory can be freed now.
      if (request.state == State::ended) {
        finished_.push_back(std::move(found->second));
        requests_.erase(found);
        continue;
      }
      const Report report{done[i].report};
      if (request.staging == nullptr || done[i].status.code != 0) {
        end(done[i].cookie, done[i].status, report);
        continue;
      }
      arrived_.emplace_back(Ended{done[i].cookie, done[i].status, report}, std::move(found->second));
      requests_.erase(found);
    }
  } while (count == kReapMax);
}

// Copies the bytes of requests that have ended to their callers, without the lock: other threads can submit meanwhile.
void Requests::deliver_all() {
  std::vector<std::pair<Ended, std::unique_ptr<Request>>> arrived;
  {
    const std::scoped_lock lock(mutex_);
    arrived.swap(arrived_);
  }
  for (auto& [ended, request] : arrived) ended.status = deliver(*request, ended.report.raw.bytes);
  const std::scoped_lock lock(mutex_);
  for (auto& [ended, request] : arrived) {
    ended_.push_back(ended);
    finished_.push_back(std::move(request));
  }
}

void Requests::collect_streams() {
  if (on_streams_ == 0) return;
  std::vector<std::uint64_t> done;
  for (const auto& [number, request] : requests_) {
    const penstock_stream_result* const result = request->stream_result.get();
    if (result != nullptr && __atomic_load_n(&result->done, __ATOMIC_ACQUIRE) != 0) done.push_back(number);
  }
  for (const std::uint64_t number : done) {
    --on_streams_;
    const penstock_stream_result result = *requests_.at(number)->stream_result;
    end(number, result.status, Report{result.report});
  }
}

void Requests::collect_late() {
  const Clock::time_point now = Clock::now();
  for (auto& [number, request] : requests_) {
    if (!request->has_deadline || request->state != State::queued || request->deadline > now) continue;
    // The library still completes the request; only then is its memory freed.
    request->state = State::ended;
    ended_.push_back({number, own_status(PENSTOCK_TIMED_OUT, "move the bytes before the deadline"), empty_report()});
  }
  const auto is_late = [&](std::uint64_t number) {
    const Request& request = *requests_.at(number);
    if (!request.has_deadline || request.deadline > now) return false;
    end(number, own_status(PENSTOCK_TIMED_OUT, "begin the request before the deadline"), empty_report());
    return true;
  };
  std::erase_if(waiting_, is_late);
}

void Requests::wake() const {
  const std::uint64_t one = 1;
  (void)!::write(wake_event_, &one, sizeof one);
}

int Requests::pause_ms() const {
  const std::scoped_lock lock(mutex_);
  if (!ended_.empty()) return 0;
  if (on_streams_ > 0) return kStreamPauseMs;
  Clock::time_point next = Clock::time_point::max();
  for (const auto& [number, request] : requests_) {
    if (request->has_deadline && request->state != State::ended) next = std::min(next, request->deadline);
  }
  if (next == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 60'000));
}

// ms_max: below 0 for no limit.
void Requests::wait(int ms_max) const {
  const int pause = pause_ms();
  const bool is_limited = ms_max >= 0 && (pause < 0 || pause > ms_max);
  std::array<pollfd, 2> watched{{{queue_event_, POLLIN, 0}, {wake_event_, POLLIN, 0}}};
  (void)::poll(watched.data(), watched.size(), is_limited ? ms_max : pause);
  std::uint64_t count = 0;
  (void)!::read(wake_event_, &count, sizeof count);
}

nb::list Requests::reap(bool may_wait) {
  std::vector<Ended> ended;
  std::vector<std::unique_ptr<Request>> finished;
  if (::getpid() != process_) return {};
  {
    const NoGil no_gil;
    wait(may_wait ? -1 : 0);
    {
      const std::scoped_lock lock(mutex_);
      collect();
    }
    deliver_all();
    const std::scoped_lock lock(mutex_);
    ended.swap(ended_);
    finished.swap(finished_);
  }
  nb::list reaped;
  for (const Ended& each : ended) {
    const nb::object report = nb::cast(each.report);
    reaped.append(nb::make_tuple(each.number, report, end_of(each.status, report)));
  }
  return reaped;
}

std::size_t Requests::under_way() const {
  if (::getpid() != process_) return 0;
  const std::scoped_lock lock(mutex_);
  return requests_.size();
}

void bind_requests(nb::module_& module) {
  nb::class_<Requests>(module, "Requests")
      .def(nb::init<std::shared_ptr<SessionHandle>>(), nb::arg("session"))
      .def("submit", &Requests::submit, nb::arg("file"), nb::arg("is_write"), nb::arg("memories"), nb::arg("offset"),
           nb::arg("size"), nb::arg("buffer_offset"), nb::arg("stream").none(), nb::arg("timeout"))
      .def("cancel", &Requests::cancel)
      .def("reap", &Requests::reap)
      .def("wake", &Requests::wake)
      .def("close", &Requests::close, nb::call_guard<NoGil>())
      .def("under_way", &Requests::under_way, "Requests that have not ended, or whose memory is still the kernel's.");
}

}  // namespace penstock::python
