// SPDX-License-Identifier: Apache-2.0

// The C API's settings: Penstock's own, by their short names.
#include <optional>
#include <string>
#include <vector>

#include "capi/conversions.h"
#include "settings/names.h"
#include "settings/words.h"

namespace core = penstock::core;

namespace {

using core::Code;
using core::failure;
using core::GuardedSession;
using core::session_call;
using core::Status;
using core::status_call;
using core::success;

// The strings of one row, zero-terminated.
struct Texts {
  std::string name, variable, initial, takes, meaning;
};

std::vector<Texts> texts_of_own() {
  std::vector<Texts> all;
  for (std::size_t i = 0; i < core::kSettingCount; ++i) {
    const core::Setting setting = core::Setting::at(i);
    const core::SettingRow& row = setting.row();
    if (!setting.is_own()) continue;
    all.push_back({std::string(setting.name()), row.variable, core::default_text(row), core::takes_text(row),
                   std::string(row.meaning)});
  }
  return all;
}

const std::vector<Texts>& own_settings() {
  static const auto* const all = new std::vector<Texts>(texts_of_own());  // Never freed: callers keep the strings.
  return *all;
}

}  // namespace

extern "C" {

penstock_status penstock_config_create(penstock_config** config) {
  constexpr const char* kStep = "create a configuration";
  return status_call(kStep, [&]() -> Status {
    if (config == nullptr) return failure(Code::invalid_argument, kStep);
    *config = new penstock_config;
    return success();
  });
}

void penstock_config_close(penstock_config* config) { delete config; }

penstock_status penstock_config_set(penstock_config* config, const char* name, const char* value) {
  constexpr const char* kStep = "change the configuration";
  return status_call(kStep, [&]() -> Status {
    if (config == nullptr || name == nullptr || value == nullptr) return failure(Code::invalid_argument, kStep);
    return core::set_pending_named(config->pending, name, value);
  });
}

uint32_t penstock_setting_count(void) {
  return core::boundary([] { return static_cast<uint32_t>(own_settings().size()); }, [] { return 0u; });
}

penstock_status penstock_setting_get(uint32_t number, penstock_setting* setting) {
  constexpr const char* kStep = "look at the setting";
  return status_call(kStep, [&]() -> Status {
    if (const Status status = core::check_struct(setting); !status.ok()) return status;
    if (number >= own_settings().size()) return failure(Code::invalid_argument, kStep);
    const Texts& texts = own_settings()[number];
    core::write_struct(setting, penstock_setting{.struct_size = 0,
                                                 .reserved = 0,
                                                 .name = texts.name.c_str(),
                                                 .variable = texts.variable.c_str(),
                                                 .initial = texts.initial.c_str(),
                                                 .takes = texts.takes.c_str(),
                                                 .meaning = texts.meaning.c_str()});
    return success();
  });
}

penstock_status penstock_session_setting(penstock_session* session, const char* name, char* value, size_t capacity,
                                         size_t* length, const char** source) {
  constexpr const char* kStep = "look at the setting";
  if (length != nullptr) *length = 0;
  return session_call(kStep, session, [&](const GuardedSession::Use&) -> Status {
    if (name == nullptr) return failure(Code::invalid_argument, kStep);
    const std::optional<core::Setting> setting = core::own_setting(name);
    if (!setting) return core::no_such_setting(name);
    const core::Settings& settings = session->guarded->settings();
    const std::string text = settings.text_of(*setting);
    (void)core::copy_text(text, value, capacity);
    if (length != nullptr) *length = text.size();
    if (source != nullptr) *source = core::origin_name(settings.origin(*setting));
    return success();
  });
}

}  // extern "C"
