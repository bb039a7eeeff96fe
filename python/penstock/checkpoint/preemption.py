# SPDX-License-Identifier: Apache-2.0

"""A guard for jobs whose machine may be taken away: spot instances, SLURM, Kubernetes.

    with Guard("checkpoints", budget_s=30, notices=[notices.Aws()]) as guard:
        for batch in batches:
            train(batch)
            if guard.is_noticed:
                print(guard.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}))
                break

and in the next process `resume("checkpoints")`. The guide is docs/guide/preemption.md.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from penstock.checkpoint import notices
from penstock.checkpoint.forecasts import Forecast, PartForecast, Rates, forecast, format_bytes, nbytes_of
from penstock.checkpoint.ids import new_lease
from penstock.checkpoint.leftovers import is_over
from penstock.checkpoint.notices import Answer, Source
from penstock.checkpoint.parts import Generation, begin, check_names, discard, resume, retain
from penstock.checkpoint.states import save as save_state
from penstock.checkpoint.verifying import verify
from penstock.folders import make_folder
from penstock.sessions import Session
from penstock.threads import Event

__all__ = ["Forecast", "Generation", "Guard", "Notice", "PartForecast", "PartReport", "Report", "notices", "resume"]

RATES = "rates.json"
DRILL = ".drill-"

log = logging.getLogger("penstock.checkpoint")


@dataclass(frozen=True)
class Notice:
    """A notice that the machine goes: its source, its time, and the deadline for a save. Times are by the guard's
    clock."""

    source: str
    at: float
    deadline: float


@dataclass(frozen=True)
class PartReport:
    """outcome: "saved", "skipped" or "failed"; reason says why for the last two."""

    name: str
    outcome: str
    nbytes: int = 0
    seconds: float = 0.0
    reason: str = ""

    def __str__(self) -> str:
        return (f"{self.name}: {self.outcome}, {format_bytes(self.nbytes)} in {self.seconds:.1f} s"
                + (f": {self.reason}" if self.reason else ""))


@dataclass(frozen=True)
class Report:
    """The result of a save. seconds_since_notice, seconds_left: at its end, None without a notice."""

    folder: Path | None  # The generation's folder, if any part was saved.
    notice: Notice | None
    seconds_since_notice: float | None
    seconds_left: float | None
    parts: tuple[PartReport, ...]

    @property
    def saved(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts if part.outcome == "saved")

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts if part.outcome != "saved")

    def __str__(self) -> str:
        said = f"saved {len(self.saved)} of {len(self.parts)} parts" + (f" to {self.folder}" if self.folder else "")
        if self.notice is not None:
            said += f", {self.seconds_since_notice:.1f} s after {self.notice.source}"
            said += f"; {self.seconds_left:.1f} s are left"
        return "\n  ".join([said, *map(str, self.parts)])


class Guard:
    """Receives notices that the machine will be taken away, and saves within the time left.

    root: the folder of generations, to which one process saves. budget_s: the most seconds from a notice to the end of
    a save; a notice with a time can shorten it, but never extend it. notices: further sources, from `notices`, or any
    callable (see there). signals: signals that count as a notice, handled on the main thread while the guard is
    entered. keep: how many complete generations stay when one is saved without a notice.
    """

    def __init__(self, root: str | os.PathLike[str], *, budget_s: float = 30.0, notices: Iterable[Source] = (),
                 signals: Iterable[signal.Signals] = (signal.SIGTERM,), poll_s: float = 2.0, keep: int = 2,
                 session: Session | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        for name, value in (("budget_s", budget_s), ("poll_s", poll_s)):
            if not 0 < value < float("inf"):
                raise ValueError(f"{name} is {value}: expected seconds, more than 0")
        if keep < 1:
            raise ValueError(f"keep is {keep}: expected 1 at least")
        self._signals = [signal.Signals(number) for number in signals]
        if {signal.SIGKILL, signal.SIGSTOP} & set(self._signals):
            raise ValueError("signals has SIGKILL or SIGSTOP, which no process can take: leave them out")
        self.root = Path(root)
        self.budget_s = budget_s
        self._sources, self._poll_s, self._keep = list(notices), poll_s, keep
        wrong = [source for source in self._sources if not callable(source)]
        if wrong:
            raise ValueError(f"notices has {wrong[0]!r}: expected callables, such as notices.Aws()")
        self._session, self._clock = session, clock
        self._rates = Rates(self.root / RATES)
        self._told: list[Notice] = []  # The first one counts. A list, since a signal handler must not take a lock.
        self._received: set[int] = set()
        self._previous: dict[int, Any] = {}
        self._stop: Event | None = None
        self._pid = os.getpid()
        self._group: Any = None
        self._calls = 0
        self._is_agreed = False

    # ---- Learning of it ----

    @property
    def notice(self) -> Notice | None:
        """The first notice of this process."""
        return self._told[0] if self._told else None

    @property
    def is_noticed(self) -> bool:
        """Whether this process has a notice. With several ranks, use `agree`."""
        return bool(self._told)

    @property
    def seconds_left(self) -> float | None:
        """Seconds left of the budget; None without a notice."""
        return None if self.notice is None else self.notice.deadline - self._clock()

    def agree(self, every: int = 1) -> bool:
        """Whether any rank has a notice: the same result on all ranks, which all must call it at each step.

        Ranks communicate at every `every`-th call, by an all_reduce of 8 bytes on the CPU over gloo. Without
        torch.distributed it returns `is_noticed`.
        """
        if every < 1:
            raise ValueError(f"every is {every}: expected 1 at least")
        torch = sys.modules.get("torch")
        if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
            return self.is_noticed
        self._calls += 1
        if not self._is_agreed and self._calls % every == 0:
            self._ask_ranks(torch)
        return self._is_agreed

    def _ask_ranks(self, torch: Any) -> None:
        ranks = torch.distributed
        if self._group is None:
            self._group = ranks.new_group(backend="gloo")
        left = self.seconds_left
        worst = torch.tensor([-float("inf") if left is None else -left], dtype=torch.float64)
        ranks.all_reduce(worst, ranks.ReduceOp.MAX, group=self._group)
        if worst.item() > -float("inf"):
            self._is_agreed = True
            now = self._clock()
            self._tell(Notice("a notice of another rank", now, now - worst.item()))

    def _tell(self, notice: Notice) -> None:
        if not self._told:
            self._told.append(notice)

    def _heard(self, source: str, left: float | None = None) -> None:
        """left: the seconds that the notice names. A time in the past is ignored: clocks differ, and the machine still
        runs."""
        now = self._clock()
        self._tell(Notice(source, now, now + (min(left, self.budget_s) if left and left > 0 else self.budget_s)))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # A forked process, such as a DataLoader's, ends as without the guard.
            signal.signal(number, self._previous.get(number, signal.SIG_DFL))
            os.kill(os.getpid(), number)
            return
        self._received.add(number)
        self._heard(signal.Signals(number).name)

    def _poll(self, source: Source, stop: Event) -> None:
        name = getattr(source, "__qualname__", None) or str(source)
        is_quiet = False
        while not self.is_noticed:
            try:
                answer = _checked(source())
                if answer is not None and answer is not False:
                    self._heard(name, None if answer is True else answer)
            except Exception as error:  # A caller's source may raise anything; training continues.
                if not is_quiet:
                    log.warning("%s failed: %s. It was asked whether this machine will be taken away, and is asked "
                                "again every %g s; further failures are not logged; leave it out of notices "
                                "where it does not exist",
                                name, str(error) or type(error).__name__, self._poll_s)
                is_quiet = True
            if stop.wait(self._poll_s):
                return

    def __enter__(self) -> Guard:
        if self._stop is not None:
            raise RuntimeError("this guard is entered already: make another one")
        if self._signals and threading.current_thread() is not threading.main_thread():
            raise RuntimeError("signals can be taken on the main thread alone: enter the guard there, or give it "
                               "signals=() and notices")
        for number in self._signals:
            if signal.getsignal(number) is None:
                raise RuntimeError(f"{number.name} has a handler that is not Python's, which could not be put back: "
                                   "leave it out of signals")
        self._pid = os.getpid()
        self._stop = Event()
        for number in self._signals:
            self._previous[number] = signal.signal(number, self._on_signal)
        for source in self._sources:
            threading.Thread(target=self._poll, args=(source, self._stop), name="penstock-notice", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Restores the signal handlers, and then calls those whose signal came meanwhile."""
        if self._stop is not None:
            self._stop.set()
        self._stop = None
        previous, self._previous = self._previous, {}
        for number, handler in previous.items():
            signal.signal(number, handler)
        received, self._received = self._received, set()
        for number in sorted(received):
            if callable(previous[number]) and previous[number] is not signal.default_int_handler:
                previous[number](number, None)

    # ---- Saving ----

    def save(self, parts: Mapping[str, Any]) -> Report:
        """Saves a new generation. parts: states as `penstock.checkpoint.save` takes them, in order of worth.

        After a notice, a part that would not fit into the time left, judged by earlier saves, is skipped; failures are
        in the report, and logged. Without a notice all parts are saved, or the first failure is raised, and nothing is
        left of the generation. A part that has begun continues when the time is over.
        """
        states = dict(parts)
        names = check_names(states)
        try:
            folder = begin(self.root, names)
        except OSError as error:
            if not self.is_noticed:
                raise
            return self._reported(None, [self._failed(name, 0, 0.0, error) for name in names])
        done: list[PartReport] = []
        try:
            for name in names:
                done.append(self._save_part(folder, name, states[name]))
        except Exception:
            discard(folder)
            raise
        is_saved = [part.outcome == "saved" for part in done]
        if not any(is_saved):
            discard(folder)
            return self._reported(None, done)
        report = self._reported(folder, done)
        self._rates.keep()
        if all(is_saved) and not self.is_noticed:
            retain(self.root, self._keep)
        return report

    def _save_part(self, folder: Path, name: str, state: Any) -> PartReport:
        nbytes, began = 0, self._clock()
        try:
            nbytes = nbytes_of(state)
            reason = self._reason_to_skip(self._rates.seconds(name, nbytes))
            if reason:
                return PartReport(name, "skipped", nbytes, 0.0, reason)
            save_state(state, folder / name, session=self._session)
        except Exception as error:
            if not self.is_noticed:
                raise
            return self._failed(name, nbytes, self._clock() - began, error)
        seconds = self._clock() - began
        self._rates.note(name, nbytes, seconds)
        return PartReport(name, "saved", nbytes, seconds)

    def _reason_to_skip(self, seconds: float | None) -> str:
        left = self.seconds_left
        if left is None or (left > 0 and (seconds is None or seconds <= left)):
            return ""
        if left <= 0:
            return f"no time is left of {self.budget_s:g} s"
        return (f"by earlier saves it would take {seconds:.1f} s, and {left:.1f} s are left of {self.budget_s:g} s: "
                "make the state shorter, save to a faster drive, or have a larger budget_s")

    @staticmethod
    def _failed(name: str, nbytes: int, seconds: float, error: Exception) -> PartReport:
        reason = str(error) or type(error).__name__
        log.error("part %s was not saved: %s", name, reason)
        return PartReport(name, "failed", nbytes, seconds, reason)

    def _reported(self, folder: Path | None, parts: Sequence[PartReport]) -> Report:
        notice, left = self.notice, self.seconds_left
        return Report(folder, notice, None if notice is None else self._clock() - notice.at, left, tuple(parts))

    # ---- Knowing beforehand ----

    def forecast(self, parts: Mapping[str, Any]) -> Forecast:
        """Which of the parts fit into the budget, judged by earlier saves to this folder; nothing is written."""
        check_names(parts)
        sizes = {name: nbytes_of(state) for name, state in parts.items()}
        return forecast(self.budget_s, {name: (size, self._rates.seconds(name, size)) for name, size in sizes.items()})

    def drill(self, parts: Mapping[str, Any]) -> Forecast:
        """Saves the parts to a separate folder in root, verifies and removes them, and returns their times.

        Raises OSError (ENOSPC) before the first byte if the file system lacks space, and the errors of a save.
        """
        names = check_names(parts)
        make_folder(self.root)
        self._remove_old_drills()
        sizes = {name: nbytes_of(parts[name]) for name in names}
        total, free = sum(sizes.values()), shutil.disk_usage(self.root).free
        if total > free:
            raise OSError(errno.ENOSPC, f"the drill takes {total} bytes, of which {free} are free: nothing was written."
                          " Remove older checkpoints, or name another folder", str(self.root))
        folder = Path(tempfile.mkdtemp(prefix=DRILL, dir=self.root))
        took: dict[str, tuple[int, float | None]] = {}
        lease = new_lease(folder)
        try:
            for name in names:
                began = self._clock()
                save_state(parts[name], folder / name, session=self._session)
                took[name] = sizes[name], self._clock() - began
                verify(folder / name, session=self._session)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            lease.close()
        for name, (nbytes, seconds) in took.items():
            self._rates.note(name, nbytes, seconds or 0.0)
        self._rates.keep()
        return forecast(self.budget_s, took)

    def _remove_old_drills(self) -> None:
        for folder in self.root.glob(f"{DRILL}*"):
            if not folder.is_symlink() and is_over(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _checked(answer: Any) -> Answer:
    if answer is None or isinstance(answer, (bool, int, float)):
        return answer
    raise TypeError(f"it gave {answer!r:.80}: expected None, True, False or the seconds that are left")
