// SPDX-License-Identifier: Apache-2.0

// penstock-k8s: GPUDirect Storage under Kubernetes. One command and one row for each task.
#include "k8s/commands.h"
#include "tools/common/program.h"

namespace penstock::tools {
namespace {

constexpr Command kCommands[] = {
    {"lint", "Say what is wrong in manifests, Helm values and cufile.json", k8s::add_lint},
    {"render", "Make the objects that give pods one path to one kind of storage", k8s::add_render},
    {"choose", "Say which nodes may have which path, and why no better one", k8s::add_choose},
    {"verify", "Say from evidence which direct paths a node has, or prove one", k8s::add_verify},
    {"explain-log", "Say what the log of a failing pod means, and what to do", k8s::add_explain_log},
};

constexpr const char* kFooter =
    "Examples:\n"
    "  penstock-k8s lint manifests/         what is wrong in them, as a server, an operator and cuFile see it\n"
    "  helm template gpu-operator | penstock-k8s lint -\n"
    "Exit code: 0 done, 1 failed, 2 wrong usage, 77 not applicable here.";

constexpr Program kK8s{"penstock-k8s", "Check and make Kubernetes manifests for GPUDirect Storage, and explain logs",
                       kCommands, kFooter};

}  // namespace
}  // namespace penstock::tools

int main(int argc, char** argv) { return penstock::tools::run_program(penstock::tools::kK8s, argc, argv); }
