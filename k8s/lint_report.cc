// SPDX-License-Identifier: Apache-2.0

#include "k8s/lint_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "facts/process.h"
#include "penstock/penstock.h"
#include "settings/words.h"
#include "tools/common/page.h"

namespace penstock::tools::k8s {
namespace {

std::string counted(std::size_t number, const char* thing) {
  return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

std::size_t objects_of(const Cluster& cluster) {
  return static_cast<std::size_t>(std::count_if(cluster.objects.begin(), cluster.objects.end(),
                                                [](const Object& one) { return one.form != Form::file; }));
}

std::size_t gpu_pods_of(const Cluster& cluster) {
  return static_cast<std::size_t>(
      std::count_if(cluster.pods.begin(), cluster.pods.end(), [](const Pod& pod) { return pod.asks_for_gpu(); }));
}

std::string looked_at(const Cluster& cluster) {
  std::string text = counted(objects_of(cluster), "object");
  const bool is_whole =
      std::all_of(cluster.manifests.begin(), cluster.manifests.end(), [](const Manifest& one) { return one.is_whole; });
  if (objects_of(cluster) == 0 && is_whole) return text + ": there was nothing to lint";
  if (cluster.pods.empty()) return text;
  return text + fmt::format(", {} (with templates), of which {} for a GPU", counted(cluster.pods.size(), "pod"),
                            gpu_pods_of(cluster) == 1 ? "1 asks" : fmt::format("{} ask", gpu_pods_of(cluster)));
}

// Images whose containers have variables of Penstock's, and whose names do not tell that Penstock is in them.
std::set<std::string> images_without_penstock(const Cluster& cluster) {
  std::set<std::string> images;
  for (const Pod& pod : cluster.pods) {
    for (const Value* container : pod.containers()) {
      const auto& variables = (*container)["env"].members;
      const bool has_any = std::any_of(variables.begin(), variables.end(), [](const Member& one) {
        return (*one.value)["name"].text.starts_with(facts::kPrefix);
      });
      const std::string& image = (*container)["image"].text;
      if (has_any && !image.empty() && !has_part(image, "penstock")) images.insert(core::shown(image));
    }
  }
  return images;
}

void add_images(const Cluster& cluster, std::vector<std::string>& all) {
  constexpr std::ptrdiff_t kShown = 3;
  const std::set<std::string> images = images_without_penstock(cluster);
  if (images.empty()) return;
  const auto size = static_cast<std::ptrdiff_t>(images.size());
  const std::vector<std::string> first(images.begin(), std::next(images.begin(), std::min(size, kShown)));
  all.push_back(
      fmt::format("whether {}{} has Penstock, without which nothing reads its variables: 'penstock --version' in the "
                  "pod shows it",
                  fmt::join(first, ", "), size > kShown ? fmt::format(" and {} more", size - kShown) : ""));
}

// False for a cufile.json alone: it is judged by itself.
bool depends_on_nodes(const Cluster& cluster) {
  return std::any_of(cluster.objects.begin(), cluster.objects.end(),
                     [](const Object& one) { return one.form == Form::resource || one.form == Form::values; });
}

// What the files do not show of the nodes, and how to find it out.
std::vector<std::string> not_known(const Cluster& cluster) {
  std::vector<std::string> all, missing, options;
  const auto look = [&](const std::string& fact, const char* name, const char* option) {
    if (!fact.empty()) return;
    missing.emplace_back(name);
    options.emplace_back(option);
  };
  look(cluster.facts.os, "system", "--os");
  look(cluster.facts.runtime, "container runtime", "--runtime");
  look(cluster.facts.kernel, "kernel", "--kernel");
  if (!missing.empty() && depends_on_nodes(cluster)) {
    all.push_back(fmt::format("the nodes' {}: give {}, or a file with Node objects", fmt::join(missing, ", "),
                              fmt::join(options, ", ")));
  }
  for (const Object& object : cluster.objects) {
    const std::string file = object.form == Form::cufile ? core::shown(object.manifest->file) : "";
    if (file.ends_with(".json"))
      all.push_back(fmt::format("how bytes go by {}: 'penstock settings {}' tells it on a machine", file, file));
  }
  if (cluster.pods.empty()) return all;
  add_images(cluster, all);
  all.emplace_back(
      "how much memory a container may lock: its runtime's LimitMEMLOCK decides; 'penstock check' in the "
      "pod shows it");
  all.emplace_back(
      "whether drives and file systems of the volumes take a direct path: 'penstock check' in the pod "
      "shows it, or 'penstock-k8s verify'");
  return all;
}

// Kinds of others of which nothing is judged, with how many there are: "2 NodePool, 1 EC2NodeClass".
std::vector<std::string> not_judged(const Cluster& cluster) {
  constexpr std::string_view kJudged[] = {"nvidia.com/", "mellanox.com/", "machineconfiguration.openshift.io/",
                                          "monitoring.coreos.com/"};
  std::map<std::string, std::size_t> kinds;
  std::set<const Object*> with_pods;
  for (const Pod& pod : cluster.pods) with_pods.insert(pod.object);
  for (const Object& object : cluster.objects) {
    const std::string& group = object.api_version;
    const bool is_of_kubernetes = group.find('.') > group.find('/') || group.find('.') == group.npos ||
                                  (group.find(".k8s.io/") != group.npos && group.find("x-k8s.io/") == group.npos);
    const bool is_judged = std::any_of(std::begin(kJudged), std::end(kJudged),
                                       [&](std::string_view known) { return group.starts_with(known); });
    if (object.form != Form::resource || is_of_kubernetes || is_judged || with_pods.contains(&object)) continue;
    ++kinds[object.kind];
  }
  std::vector<std::string> all;
  for (const auto& [kind, count] : kinds) all.push_back(fmt::format("{} {}", count, core::shown(kind)));
  return all;
}

std::string summary(const LintReport& report) {
  const Findings& findings = report.findings;
  std::string line = severity_summary(findings.count(Severity::error), findings.count(Severity::warning),
                                      findings.count(Severity::note));
  line += " in " + counted(report.cluster.manifests.size(), "file");
  if (findings.passed_over() > 0) line += fmt::format(", {} skipped", findings.passed_over());
  if (findings.dropped() > 0) line += fmt::format(", {} more that are not shown", findings.dropped());
  return line;
}

const char* sarif_level(Severity severity) { return severity_name(severity); }

// A file's name as a part of a URI.
std::string uri_of(const std::string& file) {
  std::string uri;
  for (const char letter : file) {
    const bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                          (letter >= '0' && letter <= '9') ||
                          std::string_view("-._~/").find(letter) != std::string::npos;
    uri += is_plain ? std::string(1, letter) : fmt::format("%{:02X}", static_cast<unsigned char>(letter));
  }
  return uri;
}

Json sarif_rules() {
  Json list = Json::array();
  for (const Rule& rule : rules()) {
    list.push_back({{"id", rule.id},
                    {"shortDescription", {{"text", rule.meaning}}},
                    {"help", {{"text", fmt::format("{} Source: {}", rule.remedy, rule.source)}}},
                    {"defaultConfiguration", {{"level", sarif_level(rule.severity)}}}});
  }
  return list;
}

Json sarif_result(const Finding& finding) {
  const Json region = {{"startLine", finding.place.line}, {"startColumn", finding.place.column}};
  return {{"ruleId", finding.rule->id},
          {"ruleIndex", finding.rule - rules().data()},
          {"level", sarif_level(finding.severity)},
          {"message", {{"text", fmt::format("{}. {}", finding.sentence, finding.remedy)}}},
          {"locations",
           {{{"physicalLocation", {{"artifactLocation", {{"uri", uri_of(finding.file)}}}, {"region", region}}}}}}};
}

}  // namespace

Text lint_text(const LintReport& report) {
  Text text;
  for (const Finding& finding : report.findings.in_order()) {
    text += Text::of("{}:{}:{}: {}: {} ({})\n", finding.file, finding.place.line, finding.place.column,
                     severity_name(finding.severity), finding.sentence, finding.rule->id);
    Page page;
    if (!finding.object.empty()) page.wrap("    in:     ", finding.object);
    page.wrap("    remedy: ", finding.remedy);
    page.wrap("    source: ", finding.rule->source);
    text += Text(page.text());
  }
  text += Text::of("{}\n", summary(report));
  Page page;
  page.wrap("looked at: ", looked_at(report.cluster));
  const std::vector<std::string> passed = not_judged(report.cluster);
  if (!passed.empty())
    page.wrap("passed over: ", fmt::format("{}: nothing of them is judged", fmt::join(passed, ", ")));
  for (const std::string& one : not_known(report.cluster)) page.wrap("not known: ", one);
  text += Text(page.text());
  text += Text::of("judged by gpu-operator {} and network-operator {}\n", report.gpu_operator, report.network_operator);
  return text;
}

Json lint_json(const LintReport& report) {
  Json list = Json::array();
  for (const Finding& finding : report.findings.in_order()) {
    list.push_back({{"rule", finding.rule->id},
                    {"severity", severity_name(finding.severity)},
                    {"file", finding.file},
                    {"line", finding.place.line},
                    {"column", finding.place.column},
                    {"object", finding.object},
                    {"sentence", finding.sentence},
                    {"remedy", finding.remedy},
                    {"source", finding.rule->source}});
  }
  return {{"schema", 1},
          {"version", penstock_version()},
          {"gpu_operator", report.gpu_operator},
          {"network_operator", report.network_operator},
          {"files", report.cluster.manifests.size()},
          {"looked_at",
           {{"objects", objects_of(report.cluster)},
            {"pods", report.cluster.pods.size()},
            {"gpu_pods", gpu_pods_of(report.cluster)}}},
          {"not_known", not_known(report.cluster)},
          {"not_judged", not_judged(report.cluster)},
          {"findings", list},
          {"errors", report.findings.count(Severity::error)},
          {"warnings", report.findings.count(Severity::warning)},
          {"notes", report.findings.count(Severity::note)},
          {"passed_over", report.findings.passed_over()},
          {"dropped", report.findings.dropped()}};
}

Json lint_sarif(const LintReport& report) {
  Json results = Json::array();
  for (const Finding& finding : report.findings.in_order()) results.push_back(sarif_result(finding));
  const Json driver = {{"name", "penstock"}, {"version", penstock_version()}, {"rules", sarif_rules()}};
  return {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
          {"version", "2.1.0"},
          {"runs", {{{"tool", {{"driver", driver}}}, {"results", results}}}}};
}

Text rules_text() {
  Page page;
  for (const Rule& rule : rules()) {
    page.section(fmt::format("{} ({})", rule.id, severity_name(rule.severity)));
    page.wrap("  ", rule.meaning);
    page.wrap("  remedy: ", rule.remedy);
    page.wrap("  source: ", rule.source);
  }
  return Text(page.text());
}

Text rules_markdown() {
  Text text = Text::of("| rule | severity | what is wrong | what to do | source |\n|---|---|---|---|---|\n");
  for (const Rule& rule : rules()) {
    const std::string source = rule.source;
    text += Text::of("| `{}` | {} | {} | {} | {} |\n", rule.id, severity_name(rule.severity), rule.meaning, rule.remedy,
                     source.starts_with("https://") ? "<" + source + ">" : source);
  }
  return text;
}

Json rules_json() {
  Json list = Json::array();
  for (const Rule& rule : rules()) {
    list.push_back({{"rule", rule.id},
                    {"severity", severity_name(rule.severity)},
                    {"meaning", rule.meaning},
                    {"remedy", rule.remedy},
                    {"source", rule.source}});
  }
  return {{"schema", 1}, {"rules", list}};
}

}  // namespace penstock::tools::k8s
