// SPDX-License-Identifier: Apache-2.0

#include "tools/validate/validate.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/common/cuda_driver.h"
#include "tools/common/failure.h"
#include "tools/common/terminal.h"
#include "tools/validate/judgement.h"
#include "tools/validate/report.h"
#include "tools/validate/transfer.h"
#include "tools/validate/world.h"
#include "topology/network_mount.h"

namespace penstock::tools {
namespace {

using validate::Layer;

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock validate                         drivers, peer access and fabric of this machine\n"
    "  penstock validate /mnt/nvme0 /mnt/nfs     these, and one real transfer in each folder\n"
    "  penstock validate --layer 2 --json        the fabric alone, for a program\n"
    "  penstock validate --root captured/        a captured machine (scripts/capture-machine)\n"
    "A row is 'pass', 'fail', 'unknown' (nothing here tells) or 'n/a'. What is wrong comes first: each cause with its\n"
    "remedy, and below it what follows from it ('so'). A transfer takes 8 MiB, which nothing is left of.\n"
    "RDMA, nvidia-fs and P2PDMA with a GPU were never tried on real hardware: their rows were tested on captured,\n"
    "composed and emulated machines.\n"
    "Exit code: 0 nothing failed, 1 something did, 2 wrong usage, 77 if nothing could be judged.";

struct ValidateSettings {
  std::vector<std::string> folders;
  std::string root;               // A captured machine; "" for this one.
  std::optional<unsigned> layer;  // All of them where none is named.
  unsigned gpu = 0;
  bool json = false;
};

validate::World read_world(const std::string& directory) {
  const core::Root root = open_machine_root(directory);
  validate::World world;
  world.machine = read_machine(root, directory);
  world.paths = report_paths(world.machine);
  world.places = served_places(world.machine, world.paths);
  world.evidence = core::read_gds_evidence(root);
  world.rdma = core::read_rdma_devices(root);
  world.controllers = core::read_nvme_controllers(root);
  for (const core::FileSystem& one : world.machine.file_systems) {
    const bool is_remote = core::is_network_file_system(one.mount.type);
    world.remotes.push_back(is_remote ? validate::Remote{core::network_transport(root, one.mount),
                                                         core::text_of(core::vast_client(root, one.mount))}
                                      : validate::Remote{});
  }
  for (std::size_t i = 0; i < world.machine.file_systems.size(); ++i) {
    world.denials.push_back(validate::denial_of(root, world.machine, i));
  }
  if (directory.empty()) world.cuda = CudaDriver::version().value_or(0);
  return world;
}

void judge_layer(Layer layer, const ValidateSettings& settings, const validate::World& world, validate::Rows& rows) {
  switch (layer) {
    case Layer::drivers: return validate::judge_drivers(world, rows);
    case Layer::fabric: return validate::judge_fabric(world, rows);
    case Layer::transfer: break;
  }
  validate::Judgement row(rows, Layer::transfer, "transfer", "");
  if (!settings.root.empty()) return row.not_applicable("on a captured machine nothing can be moved");
  if (settings.folders.empty()) {
    return row.not_applicable("no folder was named", "Name a folder of each mount: penstock validate /mnt/nvme0.");
  }
  std::vector<int> direct_paths;
  for (const PathReport& report : world.paths) {
    if (report.is_proven) direct_paths.push_back(report.path);
  }
  validate::judge_transfers(settings.folders, settings.gpu, direct_paths, rows);
}

int run_validate(const ValidateSettings& settings) {
  if (!settings.root.empty() && !settings.folders.empty()) {
    throw Failure("--root and folders exclude one another: on a captured machine nothing can be moved", kUsage);
  }
  if (settings.layer && (*settings.layer < 1 || *settings.layer > 3)) {
    throw Failure("--layer must be 1, 2 or 3", kUsage);
  }
  if (settings.layer && *settings.layer != 3 && !settings.folders.empty()) {
    throw Failure("folders are for layer 3; leave --layer out, or say --layer 3", kUsage);
  }
  std::vector<Layer> layers = {Layer::drivers, Layer::fabric, Layer::transfer};
  if (settings.layer) layers = {static_cast<Layer>(*settings.layer)};
  const validate::World world = read_world(settings.root);
  validate::Rows rows;
  for (const Layer layer : layers) judge_layer(layer, settings, world, rows);
  validate::settle_causes(rows);
  if (settings.json) print_json(validate::report_json(rows, layers, settings.root));
  else print("{}", validate::report_text(rows, layers, settings.root));
  return validate::exit_code_of(rows);
}

}  // namespace

void add_validate(CommandLine& command) {
  auto settings = std::make_shared<ValidateSettings>();
  command.option("FOLDER", settings->folders, "Where a small file is written, read back and removed, for layer 3");
  command.option("--layer", settings->layer, "This layer alone: 1 drivers, 2 fabric, 3 transfers [all]")
      .value_name("N");
  command.option("--root", settings->root, "Read the captured machine in DIR instead of this one").value_name("DIR");
  command.option("--gpu", settings->gpu, "The GPU whose memory takes part in layer 3").default_shown();
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kExamples);
  command.runs([settings] { return run_validate(*settings); });
}

}  // namespace penstock::tools
