// SPDX-License-Identifier: Apache-2.0

#include "path/vendor/foreign_call.h"

#include <unistd.h>

#include "base/mutex.h"
#include "base/thread.h"

namespace penstock::core {

struct ForeignCall::State {
  enum class Stage { begun, outside, back, done, given_up };

  Mutex mutex;
  ConditionVariable changed;
  Stage stage GUARDED_BY(mutex) = Stage::begun;
  std::function<void(ForeignCall&)> work;

  void run() {
    ForeignCall call(*this);
    work(call);
    const MutexLock lock(mutex);
    stage = Stage::done;
    changed.notify_all();
  }
};

void ForeignCall::go_out() {
  const MutexLock lock(state_.mutex);
  state_.stage = State::Stage::outside;
  state_.changed.notify_all();
}

void ForeignCall::come_back() {
  {
    const MutexLock lock(state_.mutex);
    if (state_.stage != State::Stage::given_up) {
      state_.stage = State::Stage::back;
      return;
    }
  }
  while (true) ::pause();
}

bool ForeignCall::run(std::chrono::milliseconds patience, std::function<void(ForeignCall&)> work) {
  using Stage = State::Stage;
  const auto state = std::make_shared<State>();
  state->work = std::move(work);
  auto own = std::make_unique<std::shared_ptr<State>>(state);
  const auto body = [](void* argument) {
    const std::unique_ptr<std::shared_ptr<State>> kept(static_cast<std::shared_ptr<State>*>(argument));
    (*kept)->run();
  };
  pthread_t thread{};
  if (!start_thread(thread, "penstock-vendor", body, own.get())) {
    state->run();
    return true;
  }
  (void)own.release();
  {
    const MutexLock lock(state->mutex);
    while (state->stage == Stage::begun) state->changed.wait(state->mutex);
    const auto end = std::chrono::steady_clock::now() + patience;
    while (state->stage != Stage::done && state->changed.wait_until(state->mutex, end)) {
    }
    if (state->stage == Stage::outside) {
      state->stage = Stage::given_up;
      ::pthread_detach(thread);
      return false;
    }
  }
  ::pthread_join(thread, nullptr);
  return true;
}

}  // namespace penstock::core
