# SPDX-License-Identifier: Apache-2.0

"""Saves in the background of a trainer, and how long it waited for them."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from penstock.checkpoint.copying import Copying
from penstock.checkpoint.hostcopies import HostCopies
from penstock.checkpoint.states import Save, described
from penstock.checkpoint.storing import writers_beside
from penstock.checkpoint.trees import taken_apart
from penstock.checkpoint.updates import Held, Steps
from penstock.progress import OnProgress, Progress
from penstock.sessions import Session
from penstock.threads import Later

STAGINGS = ("staged", "windowed", "overlapped")

log = logging.getLogger("penstock.checkpoint")


Make = Callable[..., Save]


class Saving:
    """A save in the background. stopped_s: how long the trainer waited for it, including for the previous save; it
    grows with waits before updates, but not with those of a GPU alone.
    staged_bytes: host memory with a copy of the state; it is kept for the next save."""

    def __init__(self, folder: Path, stopped_s: float, staged_bytes: int, save: Later[Progress]) -> None:
        self.folder, self.stopped_s, self.staged_bytes = folder, stopped_s, staged_bytes
        self._save, self._is_told = save, False

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
    device_budget_mib: memory of each GPU to set aside what the next update would have to wait for.
    """

    def __init__(self, staging: str = "staged", *, session: Session | None = None, durable: bool = True,
                 direct: bool | None = None, device_budget_mib: int = 0) -> None:
        if staging not in STAGINGS:
            raise ValueError(f"staging is {staging!r}: expected one of {', '.join(STAGINGS)}")
        if device_budget_mib < 0 or (device_budget_mib and staging != "overlapped"):
            raise ValueError(f"device_budget_mib is {device_budget_mib}: expected 0, or MiB for Saver(\"overlapped\")")
        self._staging, self._session = staging, session
        self._options: dict[str, Any] = {"session": session, "durable": durable, "direct": direct}
        self._spare_bytes = device_budget_mib << 20
        self._copies = HostCopies(self._spare_bytes)
        self._steps: Steps | None = None
        self._copying: Copying | None = None
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
        began = time.monotonic()
        if self._last is not None:
            self._last._tell()
        tree, tensors = taken_apart(state)
        begin = {"staged": self._staged, "windowed": self._windowed, "overlapped": self._overlapped}[self._staging]
        make = partial(Save, tree, described(tensors), Path(folder), on_progress=on_progress, **self._options)
        try:
            save = begin(make, tensors, until_update)
            self._last = Saving(Path(folder), time.monotonic() - began, self._copies.nbytes, save)
        except BaseException:
            self._forget_copies()  # After Ctrl-C a thread may go on to write them.
            raise
        return self._last

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

    def _windowed(self, make: Make, tensors: Mapping[str, Any], _: Any) -> Later[Progress]:
        begun = make(tensors)
        begun.write()
        return Later(begun.finish)

    def _staged(self, make: Make, tensors: Mapping[str, Any], _: Any = ()) -> Later[Progress]:
        copied = self._copies.take(tensors, Held(()), self._session)
        copied.copying.settle()
        return Later(make(copied.memory, sums=copied.sums(), writers=writers_beside()).whole)

    def _overlapped(self, make: Make, tensors: Mapping[str, Any], until_update: Any) -> Later[Progress]:
        self._watch()
        steps = self._steps
        if steps is not None and steps.recorded:
            self._tell_of_graph()
            return self._staged(make, tensors)
        copied = self._copies.take(tensors, Held(steps.known if steps else (), until_update), self._session)

        def save() -> Progress:
            copied.copying.run()
            return make(copied.memory, sums=copied.sums(), writers=writers_beside()).whole()

        later = Later(save)
        self._copying = copied.copying
        return later

    def _tell_of_graph(self) -> None:
        if not self._is_graph_told:
            log.warning("a CUDA graph holds an optimizer's step, of which it tells nobody: saves are staged")
        self._is_graph_told = True

    def _watch(self) -> None:
        """Learns of optimizers' steps from now on. A program without torch need not load it."""
        if self._staging == "overlapped" and self._steps is None and "torch" in sys.modules:
            self._steps = Steps(sys.modules["torch"], lambda optimizer: self._before(id(optimizer)))

    def _before(self, owner: int | None) -> None:
        if self._copying is not None and os.getpid() == self._pid:
            began = time.monotonic()
            self._copying.before(owner)
            if self._last is not None:
                self._last.stopped_s += time.monotonic() - began
