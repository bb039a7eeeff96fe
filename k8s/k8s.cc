// SPDX-License-Identifier: Apache-2.0

#include "k8s/k8s.h"

#include "k8s/commands.h"

namespace penstock::tools {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock k8s lint manifests/         what is wrong in them, as a server, an operator and cuFile see it\n"
    "  helm template gpu-operator | penstock k8s lint -\n"
    "Exit code: 0 done, 1 failed, 2 wrong usage, 77 not applicable here.";

struct Subcommand {
  const char* name;
  const char* summary;
  void (*add)(CommandLine& command);
};
constexpr Subcommand kSubcommands[] = {
    {"lint", "Say what is wrong in manifests, Helm values and cufile.json", k8s::add_lint},
    {"render", "Make the objects that give pods one path to one kind of storage", k8s::add_render},
    {"choose", "Say which nodes may have which path, and why no better one", k8s::add_choose},
    {"verify", "Say from evidence which direct paths a node has, or prove one", k8s::add_verify},
    {"explain-log", "Say what the log of a failing pod means, and what to do", k8s::add_explain_log},
};

}  // namespace

void add_k8s(CommandLine& command) {
  for (const Subcommand& one : kSubcommands) {
    CommandLine line = command.command(one.name, one.summary);
    one.add(line);
  }
  command.footer(kExamples);
}

}  // namespace penstock::tools
