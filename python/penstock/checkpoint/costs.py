# SPDX-License-Identifier: Apache-2.0

"""What a save costs its trainer, and what is done beside it. All times of a Saver are taken here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from penstock.checkpoint.governing import Pace
from penstock.checkpoint.pieces import Piece
from penstock.checkpoint.starting import Links
from penstock.progress import Progress
from penstock.sessions import Session

NAMES_SHOWN = 3
NAME_SHOWN = 60  # Characters.
NUMBERS = 8  # Of penstock_save_costs.


@dataclass(frozen=True)
class SaveReport:
    """What a save cost. Times are in seconds, and those of what is not over grow.

    stood_s: in `save()`, the wait for the save before included. waited_s: before updates. hidden_s: the trainer went on
    while `hidden_bytes` were copied beside it. given_way_s: writers paused, added up. written_s: files were written.
    flushed_s: they were flushed and published; a save that is not durable flushes no bytes. whole_after_s: from the
    call of `save()` until the checkpoint was published; None before. copied_at_once: names of what was copied before
    `save()` returned, since it may change at any time; none where that is true of all, as of "staged".
    links: what was not written, since it did not change; None of a Saver that writes all.
    """

    folder: Path
    stood_s: float
    waited_s: float
    hidden_s: float
    hidden_bytes: int
    given_way_s: float
    written_s: float
    written_bytes: int
    flushed_s: float
    flushed_bytes: int
    whole_after_s: float | None
    copied_at_once: tuple[str, ...]
    links: Links | None = None

    def __str__(self) -> str:
        """One line, of bounded length."""
        whole = "not whole yet" if self.whole_after_s is None else f"whole after {self.whole_after_s:.3f} s"
        return (
            f"{self.folder}: stood {self.stood_s:.3f} s, waited {self.waited_s:.3f} s before updates, "
            f"{self.hidden_bytes} bytes copied in {self.hidden_s:.3f} s beside the trainer, {self.written_bytes} "
            f"written in {self.written_s:.3f} s, of which {self.given_way_s:.3f} s gave way, {self.flushed_bytes} "
            f"flushed in {self.flushed_s:.3f} s, {whole}"
            f"{_shown(self.copied_at_once)}{'' if self.links is None else f'; {self.links}'}")


def _shown(names: Sequence[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"; copied at once: {', '.join(repr(name[:NAME_SHOWN]) for name in names[:NAMES_SHOWN])}{more}"


class Costs:
    """The costs of one save while it goes on. Two threads add to times of different names."""

    def __init__(self, folder: Path, pace: Pace, session: Session, *, durable: bool) -> None:
        self.folder, self.pace, self._durable, self._began = folder, pace, durable, monotonic()
        self._session = session
        self._seconds = dict.fromkeys(("stood", "waited", "copied", "written", "flushed"), 0.0)
        self._whole_after_s: float | None = None
        self._written_bytes = self._flushed_bytes = 0
        self._copied_at_once: tuple[str, ...] = ()
        self._hidden_bytes = 0
        self.links: Links | None = None

    def tell_of_copies(self, memory: Mapping[Piece, Any], at_once: Sequence[Piece]) -> None:
        """memory: that of each copy; at_once: those that are made before `save()` returns."""
        self._copied_at_once = tuple(dict.fromkeys(piece.name for piece in at_once))
        self._hidden_bytes = sum(each.nbytes for each in memory.values()) - sum(piece.nbytes for piece in at_once)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = monotonic()
        try:
            yield
        finally:
            self._seconds[name] += monotonic() - began

    def count_stood(self) -> None:
        """Adds the call of `save()`, which has ended, to the session's statistics."""
        self._count(0, 0, self._seconds["stood"])

    def end(self, progress: Progress) -> None:
        """The checkpoint is published. Adds it to the session's statistics, but for the time that `save()` stood."""
        self._written_bytes = progress.bytes_done
        self._flushed_bytes = progress.bytes_done if self._durable else 0
        self._whole_after_s = monotonic() - self._began
        costs = self.report()
        self._count(1, costs.written_bytes, 0.0, costs.waited_s, costs.hidden_s, costs.given_way_s, costs.written_s,
                    costs.flushed_s)

    def _count(self, saves: int, nbytes: int, *seconds: float) -> None:
        """seconds: the first of those of penstock_save_costs, which has nanoseconds."""
        numbers = [saves, nbytes, *(int(each * 1e9) for each in seconds)]
        with suppress(OSError):  # A closed session counts nothing, and the save is whole.
            self._session._native.count_save(numbers + [0] * (NUMBERS - len(numbers)))

    @property
    def stopped_s(self) -> float:
        """Seconds for which the trainer did nothing else."""
        return self._seconds["stood"] + self._seconds["waited"]

    def report(self) -> SaveReport:
        took = self._seconds
        return SaveReport(
            self.folder, took["stood"], took["waited"], max(0.0, took["copied"] - took["waited"]), self._hidden_bytes,
            self.pace.given_way_s, took["written"], self._written_bytes, took["flushed"], self._flushed_bytes,
            self._whole_after_s, self._copied_at_once, self.links)
