// SPDX-License-Identifier: Apache-2.0

// `penstock kv`: maintains stores of KV caches (kv/store.h) from outside the processes that use them. Each task is a
// sub-command, with a row in the table.
#include "tools/common/command_line.h"

namespace penstock::tools {

using Add = void(CommandLine&);
Add add_kv_bench, add_kv_compact, add_kv_inspect, add_kv_verify;

namespace {

constexpr const char* kKvExamples =
    "Examples:\n"
    "  penstock kv inspect /mnt/nvme0/kv    how many chunks each store has, and who writes it\n"
    "  penstock kv verify /mnt/nvme0/kv     reads them all\n"
    "  penstock kv bench /mnt/nvme0 --trace trace.jsonl --prefill-rate 12000 --capacity 200G\n"
    "FOLDER is one that was given to penstock.kv.Store, one of a model in it, or that of one store.\n"
    "Exit code: 0 done, 1 failed, or something is damaged, 2 wrong usage.";

struct Subcommand {
  const char* name;
  const char* summary;
  Add* add;
};
constexpr Subcommand kSubcommands[] = {
    {"inspect", "Say what stores have, how full they are, and who writes them", add_kv_inspect},
    {"verify", "Read every chunk, and say which are damaged", add_kv_verify},
    {"bench", "Replay a trace of prompts, and say what a store is worth", add_kv_bench},
    {"compact", "Write journals anew, and drop chunks that are not there any more", add_kv_compact},
};

}  // namespace

void add_kv(CommandLine& command) {
  for (const Subcommand& one : kSubcommands) {
    CommandLine line = command.command(one.name, one.summary);
    one.add(line);
  }
  command.footer(kKvExamples);
}

}  // namespace penstock::tools
