// SPDX-License-Identifier: Apache-2.0

#include "model/program/model.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "model/constants.h"
#include "model/pcie/pcie_constants.h"
#include "model/program/checkpoint.h"
#include "model/program/compare.h"
#include "model/program/contention.h"
#include "model/program/cost.h"
#include "model/program/latency.h"
#include "model/program/output.h"
#include "model/program/registration.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock model registration --html frontier.html     when registering memory once pays\n"
    "  penstock model checkpoint --example week             what checkpoints cost, a published case\n"
    "  penstock model load --parameters 109 --precision fp8\n"
    "  penstock model cost                                  the same in money, by platform\n"
    "  penstock model latency --size 1M                     one I/O, hop by hop\n"
    "  penstock model compare results.json                  predicted beside measured\n"
    "  penstock model constants                             every number that the models take from a source\n"
    "Exit code: 0 done, 1 failed, 2 wrong usage or input, 77 not applicable here.";

std::vector<model::ConstantFacts> all_constants() {
  std::vector<model::ConstantFacts> all(model::constant_table().begin(), model::constant_table().end());
  const std::vector<model::ConstantFacts> pcie = model::pcie_constant_facts();
  all.insert(all.end(), pcie.begin(), pcie.end());
  return all;
}

void print_constants(bool json) {
  Json rows = Json::array();
  Table table({"constant", ">value", ">low", ">high", "unit", "source"});
  for (const model::ConstantFacts& one : all_constants()) {
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

void add_model_constants(CommandLine& parent) {
  auto json = std::make_shared<bool>(false);
  CommandLine command = parent.command("constants", "The constants, with their units and sources");
  command.flag("--json", *json, "Print JSON");
  command.footer(
      "Examples:\n"
      "  penstock model constants                        a table\n"
      "  penstock model registration --set nic_cache.entries=128\n"
      "                                                  another value for one of them\n"
      "Exit code: 0 done, 2 wrong usage.");
  command.runs([json] {
    print_constants(*json);
    return kSuccess;
  });
}

}  // namespace

void add_model(CommandLine& command) {
  add_model_registration(command);
  add_model_contention(command);
  add_model_checkpoint(command);
  add_model_load(command);
  add_model_cost(command);
  add_model_latency(command);
  add_model_compare(command);
  add_model_constants(command);
  command.footer(kExamples);
}

}  // namespace penstock::tools
