// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "facts/operator_versions.h"
#include "k8s/checks.h"
#include "k8s/commands.h"
#include "k8s/findings.h"
#include "k8s/helm_template.h"
#include "k8s/inputs.h"
#include "k8s/judge.h"
#include "k8s/lint_report.h"
#include "k8s/objects.h"
#include "k8s/shape.h"
#include "settings/words.h"
#include "tools/common/failure.h"

namespace penstock::tools::k8s {
namespace {

constexpr const char* kLintExamples =
    "Examples:\n"
    "  penstock-k8s lint manifests/                        all files below a folder, judged together\n"
    "  helm template gpu-operator | penstock-k8s lint -    a rendered chart\n"
    "  penstock-k8s lint values.yaml --operator-version v26.3.3\n"
    "  penstock-k8s lint gds.yaml --os ubuntu24.04 --runtime containerd-2.1\n"
    "  penstock-k8s lint gds.yaml --format sarif           for a review of code\n"
    "No cluster is asked, no kubelet, node or cloud is tried: only the files are judged.\n"
    "Exit code: 0 no error found, 1 errors, with --strict warnings too, 2 wrong usage or what cannot be read.";

struct LintSettings {
  std::vector<std::string> files;
  std::string format = "text";
  bool json = false;
  bool strict = false;
  bool list_rules = false;
  bool markdown = false;
  std::vector<std::string> ignored;
  Facts facts;
};

std::set<std::string, std::less<>> ignored_rules(const LintSettings& settings) {
  for (const std::string& rule : settings.ignored) {
    if (find_rule(rule) != nullptr) continue;
    const std::string_view near = rule_near(rule);
    throw Failure(fmt::format("--ignore {}: there is no such rule{}; --rules lists them", rule,
                              near.empty() ? "" : fmt::format(", did you mean {}?", near)),
                  kUsage);
  }
  return {settings.ignored.begin(), settings.ignored.end()};
}

// Reports the reader's faults. Returns false if a file could not be read.
bool tell_faults(const Cluster& cluster, Findings& findings) {
  bool is_whole = true;
  for (const Object& file : cluster.files) {
    const Manifest& manifest = *file.manifest;
    if (!manifest.is_whole && is_helm_template(manifest)) {
      findings.add("helm_template", file, {1, 1}, {"a Helm template, so it was skipped"});
      continue;
    }
    for (const Fault& fault : manifest.faults) findings.add(fault.rule, file, fault.place, {fault.sentence});
    is_whole = is_whole && manifest.is_whole;
  }
  for (const Object& object : cluster.objects) {
    if (object.form != Form::file) continue;
    const bool is_sky = (*object.root)["resources.accelerators"].is_there();
    findings.add("not_an_object", object, object.root->place,
                 {is_sky ? "a task of SkyPilot's, of which nothing is judged, so it was skipped"
                         : "neither a Kubernetes object nor Helm values nor a cufile.json, so it was skipped"});
  }
  return is_whole;
}

void tell_version(const Cluster& cluster, const Shapes& shapes, Findings& findings) {
  if (shapes.is_known() || cluster.files.empty()) return;
  const Object* const source = cluster.release_source;
  const Member* const label = source == nullptr ? nullptr : (*source)["metadata.labels"].member(kReleaseLabel);
  findings.add("unknown_operator_version", source == nullptr ? cluster.files.front() : *source,
               label == nullptr ? Place{1, 1} : label->place,
               {fmt::format("no table for gpu-operator {}: judged by {}", core::shown(cluster.facts.operator_version),
                            shapes.version())});
}

void print_report(const LintReport& report, const std::string& format) {
  if (format == "json") print_json(lint_json(report));
  else if (format == "sarif") print_json(lint_sarif(report));
  else print("{}", lint_text(report));
}

void print_rules(const LintSettings& settings) {
  if (settings.json || settings.format == "json") print_json(rules_json());
  else if (settings.markdown) print_document(rules_markdown());
  else print("{}", rules_text());
}

// What names nothing that is known answers no question, and must not silence the note that it is open.
void refuse_unknown(const Facts& given) {
  const auto refuse = [](const char* option, const std::string& value, const char* expected) {
    throw Failure(fmt::format("{} {}: expected {}", option, value, expected), kUsage);
  };
  if (!given.os.empty() && is_other_system(given.os)) {
    refuse("--os", given.os, "a Linux with its version, such as ubuntu24.04, rocky9 or rhcos4.18");
  }
  if (!given.runtime.empty() && !facts::allows_io_uring(given.runtime)) {
    refuse("--runtime", given.runtime, "a runtime with its version, such as containerd-2.1 or docker-25, or cri-o");
  }
  if (!given.kernel.empty() && !facts::version_of(given.kernel)) {
    refuse("--kernel", given.kernel, "a release as uname -r says it, such as 6.8.0-51-generic");
  }
}

int run_lint(const LintSettings& settings) {
  if (settings.list_rules) {
    print_rules(settings);
    return kSuccess;
  }
  if (settings.files.empty()) throw Failure("name a file, a folder, or - for standard input", kUsage);
  refuse_unknown(settings.facts);
  Findings findings(ignored_rules(settings));
  Cluster cluster;
  cluster.facts = settings.facts;
  cluster.manifests = read_inputs(settings.files);
  look_through(cluster);
  findings.take_ignores(cluster);
  const Shapes shapes(kGpuOperatorShapes, cluster.facts.operator_version);
  tell_version(cluster, shapes, findings);
  const bool is_whole = tell_faults(cluster, findings);
  judge_all(cluster, findings);
  check_all(cluster, findings);
  const LintReport report{findings, cluster, std::string(shapes.version()),
                          std::string(Shapes::versions(kNetworkOperatorShapes).back())};
  print_report(report, settings.json ? "json" : settings.format);
  if (!is_whole) return kUsage;
  const bool has_fault =
      findings.count(Severity::error) > 0 || (settings.strict && findings.count(Severity::warning) > 0);
  return has_fault ? kFailed : kSuccess;
}

}  // namespace

void add_lint(CommandLine& command) {
  auto settings = std::make_shared<LintSettings>();
  command.option("FILE", settings->files, "Manifests, Helm values or a cufile.json: files, folders, or -");
  Option format =
      command.option("--format", settings->format, "The form of the output").one_of({"text", "json", "sarif"});
  format.default_shown();
  command.flag("--json", settings->json, "The same as --format json").excludes(format);
  command.flag("--strict", settings->strict, "Fail for warnings, too");
  command.option("--ignore", settings->ignored, "Do not report what this rule finds")
      .value_name("RULE")
      .one_value_each();
  command
      .option("--operator-version", settings->facts.operator_version, "The GPU Operator's release [the newest known]")
      .value_name("VERSION");
  command.option("--os", settings->facts.os, "The GPU nodes' system: ubuntu24.04, rocky9, rhcos4.18")
      .value_name("NAME");
  command.option("--runtime", settings->facts.runtime, "Their container runtime: containerd-2.1, cri-o, docker-25")
      .value_name("NAME");
  command.option("--kernel", settings->facts.kernel, "Their kernel, as uname -r says it").value_name("RELEASE");
  const Option rules = command.flag("--rules", settings->list_rules, "List the rules, and look at no file");
  command.flag("--markdown", settings->markdown, "With --rules: a table for the manual").needs(rules);
  command.footer(kLintExamples);
  command.runs([settings] { return run_lint(*settings); });
}

}  // namespace penstock::tools::k8s
