# SPDX-License-Identifier: Apache-2.0

"""Saves in the background of a trainer, and how long it waited for them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from penstock.checkpoint.changes import begin_with_links
from penstock.checkpoint.copying import Copying
from penstock.checkpoint.costs import Costs, SaveReport
from penstock.checkpoint.governing import Governor, Pace
from penstock.checkpoint.hostcopies import HostCopies
from penstock.checkpoint.pieces import Described, Piece, sources_of
from penstock.checkpoint.starting import Start
from penstock.checkpoint.states import Save, described
from penstock.checkpoint.storing import writers_beside
from penstock.checkpoint.trees import taken_apart
from penstock.checkpoint.updates import Held, Steps
from penstock.progress import OnProgress, Progress
from penstock.sessions import Session, default_session
from penstock.threads import Later

STAGINGS = ("staged", "windowed", "overlapped")

log = logging.getLogger("penstock.checkpoint")


Make = Callable[..., Save]
Rest = Callable[[], Progress]  # What is left to a thread of its own.


class Saving:
    """A save in the background. stopped_s: how long the trainer waited for it, including for the previous save; it
    grows with waits before updates, but not with those of a GPU alone.
    staged_bytes: host memory with a copy of the state; it is kept for the next save."""

    def __init__(self, costs: Costs, staged_bytes: int, save: Later[Progress]) -> None:
        self.folder, self.staged_bytes = costs.folder, staged_bytes
        self._costs, self._save, self._is_told = costs, save, False

    @property
    def stopped_s(self) -> float:
        return self._costs.stopped_s

    def result(self, timeout: float | None = None) -> Progress:
        """Waits for its end, and returns the bytes by path. Bytes that are not `bytes_direct` are also in the page
        cache.

        Raises the save's error, and TimeoutError.
        """
        try:
            return self._save.result(timeout)
        finally:
            self._is_told = self._save.done()

    def done(self) -> bool:
        return self._save.done()

    def __repr__(self) -> str:
        return f"<penstock.checkpoint.Saving: {self.folder}, {'ended' if self.done() else 'under way'}>"

    def _tell(self) -> None:
        """Waits, and raises an error that was not raised before."""
        error = self._save.error()
        if error is not None and not self._is_told:
            self._is_told = True
            raise error


class Saver:
    """Saves states one after the other, in the background of a trainer.

    staging: "staged" copies the state to host memory, which is kept; the trainer waits only for that copy. "windowed"
    writes the files while the trainer waits, through the session's bounce buffers, and flushes and publishes later: it
    needs no further memory. "overlapped" copies what changes in updates alone beside the trainer, which waits before
    its next update for what is not copied by then, on a GPU without its processor: see `before_update`.
    device_budget_mib: memory of each GPU to set aside what the next update would have to wait for. changed_only: writes
    what differs from the newest checkpoint beside the folder that this process saved, and links its files for the rest;
    where that cannot be, the report says why. A GPU makes the checksums for that, and the trainer waits until it has.
    """

    def __init__(self, staging: str = "staged", *, session: Session | None = None, durable: bool = True,
                 direct: bool | None = None, device_budget_mib: int = 0, changed_only: bool = False) -> None:
        if staging not in STAGINGS:
            raise ValueError(f"staging is {staging!r}: expected one of {', '.join(STAGINGS)}")
        if device_budget_mib < 0 or (device_budget_mib and staging != "overlapped"):
            raise ValueError(f"device_budget_mib is {device_budget_mib}: expected 0, or MiB for Saver(\"overlapped\")")
        self._staging, self._session, self._changed_only = staging, session, changed_only
        self._durable, self._direct = durable, direct
        self._spare_bytes = device_budget_mib << 20
        self._copies = HostCopies(self._spare_bytes)
        self._steps: Steps | None = None
        self._copying: Copying | None = None
        self._governor = Governor()
        self._last: Saving | None = None
        self._pid, self._is_closed, self._is_graph_told = os.getpid(), False, False
        self._watch()

    def save(self, state: Any, folder: str | os.PathLike[str], on_progress: OnProgress | None = None, *,
             until_update: Any = ()) -> Saving:
        """Like `checkpoint.save()`, but returns when the trainer may change the state. Waits for the previous save, and
        raises its error unless `result()` did.

        "overlapped": the parameters and the state of torch's optimizers that have stepped since the Saver was made may
        change in their next step only, and those of `until_update` (tensors in dicts, lists or iterators) after the
        next `before_update()`. If one changes earlier, the save fails with its name. Everything else is copied before
        this returns. Of a GPU, a save reads what its current stream has been given. Steps may be on any stream; what
        else changes the state on another stream must wait for that stream first, or call `before_update()` there.
        """
        self._check_usable()
        self._watch()
        costs = Costs(Path(folder), Pace(self._governor), self._session or default_session(),
                      durable=self._durable)
        with costs.timed("stood"):
            if self._last is not None:
                self._last._tell()
            tree, tensors = taken_apart(state)
            known = described(tensors)
            start = Start(Path(folder), tree, durable=self._durable)
            make = partial(Save, start, known, session=self._session, direct=self._direct, on_progress=on_progress)
            try:
                with start.given_up_on_failure():
                    sources = self._sources(start, known, tensors, costs)
                    rest = self._begun(make, sources, until_update, costs)
                # Outside, since once the thread has begun it gives up alone.
                self._last = Saving(costs, self._copies.nbytes, _later(start, rest))
            except BaseException:
                self._forget_copies()  # After Ctrl-C a thread may go on to write them.
                raise
        costs.count_stood()
        self._governor.stood()
        return self._last

    def report(self) -> SaveReport | None:
        """What the last save cost, as far as it has come; None before the first."""
        return None if self._last is None else self._last._costs.report()

    def before_update(self) -> None:
        """Returns when everything that was saved may change, on a GPU by what its current stream does from now on. To
        be called by training loops that update their state by anything but torch's optimizers, whose steps call it for
        what they own; on each stream that updates."""
        self._before(None)

    def close(self) -> None:
        """Waits for the last save, and frees the memory. Raises the save's error unless `result()` did."""
        self._end()
        self._forget_copies()
        if self._last is not None:
            self._last._tell()

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._end()

    def _end(self) -> None:
        self._is_closed = True
        if self._last is not None:
            self._last._save.wait()  # Steps wait for its copies until then.
        if self._steps is not None:
            self._steps.close()

    def _forget_copies(self) -> None:
        self._copies, self._copying = HostCopies(self._spare_bytes), None

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("this Saver belongs to the process that this one was forked from, and so does its "
                               "thread: make another one here")
        if self._is_closed:
            raise RuntimeError("this Saver is closed: make another one")

    def _sources(self, start: Start, known: Described, tensors: Mapping[str, Any], costs: Costs) -> dict[Piece, Any]:
        if not self._changed_only:
            return sources_of(known, tensors)
        sources = begin_with_links(start, known, tensors, self._session)
        costs.links = start.links
        return sources

    def _begun(self, make: Make, sources: Mapping[Piece, Any], until_update: Any, costs: Costs) -> Rest:
        if self._staging == "windowed":
            return self._windowed(make, sources, costs)
        if self._staging == "overlapped" and not self._is_in_graph():
            return self._overlapped(make, sources, until_update, costs)
        return self._staged(make, sources, costs)

    def _windowed(self, make: Make, sources: Mapping[Piece, Any], costs: Costs) -> Rest:
        begun = make(sources)
        _write(begun, costs)
        return partial(_finish, begun, costs)

    def _staged(self, make: Make, sources: Mapping[Piece, Any], costs: Costs) -> Rest:
        copied = self._copies.take(sources, Held(()), self._session, are_summed=self._changed_only)
        copied.copying.settle()
        save = make(copied.memory, sums=copied.sums(), writers=writers_beside(), pace=costs.pace)
        return partial(self._governor.beside, partial(_whole, save, costs))

    def _overlapped(self, make: Make, sources: Mapping[Piece, Any], until_update: Any, costs: Costs) -> Rest:
        known = self._steps.known if self._steps is not None else ()
        copied = self._copies.take(sources, Held(known, until_update), self._session, are_summed=self._changed_only)
        costs.tell_of_copies(copied.memory, copied.at_once)

        def save() -> Progress:
            with costs.timed("copied"):
                copied.copying.run()
            return _whole(make(copied.memory, sums=copied.sums(), writers=writers_beside(), pace=costs.pace), costs)

        self._copying = copied.copying
        return partial(self._governor.beside, save)

    def _is_in_graph(self) -> bool:
        is_in_graph = self._steps is not None and bool(self._steps.recorded)
        if is_in_graph and not self._is_graph_told:
            log.warning("a CUDA graph holds an optimizer's step, of which it tells nobody: saves are staged")
            self._is_graph_told = True
        return is_in_graph

    def _watch(self) -> None:
        """Learns of optimizers' steps from now on. A program without torch need not load it, nor one that makes no
        optimizer what torch loads with the first; a staged save needs to know of none before there is one."""
        needed = {"overlapped": "torch", "staged": "torch._dynamo"}.get(self._staging)
        if self._steps is None and needed in sys.modules:
            self._steps = Steps(sys.modules["torch"], lambda optimizer: self._before(id(optimizer)))

    def _before(self, owner: int | None) -> None:
        self._governor.step_ends(owner)
        if self._copying is not None and not self._copying.is_over and self._last is not None \
                and os.getpid() == self._pid:
            with self._last._costs.timed("waited"):
                self._copying.before(owner)
        self._governor.step_begins(owner)


def _later(start: Start, rest: Rest) -> Later[Progress]:
    try:
        return Later(partial(_guarded, start, rest))
    except RuntimeError:  # No thread could be started.
        with start.given_up_on_failure():
            raise


def _guarded(start: Start, rest: Rest) -> Progress:
    with start.given_up_on_failure():
        return rest()


def _write(save: Save, costs: Costs) -> None:
    with costs.timed("written"):
        save.write()


def _finish(save: Save, costs: Costs) -> Progress:
    with costs.timed("flushed"):
        progress = save.finish()
    costs.end(progress)
    log.info("%s", costs.report())
    return progress


def _whole(save: Save, costs: Costs) -> Progress:
    _write(save, costs)
    return _finish(save, costs)
