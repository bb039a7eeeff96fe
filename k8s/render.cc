// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "k8s/commands.h"
#include "k8s/inputs.h"
#include "k8s/nodes.h"
#include "k8s/plan.h"
#include "k8s/yaml_text.h"
#include "tools/common/context.h"
#include "tools/common/failure.h"
#include "tools/common/files.h"
#include "tools/common/new_file.h"
#include "tools/common/page.h"
#include "tools/common/terminal.h"

namespace penstock::tools::k8s {
namespace {

constexpr const char* kRenderExamples =
    "Examples:\n"
    "  penstock-k8s render --path bounce --storage xfs | kubectl apply -f -\n"
    "  penstock-k8s render --path p2pdma --os ubuntu24.04 --storage ext4 --out manifests\n"
    "  penstock-k8s render --path nvidia-fs --openshift --storage nfs-rdma --nfs-server nas:/models\n"
    "What cannot work is refused, with the name of its rule. Standard output has what kubectl takes; values for Helm "
    "are written only to the folder helm in that of --out, or printed by --only gpu-operator-values.\n"
    "Exit code: 0 done, 1 refused or not written, 2 wrong usage.";

struct RenderSettings {
  Answers answers;
  std::string out;
  std::string only;
  std::string nodes;
  bool overwrite = false;
  bool json = false;
};

bool is_for_kubectl(const Rendered& each) { return each.object.contains("kind"); }

std::string text_of(const Rendered& each) {
  Page comment;
  comment.wrap("# ", each.why);
  std::string text = comment.text();
  for (std::size_t line = text.find('\n'); line + 1 < text.size(); line = text.find('\n', line + 1))
    text[line + 1] = '#';
  return text + yaml_text(each.object);
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directory(folder, error);
  if (error) fail_errno(folder.string(), "make the folder", error.value());
}

// Writes the objects for kubectl, numbered in order of creation. Values for Helm go to a subfolder: kubectl fails for a
// folder with a file that is not an object, after it has created the others.
void write_files(const RenderSettings& settings, const Deployment& deployment) {
  const std::filesystem::path folder = settings.out, values = folder / "helm";
  make_folder(folder);
  int number = 0;
  for (const Rendered& each : deployment.objects) {
    if (!is_for_kubectl(each)) make_folder(values);
    const std::string path = is_for_kubectl(each) ? folder / fmt::format("{:02}-{}.yaml", ++number, each.name)
                                                  : values / (each.name + ".yaml");
    write_file(path, text_of(each), settings.overwrite);
    print("{}\n", path);
  }
}

void print_objects(const RenderSettings& settings, const Deployment& deployment) {
  bool found = false;
  for (const Rendered& each : deployment.objects) {
    if (settings.only.empty() ? !is_for_kubectl(each) : each.name != settings.only) continue;
    print_document(Text((found ? "---\n" : "") + text_of(each)));
    found = true;
  }
  if (found) return;
  std::string names;
  for (const Rendered& each : deployment.objects) names += (names.empty() ? "" : ", ") + each.name;
  throw Failure(fmt::format("--only {}: there is none of that name; there are {}", settings.only, names), kUsage);
}

void tell(const Deployment& deployment) {
  for (const Refusal& each : deployment.refusals) {
    print_error("penstock-k8s: refused, {}: {}\n  -> {}\n", each.rule, each.sentence, each.remedy);
  }
  for (const std::string& note : deployment.notes) print_error("note: {}\n", note);
}

void print_for_programs(const Deployment& deployment) {
  nlohmann::ordered_json document = {{"schema", "penstock-k8s-render-1"}, {"objects", nlohmann::ordered_json::array()}};
  for (const Rendered& each : deployment.objects) {
    document["objects"].push_back({{"name", each.name}, {"why", each.why}, {"object", each.object}});
  }
  document["refusals"] = nlohmann::ordered_json::array();
  for (const Refusal& each : deployment.refusals) {
    document["refusals"].push_back({{"rule", each.rule}, {"sentence", each.sentence}, {"remedy", each.remedy}});
  }
  document["notes"] = deployment.notes;
  print_document(Text(document.dump(2) + "\n"));
}

// Takes from the nodes with a GPU what no option says.
void take_nodes(RenderSettings& settings) {
  Answers& answers = settings.answers;
  const Node* first = nullptr;
  const std::string name = settings.nodes == "-" ? "standard input" : settings.nodes;
  const std::vector<Node> nodes = read_nodes(read_bounded(settings.nodes, kDumpBounds.bytes), name);
  for (const Node& node : nodes) {
    if (!node.has_gpu) continue;
    if (first == nullptr) first = &node;
    if (kind_of(node) == kind_of(*first)) continue;
    throw Failure(fmt::format("{}: {} and {} differ (system, kernel, driver, cloud): give nodes of one kind, as by "
                              "kubectl get nodes -l LABEL -o json",
                              name, first->name, node.name),
                  kUsage);
  }
  if (first == nullptr) throw Failure(name + ": no node in it has a GPU", kUsage);
  const Answers told = answers_of(*first, answers.path, answers.storage, answers.nfs_server);
  for (const auto member : {&Answers::os, &Answers::kernel, &Answers::runtime}) {
    if ((answers.*member).empty()) answers.*member = told.*member;
  }
  // A driver that the operator installs is replaced by the release that the objects name.
  if (told.has_host_driver) answers.driver_version = told.driver_version;
  answers.gpu = told.gpu;
  answers.cloud = told.cloud;
  answers.cloud_page = told.cloud_page;
  answers.strict_iommu = answers.strict_iommu || told.strict_iommu;
  answers.has_host_driver = answers.has_host_driver || told.has_host_driver;
  answers.openshift = answers.openshift || told.openshift;
}

int render(RenderSettings& settings) {
  if (!settings.nodes.empty()) take_nodes(settings);
  if (settings.answers.openshift && settings.answers.os.empty()) settings.answers.os = "rhcos";
  const bool is_nfs = settings.answers.storage.starts_with("nfs");
  const std::string& server = settings.answers.nfs_server;
  if (is_nfs && server.find(":/") == std::string::npos) {
    throw Failure(fmt::format("--storage {} needs --nfs-server HOST:/EXPORT{}", settings.answers.storage,
                              server.empty() ? "" : ", and '" + server + "' is none"),
                  kUsage);
  }
  const Deployment deployment = plan_deployment(settings.answers);
  if (settings.json) {
    print_for_programs(deployment);
    return deployment.refusals.empty() ? kSuccess : kFailed;
  }
  if (deployment.refusals.empty()) {
    if (settings.out.empty()) print_objects(settings, deployment);
    else write_files(settings, deployment);
  }
  tell(deployment);
  return deployment.refusals.empty() ? kSuccess : kFailed;
}

}  // namespace

void add_render(CommandLine& command) {
  auto settings = std::make_shared<RenderSettings>();
  Answers& answers = settings->answers;
  command.option("--path", answers.path, "The path that bytes are to take")
      .one_of({"nvidia-fs", "p2pdma", "bounce"})
      .required();
  command.option("--storage", answers.storage, "Where they lie: on the nodes' NVMe drives, or on NFS")
      .one_of({"xfs", "ext4", "lvm", "luks", "nfs", "nfs-rdma"})
      .default_shown();
  command.option("--nodes", settings->nodes, "Take system, kernel, runtime and cloud from 'kubectl get nodes -o json'")
      .value_name("FILE");
  command.option("--os", answers.os, "The nodes' system, e.g. ubuntu24.04, rhel9, rhcos");
  command.option("--kernel", answers.kernel, "The nodes' kernel, e.g. 6.8.0-1051-nvidia [as the system came]")
      .value_name("RELEASE");
  command
      .option("--operator-version", answers.operator_version, "Release of the GPU operator [the newest that is known]")
      .one_of({"v25.10.1", "v26.3.3", "v26.7.0"});
  command.option("--driver-version", answers.driver_version, "Release of NVIDIA's driver [the operator's own]");
  command.option("--as", answers.as, "How the operator is told [helm; clusterpolicy with --openshift]")
      .one_of({"helm", "clusterpolicy", "nvidiadriver"});
  command.option("--runtime", answers.runtime, "The nodes' container runtime, e.g. containerd-2.1, crio");
  command.flag("--host-driver", answers.has_host_driver, "The nodes bring NVIDIA's driver themselves");
  command.flag("--openshift", answers.openshift, "The cluster is OpenShift");
  command.flag("--strict-iommu", answers.strict_iommu, "The nodes' IOMMU translates, and cannot be set to pt");
  command.flag("--nvme-in-use", answers.nvme_in_use, "The nodes' own system is on an NVMe drive");
  command.option("--nfs-server", answers.nfs_server, "The export for --storage nfs and nfs-rdma")
      .value_name("HOST:/EXPORT");
  command.option("--namespace", answers.name_space, "The namespace of the workload").default_shown();
  command.option("--image", answers.image, "The image of the workload and of penstock serve").default_shown();
  command.flag("--with-libcufile", answers.has_libcufile,
               "The image has NVIDIA's libcufile, which then takes nvidia-fs");
  const Option out = command.option("--out", settings->out, "Write a file for each object into DIR").value_name("DIR");
  command.flag("--overwrite", settings->overwrite, "Replace files that exist").needs(out);
  Option only = command.option("--only", settings->only, "Print the object of this name alone").value_name("NAME");
  only.excludes(out);
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kRenderExamples);
  command.runs([settings] { return render(*settings); });
}

}  // namespace penstock::tools::k8s
