// SPDX-License-Identifier: Apache-2.0

// penstock-model: predicts a machine's performance with the models of model/. One row for each command.
#include "model/program/commands.h"
#include "tools/common/program.h"

namespace penstock::tools {
namespace {

constexpr Command kCommands[] = {
    {"registration", "What registering memory costs, and when once is enough", add_registration},
    {"contention", "Simulate how streams of bytes contend in a PCIe tree", add_contention},
    {"checkpoint", "How long a checkpoint takes, how often to save, what is lost", add_checkpoint},
    {"load", "How long a load takes, and what limits it", add_load},
    {"cost", "What a run and its checkpoints cost on rented machines", add_cost},
    {"latency", "How long one I/O takes, hop by hop", add_latency},
    {"compare", "Compare predictions with what 'penstock bench --json' measured", add_compare},
    {"constants", "The constants, with their units and sources", add_constants},
};

constexpr const char* kFooter =
    "Examples:\n"
    "  penstock-model registration --html frontier.html     when registering memory once pays\n"
    "  penstock-model checkpoint --size-gb 1600 --nodes 16  what one takes and costs, and how often to save\n"
    "  penstock-model load --parameters 109 --precision fp8\n"
    "  penstock-model cost --size-gb 1600 --nodes 16        what a run with them costs, by platform\n"
    "  penstock-model latency --size 1M                     one I/O, hop by hop\n"
    "  penstock-model compare results.json                  predicted beside measured\n"
    "  penstock-model constants                             every number that the models take from a source\n"
    "Exit code: 0 done, 1 failed, 2 wrong usage or input, 77 not applicable here.";

constexpr Program kModel{"penstock-model", "Predict how fast a machine will be, which path pays, what it costs",
                         kCommands, kFooter};

}  // namespace
}  // namespace penstock::tools

int main(int argc, char** argv) { return penstock::tools::run_program(penstock::tools::kModel, argc, argv); }
