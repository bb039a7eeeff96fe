// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "k8s/commands.h"
#include "k8s/inputs.h"
#include "k8s/nodes.h"
#include "k8s/patterns.h"
#include "k8s/toggles.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/page.h"
#include "tools/common/table.h"
#include "tools/common/terminal.h"

namespace penstock::tools::k8s {
namespace {

constexpr const char* kChooseExamples =
    "Examples:\n"
    "  kubectl get nodes -o json | penstock-k8s choose\n"
    "  penstock-k8s choose --nodes nodes.json --storage nfs-rdma\n"
    "A node's labels and versions prove no path: what is named is possible, and 'penstock-k8s render' makes the job "
    "that proves it; 'off' is what a setting of the node's own keeps off. IOMMU, PCI topology and the NVMe driver's "
    "hooks are seen on the node alone, by 'penstock serve': where its labels tell of a path, they stand above versions "
    "and names. Each line KEY: true or false says what the operators should be told for the nodes above it, and why.\n"
    "Exit code: 0 a node with a GPU was found, 1 none was, 2 wrong usage.";

constexpr const char* kSomeExport = "SERVER:/EXPORT";

struct ChooseSettings {
  std::string nodes = "-";
  std::string storage = "xfs";
  bool json = false;
};

struct Chosen {
  Node node;
  Choice choice;
  std::vector<Toggle> toggles;
};

int rank(const Chosen& each) {
  const std::string& path = each.choice.path;
  return path == "p2pdma" ? 0 : path == "nvidia-fs" ? 1 : path == "bounce" ? 2 : each.node.has_gpu ? 3 : 4;
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

std::string path_text(const Chosen& each) {
  const Choice& choice = each.choice;
  if (choice.path.empty()) return each.node.has_gpu ? "none" : "no GPU";
  if (choice.against) return fmt::format("{}, {}", choice.path, facts::standing_name(*choice.standing));
  return choice.path + (choice.path == "bounce" ? "" : ", possible");
}

// What makes the objects for nodes of this kind, to be pasted; "" without a path, where render would refuse it by their
// versions, or for a name that no node has.
std::string render_command(const Chosen& each, const std::string& storage) {
  const std::string& path = each.choice.path;
  if (path.empty() || !is_subdomain(each.node.name) ||
      !refusals_of(answers_of(each.node, path, storage, kSomeExport)).empty())
    return "";
  return fmt::format("kubectl get node {} -o json | penstock-k8s render --path {} --storage {}{} --nodes -",
                     each.node.name, path, storage,
                     storage.starts_with("nfs") ? fmt::format(" --nfs-server {}", kSomeExport) : "");
}

const char* toggle_word(const Toggle& toggle) { return !toggle.on ? "unknown" : *toggle.on ? "true" : "false"; }

void print_refusal(Page& page, const std::string& head, const Refusal& refusal) {
  page.wrap(head, fmt::format("{} [{}]", refusal.sentence, refusal.rule));
  page.wrap("    -> ", refusal.remedy);
}

// What is told of a node below the table, but for what makes its objects.
std::string told_of(const Chosen& each) {
  Page page;
  for (std::size_t i = 0; i < each.choice.refusals.size(); ++i) {
    print_refusal(page, fmt::format("  not {}: ", each.choice.paths[i]), each.choice.refusals[i]);
  }
  if (each.choice.against) print_refusal(page, fmt::format("  {}: ", each.choice.path), *each.choice.against);
  for (const Toggle& toggle : each.toggles) {
    page.wrap(fmt::format("  {}: {}: ", toggle.key, toggle_word(toggle)), toggle.why);
  }
  return page.text();
}

void print_for_people(const std::vector<Chosen>& all, const std::string& storage) {
  Table table({"node", "GPU", "system", "kernel", "path"});
  for (const Chosen& each : all) {
    table.add(
        {each.node.name, or_dash(each.node.gpu), or_dash(each.node.os), or_dash(each.node.kernel), path_text(each)});
  }
  print("{}", table.text());
  struct Class {
    std::string told, names;
    std::map<std::string, std::string> commands;  // By path and kind of node.
  };
  std::vector<Class> classes;
  for (const Chosen& each : all) {
    const std::string told = told_of(each), command = render_command(each, storage);
    if (told.empty() && command.empty()) continue;
    auto same = std::find_if(classes.begin(), classes.end(), [&](const Class& one) { return one.told == told; });
    if (same == classes.end()) same = classes.insert(same, {told, each.node.name, {}});
    else same->names += ", " + each.node.name;
    if (!command.empty()) same->commands.try_emplace(each.choice.path + kind_of(each.node), command);
  }
  for (const Class& one : classes) {
    print("\n{}\n{}", one.names, Text(one.told));
    for (const auto& [kind, command] : one.commands) print("  objects: {}\n", command);
  }
}

Json refusal_json(const std::string& path, const Refusal& refusal) {
  return {{"path", path}, {"rule", refusal.rule}, {"sentence", refusal.sentence}, {"remedy", refusal.remedy}};
}

void print_for_programs(const std::vector<Chosen>& all, const std::string& storage) {
  Json rows = Json::array();
  for (const Chosen& each : all) {
    Json refusals = Json::array();
    for (std::size_t i = 0; i < each.choice.refusals.size(); ++i) {
      refusals.push_back(refusal_json(each.choice.paths[i], each.choice.refusals[i]));
    }
    Json toggles = Json::array();
    for (const Toggle& toggle : each.toggles) {
      toggles.push_back({{"key", toggle.key}, {"on", toggle.on ? Json(*toggle.on) : Json()}, {"why", toggle.why}});
    }
    const Choice& choice = each.choice;
    const bool is_off = choice.standing == facts::Standing::off;
    rows.push_back({{"node", each.node.name},
                    {"gpu", each.node.gpu},
                    {"has_gpu", each.node.has_gpu},
                    {"os", each.node.os},
                    {"kernel", each.node.kernel},
                    {"runtime", each.node.runtime},
                    {"cloud", each.node.cloud.name},
                    {"virtual_machine", each.node.cloud.is_virtual},
                    {"host_driver", each.node.has_host_driver},
                    {"path", choice.path.empty() ? Json() : Json(choice.path)},
                    {"standing", choice.standing ? Json(facts::standing_name(*choice.standing)) : Json()},
                    {"proven", false},
                    {"off_by", is_off ? Json(choice.against->rule) : Json()},
                    {"against", choice.against ? refusal_json(choice.path, *choice.against) : Json()},
                    {"refusals", refusals},
                    {"toggles", toggles},
                    {"render", render_command(each, storage)}});
  }
  print_json({{"schema", 1}, {"nodes", rows}});
}

int choose_nodes(const ChooseSettings& settings) {
  const std::string name = settings.nodes == "-" ? "standard input" : settings.nodes;
  const std::string text = read_bounded(settings.nodes, kDumpBounds.bytes);
  if (text.size() > kDumpBounds.bytes) throw Failure(name + ": it is larger than any list of nodes");
  std::vector<Chosen> all;
  for (Node& node : read_nodes(text, name)) {
    Choice choice = choose(node, settings.storage, kSomeExport);
    std::vector<Toggle> toggles = toggles_of(node, choice, settings.storage);
    all.push_back({std::move(node), std::move(choice), std::move(toggles)});
  }
  std::stable_sort(all.begin(), all.end(), [](const Chosen& a, const Chosen& b) { return rank(a) < rank(b); });
  if (settings.json) print_for_programs(all, settings.storage);
  else print_for_people(all, settings.storage);
  return all.front().node.has_gpu ? kSuccess : kFailed;
}

}  // namespace

void add_choose(CommandLine& command) {
  auto settings = std::make_shared<ChooseSettings>();
  command.option("--nodes", settings->nodes, "What 'kubectl get nodes -o json' printed, or -o yaml [standard input]")
      .value_name("FILE");
  command.option("--storage", settings->storage, "Where the data lie, as with 'penstock-k8s render'")
      .one_of({"xfs", "ext4", "lvm", "luks", "nfs", "nfs-rdma"})
      .default_shown();
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kChooseExamples);
  command.runs([settings] { return choose_nodes(*settings); });
}

}  // namespace penstock::tools::k8s
