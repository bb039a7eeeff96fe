// SPDX-License-Identifier: Apache-2.0

#include "tools/explain/explain.h"

#include <memory>

#include "tools/common/explanation.h"

namespace penstock::tools {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  penstock explain weights.safetensors            how a read into GPU 0 would travel, and why\n"
    "  penstock explain weights.safetensors --write    the same for a write\n"
    "  penstock explain /dev/nvme0n1 --gpu 1 --json    for a program\n"
    "  penstock explain /data/file --root captured/    on a captured machine, as far as it tells\n"
    "Exit code: 0 if any path is usable, 1 if none is or the file cannot be used, 2 wrong usage,\n"
    "77 if there is no such GPU.";

}  // namespace

void add_explain(CommandLine& command) {
  auto settings = std::make_shared<ExplainSettings>();
  command.option("FILE", settings->file, "A regular file or a block device").required();
  const Option gpu = command.option("--gpu", settings->gpu, "The GPU whose memory takes part").default_shown();
  const Option memory = command.option("--memory", settings->memory, "Whose memory takes part: a GPU's or the host's")
                            .one_of({"device", "host"})
                            .default_shown();
  command.flag("--write", settings->is_write, "Explain a write; the file is opened for writing, not changed");
  const Option direct = command.flag("--direct", settings->direct, "Open the file with O_DIRECT");
  const Option offset = command.size("--offset", settings->offset, "Where in the file the request begins [0]");
  const Option size = command.size("--size", settings->size, "Bytes of the request [to the file's end, 16M at most]");
  Option root = command.option("--root", settings->root, "Read the captured machine in DIR; FILE is a path there")
                    .value_name("DIR");
  // A captured machine tells of every device it had, and no request is planned there.
  for (const Option& option : {gpu, memory, direct, offset, size}) root.excludes(option);
  command.flag("--json", settings->json, "Print JSON");
  command.footer(kExamples);
  command.runs([settings] { return explain(*settings); });
}

}  // namespace penstock::tools
