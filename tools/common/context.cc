// SPDX-License-Identifier: Apache-2.0

#include "tools/common/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "facts/needs.h"
#include "facts/process.h"
#include "tools/common/failure.h"
#include "tools/common/terminal.h"
#include "tools/common/units.h"

namespace penstock::tools {
namespace {

SessionInfo info_of(penstock_session* session) {
  SessionInfo info;
  require(penstock_session_get(session, &info), "session");
  return info;
}

DeviceInfo device_of(penstock_session* session, unsigned gpu) {
  DeviceInfo device;
  require(penstock_device_get(session, gpu, &device), fmt::format("GPU {}", gpu));
  return device;
}

}  // namespace

Session open_session(const SessionSettings& settings) {
  Config config;
  const std::pair<const char*, const std::string&> said[] = {{"device", settings.device},
                                                             {"paths", settings.paths},
                                                             {"require", settings.require},
                                                             {"direct_io", settings.direct_io},
                                                             {"io_uring", settings.io_uring}};
  for (const auto& [name, value] : said) {
    if (!value.empty()) config.set(name, value);
  }
  for (const auto& [name, value] : settings.more) config.set(name.c_str(), value);
  return require(Session::open(config), "session");
}

std::string other_for_cufile() {
  const auto root = core::Root::open("/");
  return root.ok() ? facts::read_process(*root, false, {}).other_for_cufile() : "";
}

void check_gpu(penstock_session* session, unsigned gpu) {
  const unsigned count = info_of(session).device_count;
  if (gpu < count) return;
  const bool stand_in = count > 0 && device_of(session, 0).stand_in != 0;
  throw Failure(fmt::format("there is no GPU {}; this machine has {}", gpu,
                            stand_in ? fmt::format("none, and host memory stands in for GPUs 0 to {}", count - 1)
                                     : fmt::format("{}", count)),
                kNotApplicable);
}

facts::Finding why_stand_in(penstock_session* session) {
  facts::Finding told = facts::why_stand_in_here(info_of(session).device_reason);
  if (told.sentence.empty()) told.sentence = "asked for";
  return told;
}

std::string device_line(penstock_session* session, unsigned gpu) {
  const DeviceInfo device = device_of(session, gpu);
  if (device.stand_in != 0) {
    return fmt::format("device: host memory standing in for a GPU (reason: {})", why_stand_in(session).sentence);
  }
  const std::string name = fmt::format("device: GPU {}, {}", gpu, device.name);
  return *device.pci_address == '\0' ? name : fmt::format("{} ({})", name, device.pci_address);
}

Json device_json(penstock_session* session, unsigned gpu) {
  const DeviceInfo device = device_of(session, gpu);
  Json json = {
      {"gpu", gpu}, {"name", device.name}, {"pci_address", device.pci_address}, {"stand_in", device.stand_in != 0}};
  if (device.stand_in != 0) json["stand_in_reason"] = why_stand_in(session).sentence;
  return json;
}

std::string path_sentence(int path, int reason, int refused_path) {
  const std::string name = penstock_path_name(path);
  if (reason == PENSTOCK_REASON_NONE) return name + ": no better path stood before it";
  const std::string refused =
      refused_path < 0 || refused_path == path ? "" : fmt::format(", not {}", penstock_path_name(refused_path));
  return fmt::format("{}{}: {} ({})", name, refused, penstock_reason_sentence(reason), penstock_reason_name(reason));
}

void print_json(const Json& json, int indent) {
  Json versioned;
  const bool has_version = json.contains("schema") || json.contains("$schema");  // SARIF's version is in $schema.
  if (json.is_object() && !has_version) {
    versioned["schema"] = 1;
    versioned.update(json);
  }
  const Json& shown = versioned.empty() ? json : versioned;
  print_document(Text(shown.dump(indent, ' ', true, Json::error_handler_t::replace) + "\n"));
}

std::string refusal_text(const Session& session, const File& file, unsigned gpu, bool is_write) {
  const std::string required = require(session.setting("require"), "session");
  const auto verdicts = file.explain({is_write ? PENSTOCK_WRITE : PENSTOCK_READ, gpu});
  if (!verdicts) return "";
  for (const Verdict& verdict : *verdicts) {
    const bool is_meant = required.empty() || verdict.path_name() == required;
    if (verdict.usable != 0 || !is_meant) continue;
    std::string text = fmt::format("the path {} is {}, and refuses {}: {} ({})", verdict.path_name(),
                                   required.empty() ? "the first" : "required", is_write ? "writes" : "reads",
                                   verdict.sentence(), verdict.reason_name());
    if (verdict.remedy()[0] != '\0') text += fmt::format("; {}", verdict.remedy());
    return text;
  }
  return "";
}

bool nvidia_library_may_serve(const File& file, unsigned gpu) {
  const auto verdicts = file.explain({PENSTOCK_READ, gpu});
  if (!verdicts) return false;
  const auto vendor = std::find_if(verdicts->begin(), verdicts->end(),
                                   [](const Verdict& verdict) { return verdict.path == PENSTOCK_PATH_VENDOR; });
  if (vendor == verdicts->end()) return false;
  switch (vendor->reason) {  // These reasons hold for every file of the session; all others concern this file alone.
    case PENSTOCK_REASON_STAND_IN:
    case PENSTOCK_REASON_DIRECT_IO_OFF:
    case PENSTOCK_REASON_VENDOR_OFF:
    case PENSTOCK_REASON_VENDOR_LIBRARY_MISSING:
    case PENSTOCK_REASON_VENDOR_IS_OURSELVES:
    case PENSTOCK_REASON_VENDOR_INCOMPLETE:
    case PENSTOCK_REASON_NVIDIA_FS_MISSING: return false;
    default: return true;
  }
}

std::string path_note(int path_reason) {
  if (path_reason == PENSTOCK_REASON_NONE) return "";
  return fmt::format("  note: {} ({})\n", penstock_reason_sentence(path_reason), penstock_reason_name(path_reason));
}

Json path_json(int path, int reason, int refused_path) {
  Json json = {{"path", penstock_path_name(path)}, {"reason", penstock_reason_name(reason)}};
  json["refused_path"] = refused_path < 0 ? Json() : Json(penstock_path_name(refused_path));
  json["sentence"] = penstock_reason_sentence(reason);
  return json;
}

}  // namespace penstock::tools
