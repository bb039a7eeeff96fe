// SPDX-License-Identifier: Apache-2.0

// A session whose users may close it at any time: calls enter and leave it, closing waits for the calls inside, and
// later calls fail as closed. Handles of the C API share one, which keeps its memory but not its work alive; cufile/
// has one behind its count of driver openings.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/reachable_memory.h"
#include "capi/gate.h"
#include "capi/open_queues.h"
#include "capi/process_report.h"
#include "frontend/checksums.h"
#include "frontend/frontends.h"
#include "session/session.h"
#include "settings/settings.h"

namespace penstock::core {

class GuardedSession {
 public:
  // The face (capi or cufile) made `config` from the settings.
  static Result<std::shared_ptr<GuardedSession>> open(const Config& config, const Settings& settings);
  // From pending values and the environment.
  static Result<std::shared_ptr<GuardedSession>> open(const PendingValues& pending);
  // The session was closed before, or this is a forked child, which leaves its resources to the parent.
  ~GuardedSession();
  GuardedSession(const GuardedSession&) = delete;
  GuardedSession& operator=(const GuardedSession&) = delete;

  // Waits for calls inside and for transfers in flight. Call it once, and not in a forked child.
  void close();
  // Waits until the closing thread is done, for a caller that found the session closed.
  void wait_closed() const;
  bool is_inherited() const { return fork_count() != forks_; }

  // Holds the session open for the length of one call. Empty where it is closed, or inherited through a fork.
  class Use {
   public:
    explicit Use(GuardedSession& guarded)
        : guarded_(guarded), inside_(!guarded.is_inherited() && guarded.gate_.enter()) {}
    ~Use() {
      if (inside_) guarded_.gate_.leave();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const { return inside_; }
    Session& operator*() const { return *guarded_.session_; }
    Session* operator->() const { return guarded_.session_.get(); }
    Frontends& frontends() const { return *guarded_.frontends_; }

   private:
    GuardedSession& guarded_;
    const bool inside_;
  };

  const Settings& settings() const { return settings_; }  // Each setting's value and its source.
  // For callers that know that the session is open.
  Session& session() { return *session_; }
  Frontends& frontends() { return *frontends_; }
  const std::string& device_kinds() const { return device_kinds_; }
  const std::string& device_reason() const { return device_reason_; }

  // Copies between device and host memory, and waits; the device memory decides the device. For callers inside the
  // gate.
  Status upload(void* device_memory, const void* host, std::uint64_t size);
  Status download(void* host, const void* device_memory, std::uint64_t size);
  Checksums& checksums() { return *checksums_; }
  // The queues of the session's handles; they may outlive the session.
  OpenQueues& queues() { return queues_; }

 private:
  GuardedSession() = default;
  struct HostRange {
    const void* begin = nullptr;
    std::uint64_t size = 0;
    Access access = Access::read;
  };
  template <typename Copy>
  Status copy(const void* device_memory, const HostRange& host, Copy copy);

  const std::uint32_t forks_ = fork_count();
  Gate gate_;
  OpenQueues queues_;
  std::atomic<bool> closed_{false};
  Settings settings_;
  std::string device_kinds_;
  std::string device_reason_;  // Why no GPU is usable; empty where one is.
  ProcessReport* report_ = nullptr;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Frontends> frontends_;
  std::unique_ptr<Checksums> checksums_;
  Mutex copies_mutex_;
  std::map<Device*, std::unique_ptr<CopyQueue>> copies_ GUARDED_BY(copies_mutex_);
};

}  // namespace penstock::core
