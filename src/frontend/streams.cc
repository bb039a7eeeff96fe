// SPDX-License-Identifier: Apache-2.0

#include "frontend/streams.h"

#include <algorithm>

namespace penstock::core {
namespace {

Status reachable(const StreamHome& home, const PointerFacts& memory, const void* base) {
  constexpr const char* kStep = "reach the memory from the stream";
  if (!memory.needs_device()) return success();
  if (memory.device == nullptr) return failure(Code::no_device, kStep);
  return home.reaches(memory, base) ? success() : failure(Code::unsupported, kStep);
}

}  // namespace

Streams::Streams(Session& session, Executor& executor)
    : session_(session), pool_(std::make_shared<StreamRequestPool>()) {
  pool_->session = &session;
  pool_->executor = &executor;
}

Streams::~Streams() {
  const MutexLock lock(pool_->mutex);
  pool_->session = nullptr;
  pool_->executor = nullptr;
}

void Streams::close() {
  const MutexLock lock(pool_->mutex);
  pool_->executor = nullptr;
}

Result<StreamHome*> Streams::home_of(void* stream, const char* step) {
  if (session_.is_inherited()) return failure(Code::closed, step);
  if (!session_.config().streams) return failure(Code::unsupported, step);
  return session_.devices().stream_home(stream);
}

void Streams::prepare() { (void)home_of(nullptr, "prepare for streams"); }

Status Streams::submit(void* stream, const StreamParameters& parameters, const StreamHooks& hooks) {
  if (!session_.is_file(parameters.file)) return failure(Code::not_registered, "find the file");
  const Result<StreamHome*> home = home_of(stream, "use the stream");
  if (!home.ok()) return home.status();
  StreamRequest::Target target{*home, stream, session_.devices().describe(parameters.base)};
  target.blocking = !session_.config().stream_words || !target.home->has_words();
  target.staging_limit = session_.config().bounce_bytes;
  if (const Status status = reachable(**home, target.memory, parameters.base); !status.ok()) return status;
  // The request ends in the call: the result is there when the call returns, as with NVIDIA's library.
  if (*parameters.size == 0) {
    hooks.deliver(parameters.result, parameters.request(), {});
    return success();
  }
  RawRequest request = parameters.request();
  request.memory = &target.memory;
  target.lender = StreamLoan::find_lender(session_, **home, request);
  const unsigned fixed = parameters.fixed ? StreamRequest::kFixedAll : flags_of({(*home)->id(), stream});
  if (target.home->is_through(stream)) target.here = &session_;
  return take_request()->begin(pool_, parameters, fixed, hooks, target);
}

StreamRequest* Streams::take_request() {
  const MutexLock lock(pool_->mutex);
  StreamRequest* const request = pool_->idle;
  if (request == nullptr) return new StreamRequest(*pool_);
  pool_->idle = request->next_idle_;
  return request;
}

std::map<Streams::Key, unsigned>::iterator Streams::find_locked(const Key& key) {
  const auto found = flags_.find(key);
  return found != flags_.end() ? found : flags_.find({kAnyHome, key.second});
}

unsigned Streams::flags_of(const Key& key) {
  const MutexLock lock(mutex_);
  const auto found = find_locked(key);
  return found == flags_.end() ? 0 : found->second;
}

Status Streams::register_stream(void* stream, unsigned flags) {
  constexpr const char* kStep = "register the stream";
  const Result<StreamHome*> home = home_of(stream, kStep);
  if (!home.ok()) return home.status();
  const Key key{(*home)->id(), stream};
  const MutexLock lock(mutex_);
  if (find_locked(key) != flags_.end()) return failure(Code::invalid_argument, kStep);
  flags_.emplace(key, flags);
  return success();
}

void Streams::expect_stream(void* stream, unsigned flags) {
  const MutexLock lock(mutex_);
  flags_.insert_or_assign({kAnyHome, stream}, flags);
}

bool Streams::is_registered(void* stream) {
  const MutexLock lock(mutex_);
  return std::any_of(flags_.begin(), flags_.end(), [&](const auto& known) { return known.first.second == stream; });
}

Status Streams::deregister_stream(void* stream) {
  constexpr const char* kStep = "deregister the stream";
  // The driver crashes on handles that it never gave out, so it is never asked about an unregistered one.
  if (!is_registered(stream)) return failure(Code::invalid_argument, kStep);
  const Result<StreamHome*> home = home_of(stream, kStep);
  if (!home.ok()) return home.status();
  {
    const MutexLock lock(mutex_);
    const auto found = find_locked({(*home)->id(), stream});
    if (found == flags_.end()) return failure(Code::invalid_argument, kStep);
    flags_.erase(found);
  }
  return (*home)->drain(stream);
}

}  // namespace penstock::core
