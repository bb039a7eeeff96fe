// SPDX-License-Identifier: Apache-2.0

#include "tools/check/validate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "facts/examination.h"
#include "facts/judgement.h"
#include "tools/check/findings_page.h"
#include "tools/check/transfer.h"
#include "tools/common/failure.h"
#include "tools/common/machine_root.h"
#include "tools/common/terminal.h"

namespace penstock::tools {
namespace {

using facts::Layer;

constexpr const char* kValidateExamples =
    "Examples:\n"
    "  penstock validate                         drivers, peer access and fabric of this machine\n"
    "  penstock validate /mnt/nvme0 /mnt/nfs     these, and one real transfer in each folder\n"
    "  penstock validate --layer 2 --json        the fabric alone, for a program\n"
    "  penstock validate --root captured/        a captured machine (scripts/capture-machine)\n"
    "A row is 'pass', 'fail', 'unknown' (nothing here tells) or 'n/a'. What is wrong comes first: each cause with its "
    "remedy, and below it what follows from it ('so'). A transfer takes 8 MiB, which nothing is left of.\n"
    "RDMA, nvidia-fs and P2PDMA with a GPU were never tried on real hardware: their rows were tested on captured, "
    "composed and emulated machines.\n"
    "Exit code: 0 nothing failed, 1 something did, 2 wrong usage, 77 if nothing could be judged.";

struct ValidateSettings {
  std::vector<std::string> folders;
  std::string root;               // A captured machine; "" for this one.
  std::optional<unsigned> layer;  // All layers if none is named.
  unsigned gpu = 0;
  bool json = false;
};

// Makes transfers in the folders, which only this machine can do.
void add_transfers(const ValidateSettings& settings, facts::Findings& rows, validate::Details& details) {
  facts::Judgement row(rows, "transfer", "", facts::Layer::transfer);
  if (!settings.root.empty()) return row.not_applicable("on a captured machine nothing can be moved");
  if (settings.folders.empty()) {
    return row.not_applicable("no folder was named", "Name a folder of each mount: penstock validate /mnt/nvme0.");
  }
  validate::judge_transfers(settings.folders, settings.gpu, rows, details);
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
  std::vector<facts::Layer> layers = {facts::Layer::drivers, facts::Layer::fabric, facts::Layer::transfer};
  if (settings.layer) layers = {static_cast<facts::Layer>(*settings.layer)};
  const core::Root root = open_machine_root(settings.root);
  const facts::Examination examined = facts::examine(facts::read_machine(root, settings.root));
  facts::Findings rows;
  for (const facts::Finding& one : examined.findings) {
    if (std::find(layers.begin(), layers.end(), one.layer) != layers.end()) rows.push_back(one);
  }
  validate::Details details;
  if (layers.back() == facts::Layer::transfer) add_transfers(settings, rows, details);
  facts::settle_causes(rows);
  if (settings.json) print_json(validate::report_json(rows, details, layers, settings.root));
  else print("{}", validate::report_text(rows, layers, settings.root));
  return exit_code_of(rows);
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
  command.footer(kValidateExamples);
  command.runs([settings] { return run_validate(*settings); });
}

}  // namespace penstock::tools
