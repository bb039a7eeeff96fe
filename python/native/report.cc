// SPDX-License-Identifier: Apache-2.0

#include "python/native/report.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "python/native/engine.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

// Returns the name of a reason, or None for PENSTOCK_REASON_NONE.
std::optional<std::string> reason_of(std::int32_t reason) {
  if (reason == PENSTOCK_REASON_NONE) return std::nullopt;
  return engine().reason_name(reason);
}

nb::dict bytes_by_path(const Report& report) {
  nb::dict result;
  const auto count = static_cast<std::int32_t>(engine().path_count());
  for (std::int32_t path = 0; path < count; ++path) {
    if (const auto bytes = engine().report_bytes(&report.raw, path)) result[engine().path_name(path)] = bytes;
  }
  return result;
}

std::string sentence_of(const Report& report) {
  const penstock_report& raw = report.raw;
  std::string text = std::to_string(raw.bytes) + " bytes by path " + engine().path_name(raw.path);
  if (raw.reason != PENSTOCK_REASON_NONE && raw.refused_path >= 0) {
    text +=
        std::string("; not by ") + engine().path_name(raw.refused_path) + ": " + engine().reason_sentence(raw.reason);
  }
  if (raw.path_reason != PENSTOCK_REASON_NONE) text += std::string("; ") + engine().reason_sentence(raw.path_reason);
  if (raw.bounced_reason != PENSTOCK_REASON_NONE) {
    text += std::string("; bounced in part: ") + engine().reason_sentence(raw.bounced_reason);
  }
  return text;
}

}  // namespace

nb::dict by_path_name(const kv::MovedBytes& moved) {
  nb::dict result;
  for (std::size_t path = 0; path < moved.by_path.size(); ++path) {
    if (moved.by_path[path] > 0) result[engine().path_name(static_cast<std::int32_t>(path))] = moved.by_path[path];
  }
  return result;
}

nb::dict by_reason_name(const kv::MovedBytes& moved) {
  nb::dict result;
  for (const auto& [reason, bytes] : moved.by_reason) result[engine().reason_name(reason)] = bytes;
  return result;
}

nb::dict verdict_of(const penstock_verdict& verdict) {
  nb::dict result;
  result["path"] = engine().path_name(verdict.path);
  result["usable"] = verdict.usable != 0;
  result["reason"] = reason_of(verdict.reason);
  result["detail"] = verdict.detail;
  const bool has_reason = verdict.reason != PENSTOCK_REASON_NONE;
  result["sentence"] = has_reason ? engine().reason_sentence(verdict.reason) : "";
  result["remedy"] = has_reason ? engine().reason_remedy(verdict.reason) : "";
  return result;
}

void bind_report(nb::module_& module) {
  nb::class_<Report>(module, "Report", "What one transfer did: how many bytes by which path, and why by no better one.")
      .def_prop_ro(
          "bytes", [](const Report& report) { return report.raw.bytes; },
          "Bytes moved. Fewer than asked for where a read met the end of the file.")
      .def_prop_ro(
          "path", [](const Report& report) { return engine().path_name(report.raw.path); },
          "The path that was chosen: 'p2pdma', 'pagecache', 'vendor', 'bounce', 'host', ...")
      .def_prop_ro(
          "reason", [](const Report& report) { return reason_of(report.raw.reason); },
          "Why `refused_path` was not chosen; None where the best path was.")
      .def_prop_ro(
          "refused_path",
          [](const Report& report) -> std::optional<std::string> {
            if (report.raw.refused_path < 0) return std::nullopt;
            return engine().path_name(report.raw.refused_path);
          },
          "The best path that refused, or None.")
      .def_prop_ro(
          "path_reason", [](const Report& report) { return reason_of(report.raw.path_reason); },
          "Why `path` is slower than it could be, or None.")
      .def_prop_ro(
          "bounced_reason", [](const Report& report) { return reason_of(report.raw.bounced_reason); },
          "Why `path` left bytes to the bounce path, or None.")
      .def_prop_ro(
          "direct_bytes", [](const Report& report) { return report.raw.direct_bytes; },
          "Of the bytes: moved around the page cache.")
      .def_prop_ro(
          "cached_bytes", [](const Report& report) { return report.raw.cached_bytes; },
          "Of the bytes: moved through the page cache.")
      .def_prop_ro("bytes_by_path", &bytes_by_path, "A dict {path: bytes} whose values add up to `bytes`.")
      .def("__str__", &sentence_of)
      .def("__repr__", [](const Report& report) { return "<penstock.Report: " + sentence_of(report) + ">"; });
}

}  // namespace penstock::python
