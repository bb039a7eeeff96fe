// SPDX-License-Identifier: Apache-2.0

#include "cufile/driver.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/shortage.h"
#include "base/thread.h"
#include "cufile/config.h"
#include "cufile/stats.h"
#include "device/providers.h"
#include "frontend/streams.h"

namespace penstock::core {
namespace {

// Values that calls have set hold for one opening, except this one, which NVIDIA's library keeps.
bool outlives_opening(Setting setting) { return setting == Setting("call.logfile_path"); }

// Once it has closed, NVIDIA's library answers for these settings as if it had never been open.
bool is_forgotten_by_closing(Setting setting) { return std::string_view(setting.row().key).starts_with("execution."); }

const PendingValue* find(const PendingValues& pending, Setting setting) {
  const auto found =
      std::find_if(pending.begin(), pending.end(), [&](const PendingValue& one) { return one.setting == setting; });
  return found == pending.end() ? nullptr : &*found;
}

LogLevel level_of(Severity severity) {
  switch (severity) {
    case Severity::error: return LogLevel::error;
    case Severity::note: return LogLevel::warn;
    case Severity::idle: break;
  }
  return LogLevel::info;
}

void open_log(const LoadedSettings& loaded) {
  const Settings& settings = loaded.settings;
  LogTarget target;
  target.level = log_level_named(settings.text("logging.level")).value_or(LogLevel::error);
  target.path = log_path(settings);
  target.bytes_max = static_cast<std::uint64_t>(std::max<std::int64_t>(settings.number("logging.max_file_size_mb"), 0))
                     << 20;
  log_to(std::move(target));
  for (const Note& note : loaded.notes) log(level_of(note.severity), describe(note));
}

}  // namespace

CufileDriver& CufileDriver::instance() {
  alignas(CufileDriver) static std::byte first[sizeof(CufileDriver)];
  static std::atomic<CufileDriver*> current{new (first) CufileDriver};  // Never destroyed.
  CufileDriver* driver = current.load(std::memory_order_acquire);
  if (driver->forks_ == fork_count()) return *driver;
  auto* const fresh = new CufileDriver(driver);
  if (current.compare_exchange_strong(driver, fresh)) return *fresh;
  delete fresh;  // Another thread of the child installed its driver first.
  return *driver;
}

// Parameters that were set before the fork hold, unless a thread of the parent's was changing them at that moment.
CufileDriver::CufileDriver(CufileDriver* parents) {
  if (!parents->mutex_.try_lock()) return;
  pending_ = parents->pending_;
  was_open_ = parents->was_open();
  is_inherited_ = parents->is_inherited_ || parents->use_count_ > 0;
  parents->mutex_.unlock();
}

// Opens the session on a new thread, because it needs more stack than some callers have.
Status CufileDriver::open_session_locked() {
  struct Opening {
    CufileDriver& driver;
    Status status;
  } opening{*this, {}};
  run_apart(
      "penstock-open",
      [](void* argument) {
        CufileDriver& driver = static_cast<Opening*>(argument)->driver;
        Status& status = static_cast<Opening*>(argument)->status;
        driver.mutex_.assume_held();  // The calling thread holds the mutex and waits for this one.
        const auto out_of_memory = [] { return failure(Code::out_of_memory, "open the driver"); };
        const auto try_open = [&] {
          driver.mutex_.assume_held();
          return driver.try_open_session_locked();
        };
        status = unless_short_of_memory(try_open, out_of_memory);
        if (status.ok()) return;
        driver.clear_session_locked();
        unless_short_of_memory([&] { log(LogLevel::error, describe(status, driver_of(status))); }, [] {});
      },
      &opening);
  // The streams are warmed up before the program makes them busy. Whatever fails now is tried again by the first
  // request.
  if (opening.status.ok()) unless_short_of_memory([&] { guarded_->frontends().warm_up(); }, [] {});
  return opening.status;
}

// Ends the session. Users may still hold handles of it (penstock_cufile_session), whose calls then fail as closed.
void CufileDriver::clear_session_locked() {
  if (const std::shared_ptr<GuardedSession> guarded = std::exchange(guarded_, nullptr)) guarded->close();
}

Status CufileDriver::try_open_session_locked() {
  const LoadedSettings loaded = load_process_settings(pending_);
  {
    const MutexLock lock(settings_mutex_);
    settings_ = loaded.settings;
  }
  open_log(loaded);
  if (loaded.must_refuse) return refusal_of(loaded);
  const Result<Config> config = config_from(loaded.settings);
  if (!config.ok()) return config.status();
  Result<std::shared_ptr<GuardedSession>> opened = GuardedSession::open(*config, loaded.settings);
  if (!opened.ok()) return opened.status();
  guarded_ = std::move(*opened);
  for (const auto& [stream, flags] : streams_to_come_) guarded_->frontends().streams().expect_stream(stream, flags);
  CufileStats& stats = CufileStats::instance();
  // From here on nothing can fail.
  contract_ = core::follows_1_20(loaded.settings) ? Contract::of_1_20 : Contract::of_1_15;
  streams_to_come_.clear();
  std::erase_if(pending_, [](const PendingValue& one) { return !outlives_opening(one.setting); });
  gate_.open();
  was_open_ = true;
  stats.session_opened(guarded_->session(), static_cast<unsigned>(std::clamp<std::int64_t>(
                                                loaded.settings.number("profile.cufile_stats"), 0, kCufileLevelMax)));
  return success();
}

Status CufileDriver::open() {
  const MutexLock lock(mutex_);
  if (use_count_ == 0) {
    if (const Status status = open_session_locked(); !status.ok()) return status;
  }
  ++use_count_;
  return success();
}

Status CufileDriver::open_implicitly() {
  const MutexLock lock(mutex_);
  if (use_count_ > 0) return success();
  const Status status = open_session_locked();
  if (status.ok()) use_count_ = 1;
  return status;
}

Result<CufileDriver::Use> CufileDriver::open_and_use() {
  if (Use use(*this); use) return Result<Use>(std::move(use));
  if (const Status status = open_implicitly(); !status.ok()) return status;
  Use use(*this);
  if (!use) return failure(Code::closed, "use the driver");  // Another thread has just closed it.
  return Result<Use>(std::move(use));
}

bool CufileDriver::close() {
  const MutexLock lock(mutex_);
  if (use_count_ == 0) return std::exchange(is_inherited_, false);
  if (--use_count_ > 0) return true;
  gate_.close();
  // By 1.20's answers a level of statistics ends with the driver that it was set for.
  if (contract_.exchange(Contract::unknown) == Contract::of_1_20) CufileStats::instance().forget_level();
  clear_session_locked();
  return true;
}

long CufileDriver::use_count() {
  const MutexLock lock(mutex_);
  return use_count_;
}

// ---- Streams -------------------------------------------------------------------------------------------------------

Status CufileDriver::register_stream(void* stream, unsigned flags) {
  for (;;) {
    if (const Use use(*this); use) return use.frontends().streams().register_stream(stream, flags);
    const MutexLock lock(mutex_);
    if (use_count_ > 0) continue;  // Another thread has just opened it.
    const bool is_new = streams_to_come_.try_emplace(stream, flags).second;
    return is_new ? success() : failure(Code::invalid_argument, "register the stream once more");
  }
}

Status CufileDriver::deregister_stream(void* stream) {
  for (;;) {
    if (const Use use(*this); use) return use.frontends().streams().deregister_stream(stream);
    const MutexLock lock(mutex_);
    if (use_count_ > 0) continue;
    return streams_to_come_.erase(stream) > 0 ? success() : failure(Code::invalid_argument, "deregister the stream");
  }
}

// ---- Settings ------------------------------------------------------------------------------------------------------

Settings CufileDriver::settings() {
  const MutexLock lock(settings_mutex_);
  return settings_;
}

bool CufileDriver::change(const PendingValues& values) {
  const Use use(*this);
  if (!use) return false;
  const MutexLock lock(settings_mutex_);
  for (const PendingValue& one : values) settings_.set(one.setting, one.value, Origin::call);
  return true;
}

bool CufileDriver::is_on(Setting setting) {
  const MutexLock lock(settings_mutex_);
  return settings_.is_on(setting);
}

std::int64_t CufileDriver::number(Setting setting) {
  const MutexLock lock(settings_mutex_);
  return settings_.number(setting);
}

Settings CufileDriver::settings_to_come() {
  const MutexLock lock(mutex_);
  return use_count_ > 0 ? settings() : load_process_settings(pending_).settings;
}

bool CufileDriver::follows_1_20() {
  if (const Contract known = contract_.load(std::memory_order_relaxed); known != Contract::unknown) {
    return known == Contract::of_1_20;
  }
  return unless_short_of_memory([&] { return core::follows_1_20(settings_to_come()); }, [] { return false; });
}

Value CufileDriver::parameter(Setting setting) {
  const MutexLock lock(mutex_);
  if (use_count_ > 0) return settings().value(setting);
  if (const PendingValue* pending = find(pending_, setting)) return pending->value;
  return load_process_settings().settings.value(setting);
}

bool CufileDriver::set_pending_parameters(const PendingValues& values) {
  const MutexLock lock(mutex_);
  if (use_count_ > 0) return false;
  for (const PendingValue& one : values) set_pending(pending_, one.setting, one.value);
  return true;
}

bool CufileDriver::was_set(Setting setting) {
  const MutexLock lock(mutex_);
  return use_count_ > 0 ? settings().was_set(setting) : find(pending_, setting) != nullptr;
}

bool CufileDriver::is_known(Setting setting) {
  const MutexLock lock(mutex_);
  const bool was_read = use_count_ > 0 || (was_open() && !is_forgotten_by_closing(setting));
  return was_read || find(pending_, setting) != nullptr;
}

}  // namespace penstock::core
