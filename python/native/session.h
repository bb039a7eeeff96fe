// SPDX-License-Identifier: Apache-2.0

// A session and its files, as Python objects hold them. A thread may close one while another is in a call on it: each
// call holds its own reference, and the last one closes the library's handle.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "python/native/engine.h"
#include "python/native/no_gil.h"

namespace penstock::python {

class SessionHandle {
 public:
  // shared: uses the session behind cuFile's calls, if Penstock's libcufile is this process's engine.
  SessionHandle(const nanobind::dict& settings, std::optional<bool> shared);
  ~SessionHandle();  // With or without the GIL; calls no driver.
  SessionHandle(const SessionHandle&) = delete;
  SessionHandle& operator=(const SessionHandle&) = delete;

  const Engine& engine() const { return engine_; }
  penstock_session* raw() const { return raw_; }
  bool is_shared() const { return is_shared_; }
  bool is_closed() const { return is_closed_; }
  // Waits for requests in flight. Call it without the GIL. Further calls do nothing.
  void close();

 private:
  void open_own(const nanobind::dict& settings);
  void open_shared();

  const Engine& engine_;
  bool is_shared_ = false;
  std::atomic<bool> is_closed_{false};
  std::atomic<penstock_session*> opened_{nullptr};  // Closing it ends the session.
  penstock_session* raw_ = nullptr;                 // The session that calls use. It is closed with this object.
};

class FileHandle {
 public:
  FileHandle(std::shared_ptr<SessionHandle> session, penstock_file* raw) : session_(std::move(session)), raw_(raw) {}
  ~FileHandle() {
    if (!is_ending()) session_->engine().file_close(raw_);
  }
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;

  const Engine& engine() const { return session_->engine(); }
  SessionHandle& session() const { return *session_; }
  penstock_file* raw() const { return raw_; }

 private:
  const std::shared_ptr<SessionHandle> session_;
  penstock_file* const raw_;
};

void bind_session(nanobind::module_& module);

}  // namespace penstock::python
