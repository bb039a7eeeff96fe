# SPDX-License-Identifier: Apache-2.0

"""Progress of a plan, a save or a copy, by one or several threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock._native import Report


@dataclass
class Progress:
    """Progress of a plan or a save: bytes moved and to move, seconds since it began, bytes by path, those for which a
    better path was refused by the reason, and how many bypassed the page cache by direct I/O."""

    bytes_total: int
    bytes_done: int = 0
    seconds: float = 0.0
    bytes_by_path: dict[str, int] = field(default_factory=dict)
    bytes_direct: int = 0
    bytes_by_reason: dict[str, int] = field(default_factory=dict)

    @property
    def gb_per_s(self) -> float:
        """Average rate in 10^9 bytes a second."""
        return self.bytes_done / 1e9 / self.seconds if self.seconds > 0 else 0.0

    def count(self, report: Report | None, seconds: float) -> None:
        self.seconds = seconds
        if report is None:
            return
        self.bytes_done += report.bytes
        self.bytes_direct += report.direct_bytes
        _add(self.bytes_by_path, report.bytes_by_path)
        if report.reason is not None:
            _add(self.bytes_by_reason, {report.reason: report.bytes})

    def add(self, part: Progress) -> None:
        """Adds what has been moved elsewhere, before or behind this."""
        self.bytes_done += part.bytes_done
        self.bytes_direct += part.bytes_direct
        self.seconds += part.seconds
        _add(self.bytes_by_path, part.bytes_by_path)
        _add(self.bytes_by_reason, part.bytes_by_reason)

    def __str__(self) -> str:
        paths = [f"{moved} by path {path}" for path, moved in self.bytes_by_path.items()]
        reasons = [f"{moved} not by a better path: {reason}" for reason, moved in self.bytes_by_reason.items()]
        return f"{self.bytes_done} bytes in {self.seconds:.2f} s ({self.gb_per_s:.2f} GB/s): " + \
            (", ".join([*paths, *reasons]) or "no bytes moved")


def _add(sums: dict[str, int], counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        sums[name] = sums.get(name, 0) + count


OnProgress = Callable[[Progress], None]


class Shared:
    """A thread-safe progress counter. One thread at a time calls `on_progress`."""

    def __init__(self, total: int, on_progress: OnProgress | None) -> None:
        self.progress, self._on_progress = Progress(total), on_progress
        self._lock, self._began = threading.Lock(), time.monotonic()

    def count(self, report: Report | None = None) -> None:
        with self._lock:
            self.progress.count(report, time.monotonic() - self._began)
            if self._on_progress is not None:
                self._on_progress(self.progress)
