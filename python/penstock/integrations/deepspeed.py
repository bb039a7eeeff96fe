# SPDX-License-Identifier: Apache-2.0

"""DeepSpeed saves and loads by `penstock.checkpoint`:

    from penstock.integrations.deepspeed import CheckpointEngine
    engine, *_ = deepspeed.initialize(...)
    engine.checkpoint_engine = CheckpointEngine()
    engine.save_checkpoint("checkpoints")       # As ever; engine.load_checkpoint("checkpoints"), too.

Each file of DeepSpeed's is a folder of `penstock.checkpoint` by the same name, whole and on the disk before DeepSpeed
writes `latest`. What is no plain data, as its loss scaler, is pickled, as DeepSpeed's own engines do: load checkpoints
from those alone whom you trust. Scripts that open the files by torch.load, as zero_to_fp32.py, cannot read them.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import Any

from penstock import checkpoint
from penstock.integrations.common import client, one_device

__all__ = ["CheckpointEngine"]

_Base: Any = client("deepspeed.runtime.checkpoint_engine.checkpoint_engine", "DeepSpeed").CheckpointEngine

_PICKLED = "penstock_pickled"
_PLAIN = (bool, int, float, str, bytes, type(None))


class CheckpointEngine(_Base):  # type: ignore[misc]
    """options: those of `checkpoint.save`. DeepSpeed waits for each save, since it writes `latest` right behind it."""

    def __init__(self, config_params: Any = None, **options: Any) -> None:
        super().__init__(config_params)
        self.name, self._options = "PenstockCheckpointEngine", options

    def create(self, info: Any) -> None:
        """Nothing is made ahead."""

    def save(self, state_dict: Any, path: str) -> None:
        checkpoint.save(_plain(state_dict), path, **self._options)

    def load(self, path: str, map_location: Any = None) -> Any:
        """map_location: a device; a function, since DeepSpeed passes none but the one for the CPU, stands for that."""
        return _with_objects(checkpoint.load(path, one_device("cpu" if callable(map_location) else map_location)))

    def commit(self, info: Any) -> bool:
        """Each file was whole when its save returned."""
        return True

    def preserves_storage_sharing(self) -> bool:
        """False: parts of larger tensors are saved without the rest, and need not be cloned first."""
        return False


def _plain(value: Any) -> Any:
    if type(value) in (dict, OrderedDict):
        return {key: _plain(each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if type(value) in _PLAIN or (hasattr(value, "shape") and hasattr(value, "dtype")):
        return value
    return {_PICKLED: pickle.dumps(value)}


def _with_objects(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_PICKLED}:
            return pickle.loads(value[_PICKLED])
        return {key: _with_objects(each) for key, each in value.items()}
    return type(value)(map(_with_objects, value)) if type(value) in (list, tuple) else value
