// SPDX-License-Identifier: Apache-2.0

// A model's report, for all output formats: inputs, tables of numbers, pictures drawn from the tables, notes, and the
// constants on which each result depends. JSON and CSV are written from this one value, and pages from the JSON, so
// that they cannot differ. It does not depend on any model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/sensitivity.h"

namespace penstock::model {

using Json = nlohmann::ordered_json;

struct Column {
  std::string name;   // "save_s": whole words, the unit last.
  std::string label;  // "save, s"
};

struct Sheet {
  std::string name;
  std::string title;
  std::vector<Column> columns;
  std::vector<std::vector<Json>> rows;  // Numbers, texts, or null for no number (never, not applicable).
  bool is_bulk = false;                 // Data of a picture, too long to print as text.
  std::string words;                    // What rows and columns mean; "" if their names say it.
};

// z over x and y; the sheet's rows list all y for each x.
struct Surface {
  std::string title;
  std::string sheet;
  std::string x, y, z;  // Columns.
  bool z_is_logarithmic = false;
};

struct Plot {
  std::string title;
  std::string sheet;
  std::string x;  // Logarithmic.
  std::vector<std::string> y;
};

struct Report {
  std::string model;
  std::string title;
  std::string answer;  // What to do, in a sentence; "" if the model answers no such question.
  Json inputs = Json::object();
  std::vector<Sheet> sheets;
  std::string csv_sheet;  // The sheet for CSV; "": the first.
  std::vector<Surface> surfaces;
  std::vector<Plot> plots;
  std::vector<std::string> notes;
  std::vector<Sensitivity> sensitivities;
};

Json number(double value);  // Null if the value is not finite.
Json to_json(const Report& report);
const Sheet& csv_sheet_of(const Report& report);
std::string to_csv(const Report& report);  // RFC 4180, a line of column names first.

}  // namespace penstock::model
