# SPDX-License-Identifier: Apache-2.0

"""Transformers' Trainer saves by `checkpoint.Saver`, beside its steps, and goes on from what was saved:

    from penstock.integrations.trainer import SaverCallback
    saving = SaverCallback()
    trainer = Trainer(model, args, train_dataset=data, callbacks=[saving])
    saving.train(trainer)      # From the newest checkpoint in args.output_dir, or from the beginning.

When it saves and how many checkpoints stay is said by Trainer's own arguments: save_strategy, save_steps and
save_total_limit. A checkpoint has the model, the optimizer, the scheduler, the scaler, the random states and Trainer's
state, and is a folder of `penstock.checkpoint`, which `Trainer.train(resume_from_checkpoint=...)` by itself does not
read. For one process; ranks save by torch.distributed.checkpoint.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from penstock import checkpoint
from penstock.integrations.common import client
from penstock.integrations.randomness import random_state, set_random_state

__all__ = ["SaverCallback"]

_callbacks = client("transformers.trainer_callback", "Transformers")
_Base: Any = _callbacks.TrainerCallback

_LOADS = ("_load_from_checkpoint", "_load_optimizer_and_scheduler", "_load_scaler", "_load_rng_state")
_NOT_SERVED = {"load_best_model_at_end": False, "save_only_model": False, "push_to_hub": False}


class SaverCallback(_Base):  # type: ignore[misc]
    """Takes over the saves of one Trainer. staging, options: those of `checkpoint.Saver`."""

    def __init__(self, staging: str = "staged", **options: Any) -> None:
        self._new_saver = partial(checkpoint.Saver, staging, **options)
        self._saver: checkpoint.Saver | None = None
        self._trainer: Any = None

    def train(self, trainer: Any, **options: Any) -> Any:
        """In place of `trainer.train()`, to which the options go: resumes from the newest checkpoint in its output_dir.
        Returns when the last save is whole. Raises ValueError for what cannot be served, and the errors of saves."""
        _check(trainer)
        newest = checkpoint.latest(trainer.args.output_dir)
        with self._new_saver() as self._saver:
            self._trainer = trainer
            if newest is None:
                done = trainer.train(**options)
            else:
                with _resuming(trainer, checkpoint.load(newest)) as folder:
                    done = trainer.train(resume_from_checkpoint=folder, **options)
        self._retain()
        return done

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._saver is None:
            raise RuntimeError("SaverCallback saves nothing by itself: call SaverCallback.train(trainer) in place of "
                               "trainer.train()")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._take_over(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._take_over(control)

    def _take_over(self, control: Any) -> None:
        if control.should_save and self._saver is not None:
            control.should_save = False
            folder = Path(self._trainer.args.output_dir) / f"checkpoint-{self._trainer.state.global_step}"
            self._saver.save(_state_of(self._trainer), folder)
            self._retain()  # The save before is whole, and this one does not count yet.

    def _retain(self) -> None:
        keep = self._trainer.args.save_total_limit
        if keep:
            checkpoint.retain(self._trainer.args.output_dir, keep)


def _check(trainer: Any) -> None:
    args = trainer.args
    if args.world_size > 1 or trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        raise ValueError("SaverCallback saves the state of one process, and this Trainer has several, FSDP or "
                         "DeepSpeed: save by torch.distributed.checkpoint with penstock.checkpoint.distributed.Writer")
    if args.save_strategy == "best":
        raise ValueError("save_strategy is 'best', which Trainer decides behind its callbacks: expected 'steps' or "
                         "'epoch'")
    for name, served in _NOT_SERVED.items():
        if getattr(args, name) != served:
            raise ValueError(f"{name} is {getattr(args, name)}, which needs Trainer's own files: expected {served}")
    lacking = [name for name in _LOADS if not hasattr(trainer, name)]
    if lacking:
        raise RuntimeError(f"this Transformers' Trainer resumes otherwise than SaverCallback was written for: it lacks "
                           f"{', '.join(lacking)}. Use release 5")


def _state_of(trainer: Any) -> dict[str, Any]:
    exported: dict[str, Any] = {}
    for each in [*trainer.callback_handler.callbacks, trainer.control]:
        if isinstance(each, _callbacks.ExportableState):
            exported.setdefault(type(each).__name__, []).append(each.state())
    said = {**asdict(trainer.state), "stateful_callbacks": {
        name: states if len(states) > 1 else states[0] for name, states in exported.items()}}
    scaler = getattr(trainer.accelerator, "scaler", None)
    return {"model": trainer.model.state_dict(), "optimizer": trainer.optimizer.state_dict(),
            "scheduler": trainer.lr_scheduler.state_dict(), "scaler": None if scaler is None else scaler.state_dict(),
            "random": random_state(), "trainer": json.dumps(said)}


@contextmanager
def _resuming(trainer: Any, state: dict[str, Any]) -> Iterator[str]:
    """Trainer resumes from a folder with its own state alone; what it loads from files else is put in its place, and
    then let go."""
    def model(*_: Any, **__: Any) -> None:
        trainer.model.load_state_dict(state.pop("model"))

    def optimizer(*_: Any) -> None:
        trainer.optimizer.load_state_dict(state.pop("optimizer"))
        trainer.lr_scheduler.load_state_dict(state.pop("scheduler"))

    def scaler(*_: Any) -> None:
        if state["scaler"] is not None and trainer.accelerator.scaler is not None:
            trainer.accelerator.scaler.load_state_dict(state["scaler"])

    def numbers(*_: Any) -> None:
        set_random_state(state["random"])

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        (Path(folder) / "trainer_state.json").write_text(state["trainer"])
        for name, load in zip(_LOADS, (model, optimizer, scaler, numbers), strict=True):
            stack.enter_context(mock.patch.object(trainer, name, load))
        yield folder
