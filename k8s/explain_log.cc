// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "k8s/commands.h"
#include "k8s/log_findings.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/page.h"
#include "tools/common/terminal.h"

namespace penstock::tools::k8s {
namespace {

constexpr const char* kExplainLogExamples =
    "Examples:\n"
    "  kubectl logs -n gpu-operator ds/nvidia-driver-daemonset -c nvidia-fs-ctr | penstock-k8s explain-log\n"
    "  kubectl get events -A | penstock-k8s explain-log\n"
    "  penstock-k8s explain-log cufile.log\n"
    "It knows the causes that others have met and reported, the reasons of Penstock's by their names, and the lines "
    "that Penstock has written into a cufile.log; it explains no others.\n"
    "Exit code: 0 a cause was found, 1 none was, 2 wrong usage or what cannot be read.";

struct LogSettings {
  std::vector<std::string> files;
  bool json = false;
};

void print_unknown(const UnknownLines& unknown) {
  Page page;
  for (const std::string& file : unknown.no_text) {
    page.wrap("",
              fmt::format("{} is no text: it has zero bytes, and its lines that are not known are not counted", file));
  }
  if (unknown.count > 0) {
    page.wrap("", fmt::format("{} line{} not known: {}{}", unknown.count, unknown.count == 1 ? "" : "s",
                              fmt::join(unknown.first, ", "), unknown.count > unknown.first.size() ? ", ..." : ""));
  }
  print("{}", Text(page.text()));
}

void print_for_people(const std::vector<LogFinding>& findings, const UnknownLines& unknown) {
  if (findings.empty()) print("none of the causes that are known here\n");
  for (const LogFinding& each : findings) {
    Page page;
    page.wrap("", fmt::format("{}:{}: {}", each.file, each.line, each.text));
    page.wrap("  means   ", fmt::format("{} [{}]", each.meaning, each.cause));
    if (!each.remedy.empty()) page.wrap("  remedy  ", each.remedy);
    page.wrap("  source  ",
              fmt::format("{}{}", each.source, each.count > 1 ? fmt::format("; in {} lines", each.count) : ""));
    print("{}\n", Text(page.text()));
  }
  print_unknown(unknown);
}

void print_for_programs(const std::vector<LogFinding>& findings, const UnknownLines& unknown) {
  Json rows = Json::array();
  for (const LogFinding& each : findings) {
    rows.push_back({{"cause", each.cause},
                    {"file", each.file},
                    {"line", each.line},
                    {"lines", each.count},
                    {"text", printable(each.text)},
                    {"meaning", each.meaning},
                    {"remedy", each.remedy},
                    {"source", each.source}});
  }
  print_json({{"schema", 1},
              {"findings", rows},
              {"lines_not_known", {{"count", unknown.count}, {"first", unknown.first}}},
              {"no_text", unknown.no_text}});
}

int explain_log(LogSettings& settings) {
  std::vector<LogFinding> findings;
  UnknownLines unknown;
  if (settings.files.empty()) settings.files.emplace_back("-");
  for (const std::string& file : settings.files) {
    if (file == "-") {
      read_log(stdin, "standard input", findings, unknown);
      continue;
    }
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> log(std::fopen(file.c_str(), "re"), &std::fclose);
    if (log == nullptr) throw Failure(fmt::format("{}: it cannot be opened: {}", file, std::strerror(errno)), kUsage);
    read_log(log.get(), file, findings, unknown);
  }
  if (settings.json) print_for_programs(findings, unknown);
  else print_for_people(findings, unknown);
  return findings.empty() ? kFailed : kSuccess;
}

}  // namespace

void add_explain_log(CommandLine& command) {
  auto settings = std::make_shared<LogSettings>();
  command.option("FILE", settings->files, "Logs, or - [standard input]");
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kExplainLogExamples);
  command.runs([settings] { return explain_log(*settings); });
}

}  // namespace penstock::tools::k8s
