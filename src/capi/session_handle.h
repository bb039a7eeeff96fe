// SPDX-License-Identifier: Apache-2.0

// What penstock_session is: a session and the devices it was opened with. penstock.cc and cufile.cc share it; the
// cuFile driver is one of these behind a count.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "frontend/frontends.h"
#include "penstock/penstock.h"
#include "session/session.h"
#include "settings/settings.h"

struct penstock_session {
  penstock::core::Settings settings;  // As it was opened: each one's value, and who said it.
  std::string device_kind;
  std::string device_reason;  // Why there is no GPU; empty where there is.
  std::unique_ptr<penstock::core::Session> session;
  std::unique_ptr<penstock::core::Frontends> frontends;
  std::mutex copies_mutex;  // For upload and download: tools and tests.
  std::map<penstock::core::Device*, std::unique_ptr<penstock::core::CopyQueue>> copies;
};

namespace penstock::core {

// `config` is what the face makes of the settings.
Result<std::unique_ptr<penstock_session>> open_session(const Config& config, const Settings& settings);
Result<std::unique_ptr<penstock_session>> open_session(const Staged& staged);  // And by the environment.
penstock_status to_public(const Status& status);
penstock_report to_public(const Report& report);

}  // namespace penstock::core
