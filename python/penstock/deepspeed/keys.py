# SPDX-License-Identifier: Apache-2.0

"""DeepSpeed's keys about files, from its source, with their valid values."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

VERSION = "0.19.8"  # The release whose source the tables are from.
PARAM, OPTIMIZER = "zero_optimization.offload_param", "zero_optimization.offload_optimizer"
WRITER = "checkpoint.writer"
INT_MAX = 2**31 - 1  # DeepSpeed's operators use int.
BOOLEANS = {"true": True, "t": True, "yes": True, "y": True, "on": True, "1": True,
            "false": False, "f": False, "no": False, "n": False, "off": False, "0": False}


@dataclass(frozen=True)
class Key:
    """kind: boolean, whole, fraction, word, path or block. initial: its default. low and high: DeepSpeed fails with
    less or more; more than `sensible` makes no sense; 0: no limit."""

    kind: str
    initial: Any = None
    meaning: str = ""
    words: tuple[str, ...] = ()
    low: int = 0
    high: int = 0
    sensible: int = 0

    def takes(self) -> str:
        """The valid values in words, to follow "expected"."""
        if self.kind == "whole":
            high = self.sensible or self.high
            return f"a whole number, {self.low} to {high}" if high else f"a whole number, {self.low} or more"
        return {"boolean": "true or false", "word": f"one of {', '.join(self.words)}", "fraction": "a number, 0 to 1",
                "path": "the absolute name of a folder", "block": "a block: { ... }"}[self.kind]


def _whole(initial: int, meaning: str, low: int = 0, high: int = 0, sensible: int = 0) -> Key:
    return Key("whole", initial, meaning, low=low, high=high, sensible=sensible)


OFF, ON, FRACTION = Key("boolean", False), Key("boolean", True), Key("fraction")
DEVICE = Key("word", "none", words=("none", "cpu", "nvme"))

KEYS: dict[str, dict[str, Key]] = {
    "aio": {
        "block_size": _whole(1 << 20, "bytes of one request of libaio; with use_gds, the most of one of cuFile's", 512,
                             INT_MAX, 64 << 20),
        "queue_depth": _whole(8, "requests of libaio that are under way at once", 1, INT_MAX, 1024),
        "intra_op_parallelism": _whole(1, "threads that share one tensor", 1, INT_MAX, 64),
        "single_submit": OFF, "overlap_events": ON, "use_gds": OFF,
    },
    "checkpoint": {
        "tag_validation": Key("word", "warn", words=("Ignore", "Warn", "Fail")),
        "checkpoint_serialization": ON, "load_universal": OFF, "use_node_local_storage": OFF,
        "parallel_write": Key("block"), "writer": Key("block"),
    },
    WRITER: {
        "type": Key("word", "fast", words=("mock", "python", "fast")),
        "decoupled": OFF, "io_buffer_double": ON, "show_statistics": OFF,
        "io_buffer_size": _whole(64 << 20, "bytes through which the fast writer goes", 512, sensible=4 << 30),
        "data_parallel": Key("word", "none", words=("replica", "socket", "machine")),
        "io_multiplier": _whole(1, "files of each writing rank; not at stage 3", 1, sensible=64),
    },
    PARAM: {
        "device": DEVICE, "nvme_path": Key("path"), "pin_memory": ON,
        "buffer_count": _whole(5, "buffers that parameters are read into", sensible=1024),
        "buffer_size": _whole(10**8, "elements of one buffer, no fewer than the largest parameter has"),
        "max_in_cpu": _whole(10**9, "elements that stay in host memory before any goes to the drive"),
    },
    OPTIMIZER: {
        "device": DEVICE, "nvme_path": Key("path"), "pin_memory": ON, "pipeline_read": OFF, "pipeline_write": OFF,
        "buffer_count": _whole(4, "buffers, as many as the optimizer has states of a parameter", sensible=1024),
        "fast_init": OFF, "ratio": FRACTION, "super_offload": OFF, "cpuadam_cores_perc": FRACTION,
    },
}

# All keys of zero_optimization: DeepSpeed refuses any other there.
ZERO_KEYS = set("""
    stage contiguous_gradients reduce_scatter reduce_bucket_size use_multi_rank_bucket_allreduce allgather_partitions
    allgather_bucket_size overlap_comm compute_grad_norm load_from_fp32_weights elastic_checkpoint offload_param
    offload_optimizer zenflow sub_group_size cpu_offload_param cpu_offload_use_pin_memory cpu_offload
    prefetch_bucket_size param_persistence_threshold model_persistence_threshold max_live_parameters max_reuse_distance
    gather_16bit_weights_on_model_save module_granularity_threshold use_all_reduce_for_fetch_params
    allgather_sequential stage3_prefetch_bucket_size stage3_param_persistence_threshold
    stage3_model_persistence_threshold stage3_max_live_parameters stage3_max_reuse_distance
    stage3_gather_16bit_weights_on_model_save stage3_module_granularity_threshold
    stage3_use_all_reduce_for_fetch_params stage3_allgather_sequential stage3_gather_fp16_weights_on_model_save
    ignore_unused_parameters legacy_stage1 round_robin_gradients parameter_alignment zero_hpz_partition_size
    zero_quantized_weights zero_quantized_nontrainable_weights zero_quantized_gradients memory_efficient_linear
    pipeline_loading_checkpoint override_module_apply log_trace_cache_warnings enable_sanity_checks
    save_muon_momentum_buffer_in_memory leaf_module""".split())


def is_model(block: str) -> bool:
    """Whether DeepSpeed parses the block with a pydantic model, which refuses unknown keys, accepts "auto" for the
    default and strings for numbers, and is strict about words."""
    return block.startswith("zero_optimization")


def places_of(name: str) -> list[str]:
    """The full names of DeepSpeed's keys and nested blocks that end with this word."""
    blocks = [block for block in KEYS if block.rpartition(".")[2] == name]
    return blocks or [f"{block}.{name}" for block, keys in KEYS.items() if name in keys]


def near(name: str, known: object) -> str:
    """The key that a misspelt name probably means; "" for none."""
    return next(iter(difflib.get_close_matches(name, list(known), 1, 0.8)), "")  # type: ignore[call-overload]


def taken(key: Key, value: Any, by_model: bool) -> Any:
    """The value as DeepSpeed interprets it; None if it refuses it."""
    if key.kind == "boolean":
        return value if isinstance(value, bool) else BOOLEANS.get(str(value).lower()) if by_model else None
    if key.kind == "whole":
        return _as_whole(value, by_model)
    if key.kind == "fraction":
        return _as_fraction(value, by_model)
    if key.kind == "block":
        return value if isinstance(value, dict) else None
    if not isinstance(value, str):
        return None
    if key.kind == "path":
        return value or None
    words = key.words if by_model else [word.lower() for word in key.words]
    word = value if by_model else value.lower()
    return word if word in words else None


def _as_whole(value: Any, by_model: bool) -> int | None:
    if by_model and isinstance(value, str):
        value = int(value) if value.strip().lstrip("+-").isdecimal() and len(value) < 30 else None
    is_number = isinstance(value, int) and (by_model or not isinstance(value, bool))
    return int(value) if is_number and -(2**63) <= value < 2**63 else None


def _as_fraction(value: Any, by_model: bool) -> float | None:
    try:
        number = float(value) if by_model or not isinstance(value, (str, bool)) else -1.0
    except (TypeError, ValueError, OverflowError):
        return None
    return number if 0 <= number <= 1 else None
