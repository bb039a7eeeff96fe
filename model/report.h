// SPDX-License-Identifier: Apache-2.0

// What a model answers, for every way of showing it: inputs, tables of numbers, pictures drawn from those tables,
// notes, and which constants each result hangs on. One value; JSON and CSV are written from it, and pages from the
// JSON, so that they cannot differ. It knows nothing of any model.
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
  std::vector<std::vector<Json>> rows;  // Numbers, texts, or null where there is no number (never, not applicable).
  bool is_bulk = false;                 // Data of a picture: too long to be read as text.
};

// z over x and y; the sheet's rows run through y for each x.
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
  Json inputs = Json::object();
  std::vector<Sheet> sheets;
  std::string csv_sheet;  // The one that CSV gets; "" for the first.
  std::vector<Surface> surfaces;
  std::vector<Plot> plots;
  std::vector<std::string> notes;
  std::vector<Sensitivity> sensitivities;
};

Json number(double value);  // Null where it is not finite.
Json to_json(const Report& report);
std::string to_csv(const Report& report);  // RFC 4180, a line of column names first.

}  // namespace penstock::model
