# SPDX-License-Identifier: Apache-2.0

"""The states of the random numbers of Python, numpy and torch, as plain data that a checkpoint can hold."""

from __future__ import annotations

import random
import sys
from typing import Any


def random_state() -> dict[str, Any]:
    import torch

    state: dict[str, Any] = {"python": random.getstate(), "cpu": torch.get_rng_state()}
    if "numpy" in sys.modules:
        state["numpy"] = sys.modules["numpy"].random.get_state()
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """state: of `random_state()`, as it was or as `checkpoint.load()` returned it, with tensors in the CPU's memory.
    States of other GPUs than this process sees are left out."""
    import torch

    random.setstate(state["python"])
    torch.set_rng_state(state["cpu"])
    if "numpy" in state:
        import numpy

        kind, words, *rest = state["numpy"]
        numpy.random.set_state((kind, numpy.asarray(words), *rest))
    if torch.cuda.is_available():
        for device, each in enumerate(state.get("cuda", [])[:torch.cuda.device_count()]):
            torch.cuda.set_rng_state(each, device)
