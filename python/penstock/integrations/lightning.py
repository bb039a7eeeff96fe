# SPDX-License-Identifier: Apache-2.0

"""Lightning saves by `checkpoint.Saver`, beside its steps. By its own checkpoints, when and where ModelCheckpoint says:

    from penstock.integrations.lightning import SaverIO
    Trainer(plugins=[SaverIO()], callbacks=[ModelCheckpoint("checkpoints", every_n_train_steps=100)])

Or by a callback, which needs no ModelCheckpoint and no strategy's help, and goes on from the newest by itself:

    from penstock.integrations.lightning import SaverCallback
    Trainer(callbacks=[SaverCallback("checkpoints", every_n_steps=100)], enable_checkpointing=False)

Each checkpoint is a folder of `penstock.checkpoint`, and nothing in it is executed. Works with the packages `lightning`
and `pytorch_lightning`; of both, with the one that was imported first.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from penstock import checkpoint
from penstock.integrations.common import client, one_device
from penstock.integrations.randomness import random_state, set_random_state

__all__ = ["SaverCallback", "SaverIO"]

AnyPath = str | os.PathLike[str]

_RANDOM = "penstock_random"  # Our part of Lightning's checkpoint.


def _has_one_package() -> bool:
    """Whether the program uses the package `lightning`, which has both parts."""
    if "pytorch_lightning" in sys.modules or "lightning" in sys.modules:
        return "pytorch_lightning" not in sys.modules
    return find_spec("lightning") is not None


_trainer, _fabric = (("lightning.pytorch", "lightning.fabric") if _has_one_package()
                     else ("pytorch_lightning", "lightning_fabric"))
_IO: Any = client(f"{_fabric}.plugins", "Lightning").CheckpointIO
_Callback: Any = client(_trainer, "Lightning").Callback


class SaverIO(_IO):  # type: ignore[misc]
    """Saves and loads the checkpoints of a Trainer, for strategies that leave that to a plug-in. staging, options:
    those of `checkpoint.Saver`. What Lightning removes goes once the save after it is whole."""

    def __init__(self, staging: str = "staged", **options: Any) -> None:
        self._new_saver = partial(checkpoint.Saver, staging, **options)
        self._saver: checkpoint.Saver | None = self._new_saver()
        self._gone: list[Path] = []

    def save_checkpoint(self, checkpoint: dict[str, Any], path: AnyPath, storage_options: Any = None) -> None:
        """Returns when the state may change. Raises the error of the save before."""
        if storage_options is not None:
            raise TypeError(f"storage_options is {storage_options!r}: expected None, a checkpoint is a local folder")
        self._saver = self._saver or self._new_saver()
        self._saver.save(checkpoint, path)
        self._remove_gone()

    def load_checkpoint(self, path: AnyPath, map_location: Any = None, weights_only: bool | None = None) -> Any:
        """weights_only makes no difference: nothing in the folder is executed."""
        self.teardown()
        return checkpoint.load(path, one_device(map_location))

    def remove_checkpoint(self, path: AnyPath) -> None:
        self._gone.append(Path(path))

    def teardown(self) -> None:
        """Waits for the last save, and raises its error."""
        saver, self._saver = self._saver, None
        if saver is not None:
            saver.close()
        self._remove_gone()

    def _remove_gone(self) -> None:
        while self._gone:
            checkpoint.remove(self._gone.pop())


class SaverCallback(_Callback):  # type: ignore[misc]
    """Saves all that Lightning needs to go on, and the random states, into root/step-N after every so many steps; fit()
    begins with the newest there, unless it is given a ckpt_path. For one process. staging, options: those of
    `checkpoint.Saver`."""

    def __init__(self, root: AnyPath, every_n_steps: int, keep: int = 2, staging: str = "staged",
                 **options: Any) -> None:
        if every_n_steps < 1 or keep < 1:
            raise ValueError(f"every_n_steps is {every_n_steps} and keep is {keep}: expected 1 or more")
        self._root, self._every, self._keep = Path(root), every_n_steps, keep
        self._new_saver = partial(checkpoint.Saver, staging, **options)
        self._saver: checkpoint.Saver | None = None
        self._saved_at = 0
        self._random: dict[str, Any] | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage != "fit":
            return
        _check(trainer)
        newest = checkpoint.latest(self._root)
        self._saver = self._new_saver()
        if newest is not None and trainer.ckpt_path is None:
            state = checkpoint.load(newest)
            self._random, self._saved_at = state.pop(_RANDOM), state["global_step"]
            trainer._checkpoint_connector._loaded_checkpoint = state

    def on_train_batch_start(self, *_: Any) -> None:
        if self._random is not None:  # Not before, since making the loaders took numbers, too.
            set_random_state(self._random)
            self._random = None

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        step = trainer.global_step
        if step % self._every == 0 and step != self._saved_at and self._saver is not None:
            state = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
            self._saver.save({**state, _RANDOM: random_state()}, self._root / f"step-{step}")
            self._saved_at = step
            checkpoint.retain(self._root, self._keep)  # The save before is whole, and this one does not count yet.

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Waits for the last save, and raises its error."""
        saver, self._saver = self._saver, None
        if saver is not None:
            saver.close()
            checkpoint.retain(self._root, self._keep)


def _check(trainer: Any) -> None:
    if trainer.world_size > 1:
        raise ValueError(f"SaverCallback saves the state of one process, and this Trainer has {trainer.world_size}: "
                         "use SaverIO where each rank has the whole state, else torch.distributed.checkpoint with "
                         "penstock.checkpoint.distributed.Writer")
    connector = getattr(trainer, "_checkpoint_connector", None)
    if not hasattr(connector, "dump_checkpoint") or not hasattr(connector, "_loaded_checkpoint"):
        raise RuntimeError("this Lightning resumes otherwise than SaverCallback was written for: use SaverIO, or "
                           "release 2.6")
