# SPDX-License-Identifier: Apache-2.0

"""The loader behind SGLang's load format "penstock": SGLang's own, except for the reading.

A program may pass it as it is: `sglang.Engine(model_path=..., load_format=PenstockModelLoader)`.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.integrations.common import check_fits, client, settings_of, stream

if TYPE_CHECKING:
    import torch

__all__ = ["PenstockModelLoader"]

_formats = client("sglang.srt.configs.load_config", "SGLang")
_loading = client("sglang.srt.model_loader.loader", "SGLang")
_Base: Any = _loading.DefaultModelLoader
_log = logging.getLogger("sglang.penstock")


class PenstockModelLoader(_Base):  # type: ignore[misc]
    """Reads safetensors files with Penstock, to the GPU of this process.

    model_loader_extra_config takes Penstock's settings, and `together`: if true, tensor-parallel ranks each read a
    share of the tensors that all need, and exchange the shares.
    """

    counter_before_loading_weights: float  # An attribute of the base class, whose log prints the time.

    def __init__(self, load_config: Any) -> None:
        check_fits(_Base, "model_name_or_path revision fall_back_to_pt allow_patterns_overrides", "SGLang")
        self._settings, self._together, _ = settings_of(load_config.model_loader_extra_config or {})
        # The base class finds the files of this format.
        load_config = copy.copy(load_config)
        load_config.load_format, load_config.model_loader_extra_config = _formats.LoadFormat.SAFETENSORS, {}
        super().__init__(load_config)

    def _get_weights_iterator(self, source: Any, *, resolved_source: Any = None,
                              **_prefetching: bool) -> Iterator[tuple[str, torch.Tensor]]:
        if self.counter_before_loading_weights == 0.0:
            self.counter_before_loading_weights = time.perf_counter()
        files = self._files_of(source) if resolved_source is None else resolved_source.weight_files
        tensors = stream(files, lambda name: True, self._settings, _log.info, _group() if self._together else None)
        if self.load_config.draft_model_idx is not None:
            return self._filter_mtp_weights(  # type: ignore[no-any-return]
                tensors, source.prefix, self.load_config.draft_model_idx)
        return ((source.prefix + name, tensor) for name, tensor in tensors)

    def _files_of(self, source: Any) -> list[str]:
        folder, files, _ = self._prepare_weights(source.model_or_path, source.revision, False,
                                                 source.allow_patterns_overrides)
        if source.model_config is not None:
            files = _loading.maybe_add_mtp_safetensors(files, folder, _loading.SAFE_WEIGHTS_INDEX_NAME,
                                                       source.model_config.hf_config)
        return files  # type: ignore[no-any-return]


def _group() -> Any:
    """The tensor-parallel ranks, if there is more than one."""
    ranks = client("sglang.srt.distributed", "SGLang").get_tp_group()
    return ranks.device_group if ranks.world_size > 1 else None
