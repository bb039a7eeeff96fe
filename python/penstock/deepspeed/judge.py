# SPDX-License-Identifier: Apache-2.0

"""DeepSpeed's own verdict on a configuration, by its classes, if it is installed."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
from dataclasses import dataclass
from importlib import metadata
from typing import Any

ZERO = "zero_optimization"


@dataclass(frozen=True)
class Refusals:
    """Why DeepSpeed refuses a configuration, by the full name of the key. `failure`: why its classes could not be
    called (DeepSpeed's log may say more); "" if they were."""

    version: str
    by_key: dict[str, str]
    failure: str = ""


def refusals(root: dict[str, Any]) -> Refusals | None:
    """None if DeepSpeed is not installed. Its import takes seconds, and uses no GPU."""
    if importlib.util.find_spec("deepspeed") is None:
        return None
    silence = io.StringIO()  # DeepSpeed logs to standard output, which may have to be JSON.
    with contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        try:
            return _ask(root)
        except Exception as error:  # A broken installation of DeepSpeed, torch or CUDA may raise anything on import.
            return Refusals("", {}, f"{type(error).__name__}: {error}")


def _ask(root: dict[str, Any]) -> Refusals:
    from pydantic import ValidationError

    model = importlib.import_module("deepspeed.runtime.zero.config").DeepSpeedZeroConfig
    checkpoint = importlib.import_module("deepspeed.runtime.model_checkpointing.config")
    refused: dict[str, str] = {}
    try:
        if isinstance(zero := root.get(ZERO, {}), dict):
            model(**zero)
    except ValidationError as error:
        for each in error.errors():
            refused[".".join([ZERO, *(str(word) for word in each["loc"])])] = each["msg"]
    try:
        checkpoint.get_checkpoint_config(root)
    except (AssertionError, AttributeError, TypeError) as error:
        refused["checkpoint"] = str(error)
    return Refusals(metadata.version("deepspeed"), refused)
