# SPDX-License-Identifier: Apache-2.0

"""Whether to load chunks or to compute them, by what gets took lately."""

from __future__ import annotations

import threading

__all__ = ["Decisions"]

_TRIED = 0.01  # Tries take no more than this share of the time that computing takes.


class Decisions:
    """Answers, and counts the answers by their reason. Thread-safe.

    Only a get can tell that a drive has become faster. So where computing is, it loads now and then all the same: once
    the time that this takes longer is `_TRIED` of what computing has taken since the last try.
    """

    def __init__(self) -> None:
        self.counts = dict.fromkeys(("get_is_faster", "get_is_slower", "not_measured", "tried_again"), 0)
        self._for_a_try_s = 0.0
        self._lock = threading.Lock()

    def is_get(self, get_s: float | None, compute_s: float) -> bool:
        """get_s: the forecast, or None where nothing was measured."""
        with self._lock:
            reason = self._reason(get_s, compute_s)
            self.counts[reason] += 1
        return reason != "get_is_slower"

    def _reason(self, get_s: float | None, compute_s: float) -> str:
        if get_s is None:
            return "not_measured"
        if get_s < compute_s:
            return "get_is_faster"
        self._for_a_try_s += _TRIED * compute_s
        if get_s - compute_s > self._for_a_try_s:
            return "get_is_slower"
        self._for_a_try_s = 0.0
        return "tried_again"
