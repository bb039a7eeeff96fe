// SPDX-License-Identifier: Apache-2.0

#include <memory>

#include "k8s/commands.h"
#include "tools/common/log_page.h"

namespace penstock::tools::k8s {
namespace {

constexpr const char* kExplainLogExamples =
    "Examples:\n"
    "  kubectl logs -n gpu-operator ds/nvidia-driver-daemonset -c nvidia-fs-ctr | penstock-k8s explain-log\n"
    "  kubectl get events -A | penstock-k8s explain-log\n"
    "  penstock-k8s explain-log cufile.log\n"
    "It knows the causes that others have met and reported, the reasons of Penstock's by their names, and the lines "
    "that Penstock has written into a cufile.log; it explains no others. Of a log that does not end it tells what it "
    "has read so far when Ctrl-C ends it.\n"
    "Exit code: 0 a cause was found, 1 none was, 2 wrong usage or what cannot be read.";

struct LogSettings {
  std::vector<std::string> files;
  bool json = false;
};

}  // namespace

void add_explain_log(CommandLine& command) {
  auto settings = std::make_shared<LogSettings>();
  command.option("FILE", settings->files, "Logs, or - [standard input]");
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kExplainLogExamples);
  command.runs([settings] {
    return explain_logs(settings->files.empty() ? std::vector<std::string>{"-"} : settings->files, settings->json);
  });
}

}  // namespace penstock::tools::k8s
