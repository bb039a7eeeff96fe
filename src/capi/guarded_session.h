// SPDX-License-Identifier: Apache-2.0

// A session whose users may close it at any time: calls enter and leave it, closing waits for those inside, and later
// calls are told that it is closed. Handles of the C API share one and keep its memory, not its work; cufile/ has one
// behind its count of opened drivers.
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
  // `config` is what the face makes of the settings.
  static Result<std::shared_ptr<GuardedSession>> open(const Config& config, const Settings& settings);
  static Result<std::shared_ptr<GuardedSession>> open(const Staged& staged);  // And the environment.
  // It was closed before, or is a forked child's, which leaves open resources to the parent.
  ~GuardedSession();
  GuardedSession(const GuardedSession&) = delete;
  GuardedSession& operator=(const GuardedSession&) = delete;

  // Waits for calls inside and for transfers under way. Not twice; not in a forked child.
  void close();
  // For a caller that found it closed and must not run ahead of the thread that closes it.
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

  const Settings& settings() const { return settings_; }  // Each one's value, and who said it.
  // For callers that know it to be open.
  Session& session() { return *session_; }
  Frontends& frontends() { return *frontends_; }
  const std::string& device_kinds() const { return device_kinds_; }
  const std::string& device_reason() const { return device_reason_; }

  // Blocking copies between device memory, which decides the device, and host memory. For callers that are inside.
  Status upload(void* device_memory, const void* host, std::uint64_t size);
  Status download(void* host, const void* device_memory, std::uint64_t size);
  Checksums& checksums() { return *checksums_; }
  // The queues of the session's handles. They may outlive the session, as this does.
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
  std::string device_reason_;  // Why there is no GPU; empty where there is.
  ProcessReport* report_ = nullptr;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Frontends> frontends_;
  std::unique_ptr<Checksums> checksums_;
  Mutex copies_mutex_;
  std::map<Device*, std::unique_ptr<CopyQueue>> copies_ GUARDED_BY(copies_mutex_);
};

}  // namespace penstock::core
