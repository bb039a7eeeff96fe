// SPDX-License-Identifier: Apache-2.0

#include "model/program/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "model/bench_results.h"
#include "model/input.h"
#include "model/program/wording.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/new_file.h"
#include "tools/common/plots.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

constexpr std::size_t kInfluencesShown = 6;
constexpr std::uint64_t kResultsSizeMost = std::uint64_t{64} << 20;

// A sheet without rows is not printed; the report says why it has none.
void print_sheet(const model::Sheet& sheet) {
  if (sheet.rows.empty()) return;
  std::vector<std::string> columns;
  for (std::size_t i = 0; i < sheet.columns.size(); ++i) {
    const bool is_number =
        std::any_of(sheet.rows.begin(), sheet.rows.end(), [&](const auto& r) { return r[i].is_number(); });
    columns.push_back((is_number ? ">" : "") + label_for_worded(sheet.columns[i]));
  }
  Table table(columns);
  for (const auto& row : sheet.rows) {
    std::vector<std::string> cells;
    for (std::size_t i = 0; i < row.size(); ++i) cells.push_back(worded(row[i], sheet.columns[i].name));
    table.add(std::move(cells));
  }
  print("\n{}\n", sheet.title);
  if (!sheet.words.empty()) print("{}\n", sheet.words);
  print("{}", table.text());
}

// Named as columns are: "save, direct, s".
model::Column column_of(const model::Sensitivity& sensitivity) {
  const auto has_unit = [&](const char* unit) { return sensitivity.result.ends_with(unit); };
  return {has_unit(", s") ? "seconds" : has_unit(", h") ? "hours" : has_unit(", $") ? "money" : "", sensitivity.result};
}

// Tells how far the report's figures are known.
void print_ranges(const model::Report& report, bool with_sensitivity) {
  Table table({"result", ">value", ">least", ">most"});
  for (const model::Sensitivity& one : report.sensitivities) {
    const model::Column column = column_of(one);
    const auto shown = [&](double value) { return worded(model::number(value), column.name); };
    table.add({label_for_worded(column), shown(one.value), shown(one.least), shown(one.most)});
  }
  if (report.sensitivities.empty()) return;
  print("\nWith all constants at the ends of their ranges{}\n{}",
        with_sensitivity ? "" : " (--sensitivity: which matter)", table.text());
}

void print_sensitivity(const model::Sensitivity& sensitivity) {
  const model::Column column = column_of(sensitivity);
  const auto shown = [&](double value) { return worded(model::number(value), column.name); };
  print("\nWhat moves: {} ({})\n", label_for_worded(column), shown(sensitivity.value));
  Table table({"constant", ">% for 1 %", ">at its low end", ">at its high end"});
  for (std::size_t i = 0; i < std::min(kInfluencesShown, sensitivity.influences.size()); ++i) {
    const model::Influence& one = sensitivity.influences[i];
    table.add(
        {std::string(one.constant), fmt::format("{:+.3f}", one.elasticity), shown(one.at_low), shown(one.at_high)});
  }
  print("{}", table.text());
}

// Says where an input comes from, and the option that would give it: "assumed; --drives".
std::string origin_of(std::string_view input, const ModelOutput& output, const std::string& example) {
  const CommandLine& command = output.command.value();
  const std::string constant = fmt::format("{}=", constant_of_input(input));
  const auto gives = [&](const std::string& setting) { return setting.starts_with(constant); };
  if (constant != "=" && std::ranges::any_of(output.settings, gives)) return "given";
  std::string option;
  for (const std::string& one : options_of_input(input)) {
    if (!command.has(one)) continue;
    if (command.was_given(one)) return "given";
    if (option.empty()) option = one;
  }
  if (!example.empty()) return fmt::format("of the example '{}'", example);
  return option.empty() ? "worked out" : "assumed; " + option;
}

// Inputs that are nothing, as a window of 0 s, are told only if they were given.
void print_inputs(const model::Report& report, const ModelOutput& output, const std::string& example) {
  for (const auto& [name, value] : report.inputs.items()) {
    const std::string origin = origin_of(name, output, example);
    const bool is_nothing = value == 0 || value == false;
    if (is_nothing && origin != "given") continue;
    print("  {}: {} ({})\n", input_in_words(name), worded(value, name), origin);
  }
}

void print_text(const model::Report& report, const ModelOutput& output, const std::string& example) {
  print("{}\n", report.title);
  if (!report.answer.empty()) print("{}\n", report.answer);
  print_inputs(report, output, example);
  for (const std::string& constant : output.settings) print("  constant {} (given)\n", constant);
  print("  constants as 'penstock-model constants' lists them\n");
  for (const model::Sheet& sheet : report.sheets) {
    if (!sheet.is_bulk) print_sheet(sheet);
  }
  print_ranges(report, output.sensitivity);
  if (output.sensitivity) {
    for (const model::Sensitivity& one : report.sensitivities) print_sensitivity(one);
  }
  if (!report.notes.empty()) print("\n");
  for (const std::string& note : report.notes) print("{}\n", note);
}

double value_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : std::nan("");
}

}  // namespace

std::string content_of(const std::string& path, const char* what) {
  std::string text = read_bounded(path, kResultsSizeMost);
  if (text.size() > kResultsSizeMost) throw Failure(fmt::format("{}: it is too large for {}", path, what));
  return text;
}

void add_output_options(CommandLine& command, ModelOutput& output) {
  output.command.emplace(command);
  const Option json = command.flag("--json", output.json, "Print JSON");
  command.flag("--csv", output.csv, "Print the main table, for spreadsheets").excludes(json);
  command.flag("--sensitivity", output.sensitivity, "Add which constants moved the results most (JSON always does)");
  command.option("--html", output.html, "Also write a page with pictures to FILE; it needs no network")
      .value_name("FILE");
  command.flag("--overwrite", output.overwrite, "Replace FILE if it exists");
  command.option("--set", output.settings, "Give a constant another value; 'penstock-model constants' lists them")
      .value_name("NAME=VALUE")
      .one_value_each();
}

model::Constants constants_of(const ModelOutput& output) {
  model::Constants constants;
  for (const std::string& setting : output.settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) throw Failure(fmt::format("--set '{}': write NAME=VALUE", setting), kUsage);
    constants.set(std::string_view(setting).substr(0, equals), value_of(setting.substr(equals + 1)));
  }
  return constants;
}

void deliver(const model::Report& report, const ModelOutput& output, const std::string& example) {
  model::Json json = model::to_json(report);
  for (const auto& [name, value] : report.inputs.items()) json["origins"][name] = origin_of(name, output, example);
  if (!output.html.empty()) write_file(output.html, page_with(report_page(), json), output.overwrite);
  if (output.json) return print_json(json);
  if (output.csv) {
    if (model::csv_sheet_of(report).rows.empty()) print_error("penstock-model: {}\n", report.answer);
    return print_document(Text(model::to_csv(report)));
  }
  print_text(report, output, example);
  if (!output.html.empty()) print("\npage: {}\n", output.html);
}

std::vector<model::Measurement> read_measurements(const std::vector<std::string>& files) {
  std::vector<model::Measurement> all;
  for (const std::string& file : files) {
    const std::vector<model::Measurement> some =
        model::bench_results(content_of(file, "results of 'penstock bench --json'"), file);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::vector<model::GroupComparison> calibrated_by(const std::vector<std::string>& files,
                                                  const model::Constants& constants) {
  if (files.empty()) return {};
  return model::compare(read_measurements(files), 0, constants);
}

int answer(const std::function<void()>& command) {
  try {
    command();
  } catch (const model::InvalidInput& refused) {
    throw Failure(refused.what(), kUsage);
  }
  return kSuccess;
}

}  // namespace penstock::tools
