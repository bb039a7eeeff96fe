// SPDX-License-Identifier: Apache-2.0

// The one global: the driver that the cuFile calls of a process share. Opened explicitly or by the first call that
// needs it, counted, and reopenable. It is never destroyed, so nothing of it runs at process exit. A forked child has
// one of its own: threads, rings and contexts of the parent's session are not there, and locks may be held for ever.
#pragma once

#include <atomic>
#include <map>
#include <vector>

#include "base/mutex.h"
#include "base/process.h"
#include "capi/guarded_session.h"
#include "settings/settings.h"

namespace penstock::core {

class CufileDriver {
 public:
  static CufileDriver& instance();

  Status open();  // One user more.
  bool close();   // One user less; false where there is none.
  long use_count();

  // cuFile's streams. While the driver is closed they are remembered for its next opening, in whatever context.
  Status register_stream(void* stream, unsigned flags);
  Status deregister_stream(void* stream);

  // Holds the session open for the length of one call. Empty where the driver is closed.
  class Use {
   public:
    explicit Use(CufileDriver& driver) : driver_(driver), inside_(driver.gate_.enter()) {}
    // Opens the driver where it is closed; empty, with the status set, where that fails.
    Use(CufileDriver& driver, Status& status) : driver_(driver), inside_(driver.enter_or_open(status)) {}
    ~Use() {
      if (inside_) driver_.gate_.leave();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const { return inside_; }
    const std::shared_ptr<GuardedSession>& guarded() const { return driver_.guarded_; }
    Session& session() const { return driver_.guarded_->session(); }
    Frontends& frontends() const { return driver_.guarded_->frontends(); }
    Session* operator->() const { return &session(); }

   private:
    CufileDriver& driver_;
    const bool inside_;
  };

  // The settings in force while open, those of the latest time before that. While the driver is closed, ask
  // parameter().
  Settings settings();
  bool is_on(Setting setting);
  std::int64_t number(Setting setting);
  // The settings that the driver would open with, or runs with.
  Settings settings_to_come();
  // The notes from when they were read, also if the driver did not open for one.
  std::vector<Note> notes();
  // Changes settings that are in force. False while closed.
  bool change(const Staged& values);

  // The value that the driver would open with, or runs with. A staged value is returned as it was set.
  Value parameter(Setting setting);
  // For the time when the driver opens; false, and nothing is changed, where it is open.
  bool stage_parameters(const Staged& values);
  bool was_open() const { return was_open_.load(std::memory_order_relaxed); }  // Or is.
  // True if the driver is open, or was and did not forget this as it closed, or this was staged.
  bool is_known(Setting setting);

 private:
  CufileDriver() = default;
  explicit CufileDriver(CufileDriver* parents);
  bool enter_or_open(Status& status);
  Status open_implicitly() EXCLUDES(mutex_);
  Status open_session_locked() REQUIRES(mutex_);
  Status try_open_session_locked() REQUIRES(mutex_);
  void clear_session_locked() REQUIRES(mutex_);

  const std::uint32_t forks_ = fork_count();
  // For opening and closing. Never taken inside the gate, for which closing waits.
  Mutex mutex_ ACQUIRED_BEFORE(settings_mutex_);
  // The parent's was open, and this process has neither closed nor opened it.
  bool is_inherited_ GUARDED_BY(mutex_) = false;
  long use_count_ GUARDED_BY(mutex_) = 0;
  std::atomic<bool> was_open_{false};
  Staged staged_ GUARDED_BY(mutex_);
  std::map<void*, unsigned> streams_to_come_ GUARDED_BY(mutex_);
  Mutex settings_mutex_;
  Settings settings_ GUARDED_BY(settings_mutex_);
  std::vector<Note> notes_ GUARDED_BY(settings_mutex_);
  std::shared_ptr<GuardedSession> guarded_;  // Set while the gate is open.
  Gate gate_;
};

}  // namespace penstock::core
