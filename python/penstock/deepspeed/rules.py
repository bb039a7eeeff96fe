# SPDX-License-Identifier: Apache-2.0

"""The checks of a configuration that do not depend on the machine: of its keys, and of their combinations.

Sources besides DeepSpeed's source: tests with it, and its pull requests 7727 and 8196.
"""

from __future__ import annotations

from typing import Any

from penstock.deepspeed.config import Config
from penstock.deepspeed.keys import (
    INT_MAX, KEYS, OPTIMIZER, PARAM, WRITER, ZERO_KEYS, Key, is_model, near, places_of, taken,
)

ZERO = "zero_optimization"
REFUSES = "there is no such key, and DeepSpeed refuses the whole configuration"


def check(config: Config) -> None:
    for rule in (check_form, check_keys, check_zero_keys, check_outermost_keys, check_refusals, check_who_reads_gds,
                 check_gds_wait, check_gds_block_size, check_block_size, check_offload, check_restore,
                 check_swap_buffers, check_writer_type, check_writer_buffer, check_writer_parallel, check_surroundings):
        rule(config)


# ---- Keys, each by itself.


def check_form(config: Config) -> None:
    if config.not_json is not None:
        line, why = config.not_json
        config.add("warning", "not_json", "", "JSON", f"line {line} is HJSON, which DeepSpeed reads, and no JSON "
                   f"({why}): Hugging Face's and Lightning's readers of the same file refuse it",
                   "Where others read it too, leave out comments, write names in double quotes, and no comma before a "
                   "bracket.")


def check_keys(config: Config) -> None:
    for block, keys in KEYS.items():
        values = config.find(block)
        if isinstance(values, dict):
            for name, value in values.items():
                _check_key(config, block, name, value, keys.get(name))
        elif values is not None and block != WRITER:  # That is reported as a key of "checkpoint".
            config.add("error", "wrong_value", block, "a block: { ... }", "DeepSpeed looks for keys in it",
                       "Write it as a block.")


def _check_key(config: Config, block: str, name: str, value: Any, key: Key | None) -> None:
    full, by_model = f"{block}.{name}", is_model(block)
    if key is None:
        if config.may_refuse(full):
            _tell_unknown(config, block, name)
    elif value is not None and not (by_model and value == "auto"):
        _check_value(config, full, key, value, taken(key, value, by_model))


def _tell_unknown(config: Config, block: str, name: str) -> None:
    full = f"{block}.{name}"
    if full == "aio.thread_count":
        config.add("warning", "no_such_key", full, "aio.intra_op_parallelism, by which DeepSpeed knows its threads",
                   "there is no such key: DeepSpeed reads past it, and uses the default, one thread",
                   "Remove it, or call it intra_op_parallelism.")
        return
    meant = near(name, KEYS[block])
    severity, cause = ("error", REFUSES) if is_model(block) else (
        "warning", "there is no such key: DeepSpeed reads past it, and uses defaults")
    config.add(severity, "no_such_key", full, f"{block}.{meant}?" if meant else "", cause,
               f'Write "{meant}".' if meant else "Remove it.")


def _check_value(config: Config, full: str, key: Key, value: Any, as_taken: Any) -> None:
    if as_taken is None:
        cause = ("a number with a point or an exponent is no whole number to Python"
                 if key.kind == "whole" and isinstance(value, float)
                 else "DeepSpeed ends, or goes on with something else, where it meets this value")
        if config.may_refuse(full):
            config.add("error", "wrong_value", full, key.takes(), cause, "Correct the value.")
        return
    is_whole = key.kind == "whole"
    remedy = f"Choose a number in that range; the default is {key.initial}."
    if is_whole and (as_taken < key.low or 0 < key.high < as_taken) and config.may_refuse(full):
        config.add("error", "out_of_range", full, key.takes(), f"it is out of range for what it sets: {key.meaning}",
                   remedy)
    elif is_whole and 0 < key.sensible < as_taken:
        config.add("warning", "unusual_value", full, key.takes(),
                   f"more than makes sense for what it sets: {key.meaning}", remedy)


def check_zero_keys(config: Config) -> None:
    zero = config.find(ZERO)
    for name in zero if isinstance(zero, dict) else ():
        full = f"{ZERO}.{name}"
        if name in ZERO_KEYS or not config.may_refuse(full):
            continue
        meant = near(name, ZERO_KEYS)
        elsewhere = [] if meant else places_of(name)
        config.add("error", "no_such_key", full,
                   f"{ZERO}.{meant}?" if meant else " or ".join(elsewhere) + "?" * bool(elsewhere),
                   REFUSES.replace("key", "block") if isinstance(zero[name], dict) else REFUSES,
                   f'Write "{meant}".' if meant else f"Move it to {elsewhere[0]}." if elsewhere else "Remove it.")


def check_outermost_keys(config: Config) -> None:
    """DeepSpeed ignores keys that are one block too high."""
    for name in config.root:
        places = [] if name in KEYS else places_of(name)
        if places:
            config.add("warning", "misplaced", name, " or ".join(places),
                       "DeepSpeed reads it there alone, and past it here: nothing of it counts",
                       f"Move it to {places[0]}.")


def check_refusals(config: Config) -> None:
    """Reports refusals of DeepSpeed's own classes that no rule here has reported."""
    if config.refusals is None:
        return
    if config.refusals.failure:
        config.add("note", "deepspeed_silent", "", "", "DeepSpeed is installed, but its own classes could not be "
                   f"asked, so that the rules of {config.version} judged: {config.refusals.failure}")
    for key, why in config.refusals.by_key.items():
        if not config.has_error_at(key):
            config.add("error", "refused", key, "", f"DeepSpeed {config.version} refuses it: {' '.join(why.split())}",
                       "Correct the value.")


# ---- What they mean together.


def check_who_reads_gds(config: Config) -> None:
    if not config.value("aio", "use_gds"):
        return
    if not config.uses_gds:
        config.add("warning", "gds_without_effect", "aio.use_gds",
                   "stage 3 with offload_param.device nvme, or checkpoint.writer.type fast",
                   "DeepSpeed reads it in two places alone, the parameter swap of stage 3 and the fast checkpoint "
                   "writer, and this configuration has neither; the optimizer swap goes through libaio always",
                   "Offload parameters to nvme or use the fast writer, or leave use_gds out.")
        return
    users = ["the parameter swap's reads and its first writes"] * config.swaps(PARAM)
    users += ["the fast checkpoint writer"] * config.has_fast_writer
    others = ["restoring a checkpoint", *["parameters written after a step"] * config.swaps(PARAM),
              *["the optimizer swap"] * config.swaps(OPTIMIZER)]
    config.add("note", "gds_users", "aio.use_gds", "",
               f"by cuFile: {', '.join(users)}. Not by cuFile, whatever is set: {', '.join(others)}")


def check_gds_wait(config: Config) -> None:
    if config.uses_gds:
        config.add("warning", "gds_wait", "aio.use_gds",
                   "a DeepSpeed whose gds_handle gives up Python's lock while it waits",
                   "DeepSpeed 0.19.8's keeps it, and may wait for ever for a thread that needs it: with PyTorch 2.11 "
                   "training stood still at its start; no library behind cuFile can change that",
                   "Add py::call_guard<py::gil_scoped_release>() to wait, pread, pwrite, sync_pread and sync_pwrite in "
                   "csrc/gds/py_lib/py_ds_gds.cpp, as csrc/aio/py_lib/py_ds_aio.cpp has it, and compile the operator "
                   "anew; integrations/deepspeed/training.py does.")


def check_gds_block_size(config: Config) -> None:
    unit, most, size = 64 << 10, 16 << 20, config.value("aio", "block_size")
    if config.uses_gds and not (unit <= size <= most and size // 1024 * 1024 % unit == 0):
        config.add("error", "gds_block_size", "aio.block_size", "with use_gds a multiple of 65536, 65536 to 16777216",
                   "DeepSpeed gives it to cuFile as the most of one operation, and ends the process where cuFile does "
                   "not take it", "Choose such a size; the default is 1048576.")


def check_block_size(config: Config) -> None:
    size, depth = config.value("aio", "block_size"), config.value("aio", "queue_depth")
    if size < 512:
        return  # That is reported already.
    if size % 4096:
        config.add("error" if size % 512 else "warning", "block_size_alignment", "aio.block_size", "a multiple of 4096",
                   "files are written past the page cache, which takes whole blocks of the drive",
                   "Choose a multiple of 4096; the default is 1048576.")
    if size < 128 << 10 and not config.uses_gds:
        config.add("warning", "unusual_value", "aio.block_size", "131072 or more",
                   "small requests keep a drive from its speed", "Choose 1048576.")
    if not config.value("aio", "overlap_events") and depth > INT_MAX // size:
        config.add("error", "queue_too_large", "aio.queue_depth",
                   "block_size times queue_depth of at most 2147483647",
                   "without overlap_events DeepSpeed multiplies the two in 32 bits, where this product has no room",
                   "Set overlap_events to true, or choose smaller numbers.")


def check_offload(config: Config) -> None:
    for block, cause in ((PARAM, "parameters are not offloaded"),
                         (OPTIMIZER, "states stay in host memory, and no drive is used")):
        if config.value(block, "device") != "nvme":
            continue
        if config.stage != 3:
            config.add("warning", "stage", f"{block}.device", "zero_optimization.stage 3",
                       f"at stage {config.stage} {cause}", "Set zero_optimization.stage to 3, or leave nvme out.")
        if config.find(f"{block}.nvme_path") is None:
            config.add("error", "no_nvme_path", f"{block}.nvme_path", "the absolute name of a folder",
                       "device is nvme, and DeepSpeed has no default for the folder",
                       "Set it to a folder on a local drive.")


def check_restore(config: Config) -> None:
    if config.swaps(OPTIMIZER):
        config.add("warning", "moments_lost", f"{OPTIMIZER}.device",
                   "cpu, where training is to go on from a checkpoint as if it had not stopped",
                   "load_checkpoint in a new process takes back the weights from the drive, but neither the "
                   "optimizer's moments nor its step count",
                   "Offload the optimizer to cpu, or accept that it starts anew after each restart.")


def check_swap_buffers(config: Config) -> None:
    if not config.swaps(PARAM):
        return
    half_word = 2  # Bytes of an element of fp16 or bf16.
    gib = config.value(PARAM, "buffer_count") * config.value(PARAM, "buffer_size") * half_word / 2**30
    config.add("note", "swap_buffers", f"{PARAM}.buffer_size", "",
               f"buffer_count times buffer_size take {gib:.2f} GiB of "
               f"{'GPU' if config.uses_gds else 'page-locked host'} memory in 16-bit types")
    if in_memory := config.value(PARAM, "max_in_cpu"):
        config.add("note", "kept_in_memory", f"{PARAM}.max_in_cpu", "",
                   f"the first {in_memory} elements stay in host memory, and a smaller model never reaches the drive",
                   "To offload from the first element on, set it to 0.")


def check_writer_type(config: Config) -> None:
    key = f"{WRITER}.type"
    if config.has_writer and config.value(WRITER, "type") == "mock":
        config.add("error", "mock_writer", key, "python or fast",
                   "this writer writes nothing: save_checkpoint succeeds, and there is no checkpoint",
                   "Choose fast, or leave the block out.")
    if config.has_fast_writer and config.stage < 3:
        config.add("warning", "file_names", key, "zero_optimization.stage 3",
                   f"at stage {config.stage} the fast writer adds -RANK.WRITERS to the names of files, and loading "
                   "looks for names without", "Rename the files before they are loaded, or choose python.")


def check_writer_buffer(config: Config) -> None:
    halves = 2 if config.value(WRITER, "io_buffer_double") else 1
    threads = 1 if config.uses_gds else config.value("aio", "intra_op_parallelism")
    if not config.has_fast_writer or not 1 <= threads <= INT_MAX:
        return  # The threads are reported already.
    size = config.value(WRITER, "io_buffer_size")
    is_refused = size % (halves * 512 * threads) != 0
    if is_refused or size % (halves * 4096):
        config.add("error" if is_refused else "warning", "writer_buffer", f"{WRITER}.io_buffer_size",
                   f"a multiple of {halves * 4096 * threads}",
                   "DeepSpeed ends with an assertion for it when it saves" if is_refused else
                   "drives with blocks of 4096 bytes refuse its writes past the page cache",
                   "Choose such a size; the default is 67108864.")


def check_writer_parallel(config: Config) -> None:
    for name in ("data_parallel", "io_multiplier"):
        if config.has_writer and config.stage == 3 and config.value(WRITER, name) != KEYS[WRITER][name].initial:
            config.add("note", "without_effect", f"{WRITER}.{name}", "",
                       "at stage 3 each rank writes its own part, and DeepSpeed does not read it", "Leave it out.")


def check_surroundings(config: Config) -> None:
    if not config.has_writer:
        return
    config.add("warning", "load_refused", WRITER, "",
               "with this block DeepSpeed loads by torch.load without weights_only=False, which PyTorch 2.6 and later "
               "refuse for DeepSpeed's own files",
               "Where a checkpoint of your own is loaded, set TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1.")
    config.add("note", "launcher", WRITER, "",
               "with this block DeepSpeed asks the environment for CROSS_SIZE and CROSS_RANK, and ends without: its "
               "own launcher sets them, torchrun does not",
               "Under another launcher set them to the number of nodes, and this node's.")
