# SPDX-License-Identifier: Apache-2.0

"""Validates times from callers. Refuses NaN, which cannot be compared."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

__all__ = ["costs_of", "interval_of", "timeout_of"]

_COST_MOST = 1e38  # Fits into a 32-bit float.


def timeout_of(timeout: float | None) -> float:
    """The timeout for native calls: below 0 for none. A negative one has passed already."""
    if timeout is None:
        return -1.0
    seconds = float(timeout)
    if math.isnan(seconds):
        raise ValueError(f"timeout={timeout!r}: expected seconds, or None for no limit")
    return max(seconds, 0.0)


def interval_of(name: str, value: float) -> float:
    """The interval between two checks."""
    seconds = float(value)
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise ValueError(f"{name}={value!r}: expected seconds, more than 0 and at most {threading.TIMEOUT_MAX:.0f}")
    return seconds


def costs_of(costs: Sequence[float], count: int) -> list[float]:
    """The costs of computing the chunks of `count` keys again."""
    numbers = [float(cost) for cost in costs]
    if len(numbers) != count:
        raise ValueError(f"costs has {len(numbers)} values for {count} keys: expected one for each")
    for i, cost in enumerate(numbers):
        if not 0 <= cost <= _COST_MOST:
            raise ValueError(f"costs[{i}]={costs[i]!r}: expected seconds, from 0 to {_COST_MOST}")
    return numbers
