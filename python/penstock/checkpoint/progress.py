# SPDX-License-Identifier: Apache-2.0

"""How far several threads are together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock._native import Report
from penstock.weights.plan import Progress

OnProgress = Callable[[Progress], None]


class Shared:
    """Thread-safe. `on_progress` is called by one thread at a time."""

    def __init__(self, total: int, on_progress: OnProgress | None) -> None:
        self.progress, self._on_progress = Progress(total), on_progress
        self._lock, self._began = threading.Lock(), time.monotonic()

    def count(self, report: Report | None = None) -> None:
        with self._lock:
            self.progress.count(report, time.monotonic() - self._began)
            if self._on_progress is not None:
                self._on_progress(self.progress)
