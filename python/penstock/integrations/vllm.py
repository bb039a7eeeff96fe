# SPDX-License-Identifier: Apache-2.0

"""Load format "penstock" of vLLM: `vllm serve MODEL --load-format penstock`.

vLLM finds `register` by the entry point group vllm.general_plugins. The loader is vLLM's own, except for the reading:
vLLM still chooses files and tensors, and uses the tensors.
"""

from __future__ import annotations

import copy
import functools
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.integrations.common import check_fits, client, settings_of, stream

if TYPE_CHECKING:
    import torch

__all__ = ["PenstockModelLoader", "register"]

_loading = client("vllm.model_executor.model_loader", "vLLM")
_files = client("vllm.model_executor.model_loader.weight_utils", "vLLM")
_experts = client("vllm.model_executor.model_loader.ep_weight_filter", "vLLM")
_Base: Any = _loading.DefaultModelLoader
_log = logging.getLogger("vllm.penstock")  # A child of vLLM's logger, whose lines are shown.


class PenstockModelLoader(_Base):  # type: ignore[misc]
    """Reads safetensors files with Penstock, to the GPU of this process.

    model_loader_extra_config takes Penstock's settings, vLLM's enable_weights_track, and `together`: if true,
    tensor-parallel ranks each read a share of the tensors that all need, and exchange the shares.
    """

    counter_before_loading_weights: float  # An attribute of the base class, whose log prints the time.

    def __init__(self, load_config: Any) -> None:
        check_fits(_Base, "model_name_or_path subfolder revision fall_back_to_pt allow_patterns_overrides", "vLLM")
        strategy = load_config.safetensors_load_strategy
        if strategy not in (None, "lazy"):
            raise ValueError(f"safetensors_load_strategy {strategy!r} is for vLLM's own reading: leave it out with "
                             "load format 'penstock'")
        self._settings, self._together, rest = settings_of(load_config.model_loader_extra_config,
                                                           ["enable_weights_track"])
        # The base class finds the files of this format.
        load_config = copy.copy(load_config)
        load_config.load_format, load_config.model_loader_extra_config = "safetensors", rest
        super().__init__(load_config)

    def _get_weights_iterator(self, source: Any) -> Iterator[tuple[str, torch.Tensor]]:
        if self.load_config.safetensors_load_strategy == "torchao":
            _log.warning("Penstock leaves this checkpoint to vLLM's own reading, which puts torchao's tensors together")
            return super()._get_weights_iterator(source)  # type: ignore[no-any-return]
        if self.counter_before_loading_weights == 0.0:
            self.counter_before_loading_weights = time.perf_counter()
        is_unused = source.is_unused_weight or (lambda name: False)

        def is_wanted(name: str) -> bool:
            return not _experts.should_skip_weight(name, self.local_expert_ids) and not is_unused(name)

        tensors = stream(self._files_of(source), is_wanted, self._settings, _log.info,
                         _group() if self._together else None)
        return ((source.prefix + name, tensor) for name, tensor in tensors)

    def _files_of(self, source: Any) -> list[str]:
        folder, files, _, index = self._prepare_weights(source.model_or_path, source.subfolder, source.revision, False,
                                                        source.allow_patterns_overrides)
        if self._encoder_only_lm_prefixes is not None:
            files = _files.filter_mm_encoder_only_safetensors_files(
                files, folder, index, self._encoder_only_lm_prefixes, weights_mapper=self._encoder_only_weights_mapper)
        if not files:
            raise RuntimeError(f"{folder}: of its files none is left that has weights of the encoder")
        return files  # type: ignore[no-any-return]


def _group() -> Any:
    """The tensor-parallel ranks, if there is more than one."""
    ranks = client("vllm.distributed", "vLLM").get_tp_group()
    return ranks.device_group if ranks.world_size > 1 else None


@functools.cache  # vLLM may call it several times in a process.
def register() -> None:
    """Registers the load format. vLLM calls it in every process."""
    _loading.register_model_loader("penstock")(PenstockModelLoader)
