// SPDX-License-Identifier: Apache-2.0

// The one global: the driver that all cuFile calls of a process share. It is opened explicitly or by the first call
// that needs it, its users are counted, and it can be opened again. It is never destroyed, so none of its code runs at
// process exit. A forked child has a driver of its own: the threads, rings and contexts of the parent's session are not
// there, and locks may be held for ever.
#pragma once

#include <atomic>
#include <map>
#include <utility>

#include "base/mutex.h"
#include "base/process.h"
#include "capi/guarded_session.h"
#include "settings/settings.h"

namespace penstock::core {

class CufileDriver {
 public:
  static CufileDriver& instance();

  Status open();  // Adds a user.
  bool close();   // Removes a user; false if there is none.
  long use_count();

  // Registers a cuFile stream, of any context. While the driver is closed it keeps the stream for its next opening.
  Status register_stream(void* stream, unsigned flags);
  Status deregister_stream(void* stream);

  // Holds the session open for the length of one call. Empty if the driver is closed.
  class Use {
   public:
    [[gnu::always_inline]] explicit Use(CufileDriver& driver) : driver_(driver), inside_(driver.gate_.enter()) {}
    Use(Use&& other) noexcept : driver_(other.driver_), inside_(std::exchange(other.inside_, false)) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (inside_) driver_.gate_.leave();
    }
    explicit operator bool() const { return inside_; }
    const std::shared_ptr<GuardedSession>& guarded() const { return driver_.guarded_; }
    Session& session() const { return driver_.guarded_->session(); }
    Frontends& frontends() const { return driver_.guarded_->frontends(); }
    Session* operator->() const { return &session(); }

   private:
    CufileDriver& driver_;
    bool inside_;
  };
  // Opens the driver if it is closed. The use is not empty, and stays on the calling thread.
  Result<Use> open_and_use();

  // The settings in force while the driver is open; while it is closed, those of the last opening (see parameter()).
  Settings settings();
  bool is_on(Setting setting);
  std::int64_t number(Setting setting);
  // The current settings, or those of the next opening.
  Settings settings_to_come();
  // True if answers are those of cuFile 1.20, by the settings in force or to come. Takes no lock while the driver is
  // open, so calls inside the gate may ask. False if there is no memory to read the settings.
  bool follows_1_20();
  // Changes settings that are in force. False while the driver is closed.
  bool change(const PendingValues& values);

  // A setting's current value, or that of the next opening. A pending value is returned unchanged.
  Value parameter(Setting setting);
  // Keeps values for the driver's next opening. False, with nothing changed, if it is open.
  bool set_pending_parameters(const PendingValues& values);
  bool was_open() const { return was_open_.load(std::memory_order_relaxed); }  // True also while it is open.
  // True if a file, a variable or a call gave the value in force; while the driver is closed, if a call did.
  bool was_set(Setting setting);
  // True if the driver is open, if it was open and closing did not forget this setting, or if it was pending.
  bool is_known(Setting setting);

 private:
  CufileDriver() = default;
  explicit CufileDriver(CufileDriver* parents);
  Status open_implicitly() EXCLUDES(mutex_);
  Status open_session_locked() REQUIRES(mutex_);
  Status try_open_session_locked() REQUIRES(mutex_);
  void clear_session_locked() REQUIRES(mutex_);

  const std::uint32_t forks_ = fork_count();
  // Held for opening and closing. Never taken inside the gate, for which closing waits.
  Mutex mutex_ ACQUIRED_BEFORE(settings_mutex_);
  // The parent's driver was open, and this process has neither closed nor opened it.
  bool is_inherited_ GUARDED_BY(mutex_) = false;
  long use_count_ GUARDED_BY(mutex_) = 0;
  std::atomic<bool> was_open_{false};
  enum class Contract : std::uint8_t { unknown, of_1_15, of_1_20 };
  std::atomic<Contract> contract_{Contract::unknown};  // Known from before the gate opens until it has closed.
  PendingValues pending_ GUARDED_BY(mutex_);
  std::map<void*, unsigned> streams_to_come_ GUARDED_BY(mutex_);
  Mutex settings_mutex_;
  Settings settings_ GUARDED_BY(settings_mutex_);
  std::shared_ptr<GuardedSession> guarded_;  // Set while the gate is open.
  Gate gate_;
};

// Chooses between two versions' answers.
template <typename Answer>
Answer by_version(Answer of_1_15, Answer of_1_20) {
  return CufileDriver::instance().follows_1_20() ? of_1_20 : of_1_15;
}

}  // namespace penstock::core
