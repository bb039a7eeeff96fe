// SPDX-License-Identifier: Apache-2.0

// What there is to say about a DeepSpeed configuration by itself, wherever it may run.
#include <fmt/format.h>

#include <string>

#include "settings/names.h"
#include "settings/words.h"
#include "tools/check/deepspeed_config.h"

namespace penstock::tools {
namespace {

constexpr const char* kParam = "zero_optimization.offload_param";
constexpr const char* kOptimizer = "zero_optimization.offload_optimizer";
constexpr const char* kWriter = "checkpoint.writer";

std::string full_name(std::string_view block, std::string_view name) {
  return std::string(block) + "." + std::string(name);
}

// ---- Keys, each by itself.

void tell_unknown(const DeepSpeedBlock& block, const std::string& name, DeepSpeedFindings& findings) {
  const std::string key = full_name(block.name, name);
  if (key == "aio.thread_count") {
    findings.add(Severity::warning, "no_such_key", key,
                 {"aio.intra_op_parallelism, by which DeepSpeed knows its threads",
                  "there is no such key: DeepSpeed reads past it, and uses the default, one thread",
                  "Remove it, or call it intra_op_parallelism."});
    return;
  }
  const std::string_view near = deepspeed_key_near(block.name, name);
  const std::string meant = near.empty() ? "" : full_name(block.name, near);
  findings.add(block.refuses_unknown ? Severity::error : Severity::warning, "no_such_key", core::shown(key),
               {near.empty() ? "" : meant + "?",
                block.refuses_unknown ? "there is no such key, and DeepSpeed refuses the whole configuration"
                                      : "there is no such key: DeepSpeed reads past it, and uses defaults",
                near.empty() ? "Remove it." : fmt::format("Write \"{}\".", near)});
}

void check_value(const DeepSpeedKey& key, const DeepSpeedValue& value, DeepSpeedFindings& findings) {
  const std::string name = full_name(key.block, key.name);
  if (!is_of_kind(key, value)) {
    const char* cause = value.is_number_float() && key.kind == DeepSpeedKind::whole
                            ? "a number with a point or an exponent is no whole number to Python"
                            : "DeepSpeed ends, or goes on with something else, where it meets this value";
    findings.add(Severity::error, "wrong_value", name, {takes_text(key), cause, "Correct the value."});
    return;
  }
  if (key.kind != DeepSpeedKind::whole) return;
  const std::int64_t number = value.get<std::int64_t>();
  if (number < key.low || (key.high != 0 && number > key.high)) {
    findings.add(Severity::error, "out_of_range", name,
                 {takes_text(key), fmt::format("it is out of range for what it sets: {}", key.meaning),
                  fmt::format("Choose a number in that range; the default is {}.", key.initial)});
  } else if (key.sensible != 0 && number > key.sensible) {
    findings.add(Severity::warning, "unusual_value", name,
                 {takes_text(key), fmt::format("more than makes sense for what it sets: {}", key.meaning),
                  fmt::format("Choose a number in that range; the default is {}.", key.initial)});
  }
}

void check_block(const DeepSpeedConfig& config, const DeepSpeedBlock& block, DeepSpeedFindings& findings) {
  const DeepSpeedValue* values = config.find(block.name);
  if (values == nullptr) return;
  if (!values->is_object()) {
    if (block.name == kWriter) return;  // Told as a key of "checkpoint".
    findings.add(Severity::error, "wrong_value", std::string(block.name),
                 {"a block: { ... }", "DeepSpeed looks for keys in it", "Write it as a block."});
    return;
  }
  for (const auto& [name, value] : values->items()) {
    const DeepSpeedKey* key = deepspeed_key(block.name, name);
    if (key == nullptr) tell_unknown(block, name, findings);
    else if (!value.is_null() && !(block.takes_auto && value == "auto")) check_value(*key, value, findings);
  }
}

// The blocks themselves may be misspelt.
void check_block_names(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  const DeepSpeedValue* zero = config.find("zero_optimization");
  if (zero == nullptr || !zero->is_object()) return;
  for (const auto& [name, value] : zero->items()) {
    for (const char* known : {"offload_param", "offload_optimizer"}) {
      if (name == known || !value.is_object() || !core::is_near(name, known)) continue;
      findings.add(Severity::error, "no_such_key", "zero_optimization." + core::shown(name),
                   {fmt::format("zero_optimization.{}?", known),
                    "there is no such block, and DeepSpeed refuses the whole configuration",
                    fmt::format("Write \"{}\".", known)});
    }
  }
}

// ---- What they mean together.

void check_who_reads_gds(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  if (!config.asks_for_gds()) return;
  if (!config.uses_gds()) {
    findings.add(Severity::warning, "gds_without_effect", "aio.use_gds",
                 {"stage 3 with offload_param.device nvme, or checkpoint.writer.type fast",
                  "DeepSpeed reads it in two places alone, the parameter swap of stage 3 and the fast checkpoint "
                  "writer, and this configuration has neither; the optimizer swap goes through libaio always",
                  "Offload parameters to nvme or use the fast writer, or leave use_gds out."});
    return;
  }
  std::string users = config.swaps_parameters() ? "the parameter swap's reads and its first writes" : "";
  if (config.is_fast_writer()) users += users.empty() ? "the fast checkpoint writer" : ", the fast checkpoint writer";
  std::string others = "restoring a checkpoint";
  if (config.swaps_parameters()) others += ", parameters written after a step";
  if (config.swaps_optimizer()) others += ", the optimizer swap";
  findings.add(Severity::note, "gds_users", "aio.use_gds",
               {"", fmt::format("by cuFile: {}. Not by cuFile, whatever is set: {}", users, others), ""});
}

// https://github.com/deepspeedai/DeepSpeed/pull/7727 and 8196, which mended aio_handle alone.
void check_gds_wait(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  if (!config.uses_gds()) return;
  findings.add(
      Severity::warning, "gds_wait", "aio.use_gds",
      {"a DeepSpeed whose gds_handle gives up Python's lock while it waits",
       "DeepSpeed 0.19.8's keeps it, and may wait for ever for a thread that needs it: with PyTorch 2.11 training "
       "stood still at its start; no library behind cuFile can change that",
       "Add py::call_guard<py::gil_scoped_release>() to wait, pread, pwrite, sync_pread and sync_pwrite in "
       "csrc/gds/py_lib/py_ds_gds.cpp, as csrc/aio/py_lib/py_ds_aio.cpp has it, and compile the operator "
       "anew; integrations/deepspeed/training.py does."});
}

void check_gds_block_size(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  constexpr std::int64_t kUnit = 64 << 10, kMost = 16 << 20;
  const std::int64_t size = config.number("aio", "block_size");
  const bool fits = size >= kUnit && size <= kMost && (size / 1024 * 1024) % kUnit == 0;
  if (!config.uses_gds() || fits) return;
  findings.add(Severity::error, "gds_block_size", "aio.block_size",
               {"with use_gds a multiple of 65536, 65536 to 16777216",
                "DeepSpeed gives it to cuFile as the most of one operation, and ends the process where cuFile does not "
                "take it",
                "Choose such a size; the default is 1048576."});
}

void check_block_size(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  const std::int64_t size = config.number("aio", "block_size");
  if (size < 512) return;  // Told already.
  if (size % 4096 != 0) {
    findings.add(size % 512 != 0 ? Severity::error : Severity::warning, "block_size_alignment", "aio.block_size",
                 {"a multiple of 4096", "files are written past the page cache, which takes whole blocks of the drive",
                  "Choose a multiple of 4096; the default is 1048576."});
  }
  constexpr std::int64_t kSmall = 128 << 10;
  if (size < kSmall && !config.uses_gds()) {
    findings.add(Severity::warning, "unusual_value", "aio.block_size",
                 {"131072 or more", "small requests keep a drive from its speed", "Choose 1048576."});
  }
  const std::int64_t depth = config.number("aio", "queue_depth");
  if (!config.is_on("aio", "overlap_events") && depth > INT32_MAX / size) {
    findings.add(Severity::error, "queue_too_large", "aio.queue_depth",
                 {"block_size times queue_depth of at most 2147483647",
                  "without overlap_events DeepSpeed multiplies the two in 32 bits, where this product has no room",
                  "Set overlap_events to true, or choose smaller numbers."});
  }
}

void check_offload_device(const DeepSpeedConfig& config, const char* block, const char* cause,
                          DeepSpeedFindings& findings) {
  if (config.word(block, "device") != "nvme") return;
  if (config.stage() != 3) {
    findings.add(Severity::warning, "stage", full_name(block, "device"),
                 {"zero_optimization.stage 3", fmt::format("at stage {} {}", config.stage(), cause),
                  "Set zero_optimization.stage to 3, or leave nvme out."});
  }
  if (config.find(full_name(block, "nvme_path")) == nullptr) {
    findings.add(Severity::error, "no_nvme_path", full_name(block, "nvme_path"),
                 {"the absolute name of a folder", "device is nvme, and DeepSpeed has no default for the folder",
                  "Set it to a folder on a local drive."});
  }
}

void check_offload(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  check_offload_device(config, kParam, "parameters are not offloaded", findings);
  check_offload_device(config, kOptimizer, "states stay in host memory, and no drive is used", findings);
}

void check_restore(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  if (!config.swaps_optimizer()) return;
  findings.add(Severity::warning, "moments_lost", full_name(kOptimizer, "device"),
               {"cpu, where training is to go on from a checkpoint as if it had not stopped",
                "load_checkpoint in a new process takes back the weights from the drive, but neither the optimizer's "
                "moments nor its step count",
                "Offload the optimizer to cpu, or accept that it starts anew after each restart."});
}

void check_swap_buffers(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  if (!config.swaps_parameters()) return;
  constexpr double kHalfWord = 2;  // Bytes of an element of fp16 or bf16.
  const double bytes = static_cast<double>(config.number(kParam, "buffer_count")) *
                       static_cast<double>(config.number(kParam, "buffer_size")) * kHalfWord;
  findings.add(Severity::note, "swap_buffers", full_name(kParam, "buffer_size"),
               {"",
                fmt::format("buffer_count times buffer_size take {:.2f} GiB of {} memory in 16-bit types",
                            bytes / (1 << 30), config.uses_gds() ? "GPU" : "page-locked host"),
                ""});
  if (config.number(kParam, "max_in_cpu") != 0) {
    findings.add(Severity::note, "kept_in_memory", full_name(kParam, "max_in_cpu"),
                 {"",
                  fmt::format("the first {} elements stay in host memory, and a smaller model never reaches the drive",
                              config.number(kParam, "max_in_cpu")),
                  "To offload from the first element on, set it to 0."});
  }
}

void check_writer_type(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  if (!config.has_writer()) return;
  const std::string key = full_name(kWriter, "type");
  if (config.word(kWriter, "type") == "mock") {
    findings.add(Severity::error, "mock_writer", key,
                 {"python or fast", "this writer writes nothing: save_checkpoint succeeds, and there is no checkpoint",
                  "Choose fast, or leave the block out."});
  }
  if (config.is_fast_writer() && config.stage() < 3) {
    findings.add(Severity::warning, "file_names", key,
                 {"zero_optimization.stage 3",
                  fmt::format("at stage {} the fast writer adds -RANK.WRITERS to the names of files, and loading looks "
                              "for names without",
                              config.stage()),
                  "Rename the files before they are loaded, or choose python."});
  }
}

void check_writer_buffer(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  if (!config.is_fast_writer()) return;
  const std::int64_t halves = config.is_on(kWriter, "io_buffer_double") ? 2 : 1;
  const std::int64_t threads = config.uses_gds() ? 1 : config.number("aio", "intra_op_parallelism");
  if (threads < 1 || threads > INT32_MAX) return;  // Told already.
  const std::int64_t size = config.number(kWriter, "io_buffer_size");
  const bool is_refused = size % (halves * 512 * threads) != 0;
  if (!is_refused && size % (halves * 4096) == 0) return;
  findings.add(is_refused ? Severity::error : Severity::warning, "writer_buffer", full_name(kWriter, "io_buffer_size"),
               {fmt::format("a multiple of {}", halves * 4096 * threads),
                is_refused ? "DeepSpeed ends with an assertion for it when it saves"
                           : "drives with blocks of 4096 bytes refuse its writes past the page cache",
                "Choose such a size; the default is 67108864."});
}

void check_writer_parallel(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  if (!config.has_writer() || config.stage() != 3) return;
  const auto tell = [&](const char* name) {
    findings.add(Severity::note, "without_effect", full_name(kWriter, name),
                 {"", "at stage 3 each rank writes its own part, and DeepSpeed does not read it", "Leave it out."});
  };
  if (config.word(kWriter, "data_parallel") != "none") tell("data_parallel");
  if (config.number(kWriter, "io_multiplier") != 1) tell("io_multiplier");
}

// As found by running it, this and what restoring brings back.
void check_surroundings(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  if (!config.has_writer()) return;
  findings.add(Severity::warning, "load_refused", kWriter,
               {"",
                "with this block DeepSpeed loads by torch.load without weights_only=False, which PyTorch 2.6 and "
                "later refuse for DeepSpeed's own files",
                "Where a checkpoint of your own is loaded, set TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1."});
  findings.add(Severity::note, "launcher", kWriter,
               {"",
                "with this block DeepSpeed asks the environment for CROSS_SIZE and CROSS_RANK, and ends without: its "
                "own launcher sets them, torchrun does not",
                "Under another launcher set them to the number of nodes, and this node's."});
}

void check_writer(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  check_writer_type(config, findings);
  check_writer_buffer(config, findings);
  check_writer_parallel(config, findings);
  check_surroundings(config, findings);
}

}  // namespace

void check_deepspeed_keys(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  for (const DeepSpeedBlock& block : deepspeed_blocks()) check_block(config, block, findings);
  check_block_names(config, findings);
}

void check_deepspeed_rules(const DeepSpeedConfig& config, DeepSpeedFindings& findings) {
  check_who_reads_gds(config, findings);
  check_gds_wait(config, findings);
  check_gds_block_size(config, findings);
  check_block_size(config, findings);
  check_offload(config, findings);
  check_restore(config, findings);
  check_swap_buffers(config, findings);
  check_writer(config, findings);
}

}  // namespace penstock::tools
