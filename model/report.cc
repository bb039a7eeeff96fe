// SPDX-License-Identifier: Apache-2.0

#include "model/report.h"

#include <algorithm>
#include <cmath>

namespace penstock::model {
namespace {

Json sheet_json(const Sheet& sheet) {
  Json json = {{"name", sheet.name}, {"title", sheet.title}, {"bulk", sheet.is_bulk}, {"columns", Json::array()}};
  for (const Column& column : sheet.columns)
    json["columns"].push_back({{"name", column.name}, {"label", column.label}});
  json["rows"] = sheet.rows;
  return json;
}

Json surface_json(const Surface& surface) {
  return {{"title", surface.title}, {"sheet", surface.sheet}, {"x", surface.x},
          {"y", surface.y},         {"z", surface.z},         {"z_is_logarithmic", surface.z_is_logarithmic}};
}

Json sensitivity_json(const Sensitivity& sensitivity) {
  Json json = {{"result", sensitivity.result},
               {"value", number(sensitivity.value)},
               {"least", number(sensitivity.least)},
               {"most", number(sensitivity.most)},
               {"constants", Json::array()}};
  for (const Influence& influence : sensitivity.influences) {
    json["constants"].push_back({{"name", influence.constant},
                                 {"elasticity", number(influence.elasticity)},
                                 {"at_low", number(influence.at_low)},
                                 {"at_high", number(influence.at_high)}});
  }
  return json;
}

std::string csv_cell(const Json& cell) {
  if (cell.is_null()) return "";
  if (!cell.is_string()) return cell.dump();
  const auto& text = cell.get_ref<const std::string&>();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return quoted + "\"";
}

}  // namespace

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json to_json(const Report& report) {
  Json json = {{"model", report.model},
               {"title", report.title},
               {"inputs", report.inputs},
               {"sheets", Json::array()},
               {"surfaces", Json::array()}};
  for (const Sheet& sheet : report.sheets) json["sheets"].push_back(sheet_json(sheet));
  for (const Surface& surface : report.surfaces) json["surfaces"].push_back(surface_json(surface));
  json["plots"] = Json::array();
  for (const Plot& plot : report.plots) {
    json["plots"].push_back({{"title", plot.title}, {"sheet", plot.sheet}, {"x", plot.x}, {"y", plot.y}});
  }
  json["sensitivity"] = Json::array();
  for (const Sensitivity& one : report.sensitivities) json["sensitivity"].push_back(sensitivity_json(one));
  json["notes"] = report.notes;
  if (!report.answer.empty()) json["answer"] = report.answer;
  for (const Sheet& sheet : report.sheets) {
    if (!sheet.words.empty()) json["words"][sheet.name] = sheet.words;
  }
  return json;
}

const Sheet& csv_sheet_of(const Report& report) {
  const auto named = std::find_if(report.sheets.begin(), report.sheets.end(),
                                  [&](const Sheet& one) { return one.name == report.csv_sheet; });
  return named == report.sheets.end() ? report.sheets.front() : *named;
}

std::string to_csv(const Report& report) {
  const Sheet& sheet = csv_sheet_of(report);
  std::vector<std::vector<Json>> lines(1);
  for (const Column& column : sheet.columns) lines[0].emplace_back(column.name);
  lines.insert(lines.end(), sheet.rows.begin(), sheet.rows.end());
  std::string text;
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) text += (i == 0 ? "" : ",") + csv_cell(line[i]);
    text += "\n";
  }
  return text;
}

}  // namespace penstock::model
