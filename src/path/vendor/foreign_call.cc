// SPDX-License-Identifier: Apache-2.0

#include "path/vendor/foreign_call.h"

#include <unistd.h>

#include <condition_variable>
#include <mutex>

#include "base/thread.h"

namespace penstock::core {

struct ForeignCall::State {
  enum class Stage { begun, outside, back, done, given_up };

  std::mutex mutex;
  std::condition_variable changed;
  Stage stage = Stage::begun;
  std::function<void(ForeignCall&)> work;

  void run() {
    ForeignCall call(*this);
    work(call);
    const std::lock_guard lock(mutex);
    stage = Stage::done;
    changed.notify_all();
  }
};

void ForeignCall::go_out() {
  const std::lock_guard lock(state_.mutex);
  state_.stage = State::Stage::outside;
  state_.changed.notify_all();
}

void ForeignCall::come_back() {
  {
    const std::lock_guard lock(state_.mutex);
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
    std::unique_lock lock(state->mutex);
    state->changed.wait(lock, [&] { return state->stage != Stage::begun; });
    state->changed.wait_for(lock, patience, [&] { return state->stage == Stage::done; });
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
