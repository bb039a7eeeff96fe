// The one global: the driver that the cuFile calls of a process share. Opened explicitly or by the first call that
// needs it, counted, and reopenable. It is never destroyed, so nothing of it runs at process exit.
#pragma once

#include <atomic>
#include <mutex>

#include "abi/gate.h"
#include "abi/session_handle.h"
#include "cufile.h"

namespace penstock::core {

class CufileDriver {
 public:
  static CufileDriver& instance();

  Status open();  // One user more.
  bool close();   // One user less; false where there is none.
  long use_count();

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
    penstock_session* handle() const { return inside_ ? driver_.session_.get() : nullptr; }
    Session* operator->() const { return driver_.session_->session.get(); }

   private:
    CufileDriver& driver_;
    const bool inside_;
  };

  // What GetProperties tells and the setters change; meaningful while open.
  CUfileDrvProps_t properties();
  template <typename Change>
  bool change_properties(Change change) {
    const Use use(*this);
    if (!use) return false;
    const std::lock_guard lock(properties_mutex_);
    change(properties_);
    return true;
  }

 private:
  CufileDriver() = default;
  bool enter_or_open(Status& status);
  Status open_implicitly();
  Status open_session_locked();
  bool drop_inherited_locked();

  std::mutex mutex_;  // Guards opening and closing. Never taken inside the gate, for which closing waits.
  long use_count_ = 0;
  std::mutex properties_mutex_;
  CUfileDrvProps_t properties_{};
  std::unique_ptr<penstock_session> session_;  // Set while the gate is open.
  Gate gate_;
};

}  // namespace penstock::core
