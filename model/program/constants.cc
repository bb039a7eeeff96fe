// SPDX-License-Identifier: Apache-2.0

#include "model/constants.h"

#include <fmt/format.h>

#include <memory>

#include "model/pcie/pcie_constants.h"
#include "model/program/commands.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

void print_constants(bool json) {
  Json rows = Json::array();
  Table table({"constant", ">value", ">low", ">high", "unit", "source"});
  for (const model::ConstantFacts& one : model::all_constant_facts()) {
    rows.push_back({{"name", one.name},
                    {"value", one.value},
                    {"low", one.low},
                    {"high", one.high},
                    {"unit", one.unit},
                    {"source", one.source}});
    table.add({std::string(one.name), fmt::format("{:g}", one.value), fmt::format("{:g}", one.low),
               fmt::format("{:g}", one.high), std::string(one.unit), std::string(one.source)});
  }
  if (json) return print_json({{"constants", rows}});
  print("{}", table.text());
}

}  // namespace

void add_constants(CommandLine& command) {
  auto json = std::make_shared<bool>(false);
  command.flag("--json", *json, "Print JSON");
  command.footer(
      "Examples:\n"
      "  penstock-model constants                        a table\n"
      "  penstock-model registration --set nic_cache.entries=128\n"
      "                                                  another value for one of them\n"
      "Exit code: 0 done, 2 wrong usage.");
  command.runs([json] {
    print_constants(*json);
    return kSuccess;
  });
}

}  // namespace penstock::tools
