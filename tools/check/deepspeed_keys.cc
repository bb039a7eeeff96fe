// SPDX-License-Identifier: Apache-2.0

#include "tools/check/deepspeed_keys.h"

#include <fmt/format.h>

#include "settings/names.h"
#include "settings/words.h"

namespace penstock::tools {
namespace {

using enum DeepSpeedKind;

constexpr std::int64_t kIntMax = 2147483647;  // DeepSpeed's operators take int.
constexpr std::string_view kParam = "zero_optimization.offload_param";
constexpr std::string_view kOptimizer = "zero_optimization.offload_optimizer";
constexpr std::string_view kWriter = "checkpoint.writer";

// clang-format off
constexpr DeepSpeedKey kKeys[] = {
    {.block = "aio", .name = "block_size", .kind = whole, .initial = "1048576", .low = 512, .high = kIntMax,
     .sensible = 64 << 20, .meaning = "bytes of one request of libaio; with use_gds, the most of one of cuFile's"},
    {.block = "aio", .name = "queue_depth", .kind = whole, .initial = "8", .low = 1, .high = kIntMax, .sensible = 1024,
     .meaning = "requests of libaio that are under way at once"},
    {.block = "aio", .name = "intra_op_parallelism", .kind = whole, .initial = "1", .low = 1, .high = kIntMax,
     .sensible = 64, .meaning = "threads that share one tensor"},
    {.block = "aio", .name = "single_submit", .kind = boolean, .initial = "false",
     .meaning = "hand requests to the kernel one by one"},
    {.block = "aio", .name = "overlap_events", .kind = boolean, .initial = "true",
     .meaning = "hand in further requests while earlier ones are under way"},
    {.block = "aio", .name = "use_gds", .kind = boolean, .initial = "false",
     .meaning = "cuFile in place of libaio, in the parameter swap and the fast checkpoint writer"},

    {.block = "checkpoint", .name = "tag_validation", .kind = word, .initial = "Warn", .words = "Ignore Warn Fail",
     .meaning = "what to do where ranks save under different tags"},
    {.block = "checkpoint", .name = "checkpoint_serialization", .kind = boolean, .initial = "true",
     .meaning = "torch.save's zip format in place of its older one"},
    {.block = "checkpoint", .name = "load_universal", .kind = boolean, .initial = "false",
     .meaning = "load a universal checkpoint"},
    {.block = "checkpoint", .name = "use_node_local_storage", .kind = boolean, .initial = "false",
     .meaning = "each node saves to a drive of its own"},
    {.block = "checkpoint", .name = "parallel_write", .kind = block, .initial = "{}",
     .meaning = "which ranks of a pipeline write"},
    {.block = "checkpoint", .name = "writer", .kind = block, .initial = "none",
     .meaning = "how files are written; without it by torch.save, to the page cache"},

    {.block = kWriter, .name = "type", .kind = word, .initial = "fast", .words = "mock python fast",
     .meaning = "fast: past the page cache; python: to it; mock: nothing is written"},
    {.block = kWriter, .name = "decoupled", .kind = boolean, .initial = "false",
     .meaning = "write in another process while training goes on"},
    {.block = kWriter, .name = "io_buffer_size", .kind = whole, .initial = "67108864", .low = 512,
     .sensible = std::int64_t{4} << 30, .meaning = "bytes through which the fast writer goes"},
    {.block = kWriter, .name = "io_buffer_double", .kind = boolean, .initial = "true",
     .meaning = "fill one half of the buffer while the other is written"},
    {.block = kWriter, .name = "show_statistics", .kind = boolean, .initial = "false",
     .meaning = "print times of each file"},
    {.block = kWriter, .name = "data_parallel", .kind = word, .initial = "none", .words = "replica socket machine",
     .meaning = "which data-parallel ranks share the writing; not at stage 3"},
    {.block = kWriter, .name = "io_multiplier", .kind = whole, .initial = "1", .low = 1, .sensible = 64,
     .meaning = "files of each writing rank; not at stage 3"},

    {.block = kParam, .name = "device", .kind = word, .initial = "none", .words = "none cpu nvme",
     .meaning = "where parameters are kept"},
    {.block = kParam, .name = "nvme_path", .kind = path, .initial = "none", .meaning = "folder of the swap files"},
    {.block = kParam, .name = "buffer_count", .kind = whole, .initial = "5", .low = 0, .sensible = 1024,
     .meaning = "buffers that parameters are read into"},
    {.block = kParam, .name = "buffer_size", .kind = whole, .initial = "100000000", .low = 0,
     .meaning = "elements of one buffer, no fewer than the largest parameter has"},
    {.block = kParam, .name = "max_in_cpu", .kind = whole, .initial = "1000000000", .low = 0,
     .meaning = "elements that stay in host memory before any goes to the drive"},
    {.block = kParam, .name = "pin_memory", .kind = boolean, .initial = "true", .meaning = "page-locked host memory"},

    {.block = kOptimizer, .name = "device", .kind = word, .initial = "none", .words = "none cpu nvme",
     .meaning = "where optimizer states are kept"},
    {.block = kOptimizer, .name = "nvme_path", .kind = path, .initial = "none", .meaning = "folder of the swap files"},
    {.block = kOptimizer, .name = "buffer_count", .kind = whole, .initial = "4", .low = 0, .sensible = 1024,
     .meaning = "buffers, as many as the optimizer has states of a parameter"},
    {.block = kOptimizer, .name = "pin_memory", .kind = boolean, .initial = "true",
     .meaning = "page-locked host memory"},
    {.block = kOptimizer, .name = "pipeline_read", .kind = boolean, .initial = "false",
     .meaning = "read the next part while this one is computed"},
    {.block = kOptimizer, .name = "pipeline_write", .kind = boolean, .initial = "false",
     .meaning = "write the last part while this one is computed"},
    {.block = kOptimizer, .name = "fast_init", .kind = boolean, .initial = "false",
     .meaning = "start from swapped parameters directly"},
    {.block = kOptimizer, .name = "ratio", .kind = fraction, .initial = "1.0",
     .meaning = "part of the states that is offloaded"},
    {.block = kOptimizer, .name = "super_offload", .kind = boolean, .initial = "false",
     .meaning = "offload as fits Grace Hopper"},
    {.block = kOptimizer, .name = "cpuadam_cores_perc", .kind = fraction, .initial = "0.8",
     .meaning = "part of the cores that compute with super_offload"},
};

constexpr DeepSpeedBlock kBlocks[] = {
    {"aio", false, false}, {"checkpoint", false, false}, {kWriter, false, false},
    {kParam, true, true},  {kOptimizer, true, true},
};
// clang-format on

std::string words_text(std::string_view words) {
  std::string list;
  core::any_word(words, [&](std::string_view word) {
    list.append(list.empty() ? "" : ", ").append(word);
    return false;
  });
  return list;
}

}  // namespace

std::span<const DeepSpeedKey> deepspeed_keys() { return kKeys; }
std::span<const DeepSpeedBlock> deepspeed_blocks() { return kBlocks; }

const DeepSpeedKey* deepspeed_key(std::string_view block, std::string_view name) {
  for (const DeepSpeedKey& key : kKeys) {
    if (key.block == block && key.name == name) return &key;
  }
  return nullptr;
}

std::string_view deepspeed_key_near(std::string_view block, std::string_view name) {
  for (const DeepSpeedKey& key : kKeys) {
    if (key.block == block && core::is_near(name, key.name)) return key.name;
  }
  return "";
}

std::string takes_text(const DeepSpeedKey& key) {
  switch (key.kind) {
    case DeepSpeedKind::boolean: return "true or false";
    case DeepSpeedKind::word: return "one of " + words_text(key.words);
    case DeepSpeedKind::fraction: return "a number, 0 to 1";
    case DeepSpeedKind::path: return "the absolute name of a folder";
    case DeepSpeedKind::block: return "a block: { ... }";
    case DeepSpeedKind::whole: break;
  }
  const std::int64_t high = key.sensible != 0 ? key.sensible : key.high;
  return high != 0 ? fmt::format("a whole number, {} to {}", key.low, high)
                   : fmt::format("a whole number, {} or more", key.low);
}

}  // namespace penstock::tools
