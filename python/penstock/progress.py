# SPDX-License-Identifier: Apache-2.0

"""Progress of a plan, a save, a copy or any other requests, by one or several threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from penstock._native import Report


@dataclass(repr=False)
class Progress:
    """Progress of a plan, a save or other requests: bytes moved and to move, seconds, bytes by path, those for which a
    better path was refused by the reason, and how many bypassed the page cache by direct I/O. Prints as a sentence."""

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

    @property
    def path(self) -> str | None:
        """The path that moved the most bytes; None before the first."""
        return max(self.bytes_by_path, key=self.bytes_by_path.__getitem__, default=None)

    @property
    def reason(self) -> str | None:
        """The reason for which a better path was refused to the most bytes; None where the best path moved all."""
        return max(self.bytes_by_reason, key=self.bytes_by_reason.__getitem__, default=None)

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

    def __repr__(self) -> str:
        return f"<penstock.Progress: {self}>"


def _add(sums: dict[str, int], counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        sums[name] = sums.get(name, 0) + count


OnProgress = Callable[[Progress], None]


class Meter:
    """Counts what requests of any threads move, and the seconds in which at least one was under way."""

    def __init__(self) -> None:
        self._moved, self._lock, self._under_way, self._since = Progress(0), threading.Lock(), 0, 0.0

    def __enter__(self) -> None:
        """For requests whose bytes are counted elsewhere."""
        self.begin()

    def __exit__(self, *_: object) -> None:
        self.end({}, {})

    def begin(self) -> None:
        with self._lock:
            self._under_way += 1
            if self._under_way == 1:
                self._since = time.monotonic()

    def end(self, by_path: Mapping[str, int], by_reason: Mapping[str, int], direct: int = 0) -> None:
        """Ends a request, which moved so many bytes."""
        with self._lock:
            moved = self._moved
            moved.bytes_done += sum(by_path.values())
            moved.bytes_direct += direct
            _add(moved.bytes_by_path, by_path)
            _add(moved.bytes_by_reason, by_reason)
            self._under_way -= 1
            if self._under_way == 0:
                moved.seconds += time.monotonic() - self._since

    def end_with(self, report: Report | None) -> None:
        """The same, for a request with a report, or that failed."""
        if report is None:
            self.end({}, {})
        else:
            self.end(report.bytes_by_path, {report.reason: report.bytes} if report.reason else {}, report.direct_bytes)

    def progress(self) -> Progress:
        """A copy, in which the bytes to move are those that were moved."""
        with self._lock:
            moved = self._moved
            running = time.monotonic() - self._since if self._under_way else 0.0
            return replace(moved, bytes_total=moved.bytes_done, seconds=moved.seconds + running,
                           bytes_by_path=dict(moved.bytes_by_path), bytes_by_reason=dict(moved.bytes_by_reason))


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
