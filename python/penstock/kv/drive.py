# SPDX-License-Identifier: Apache-2.0

"""One folder of a store: the sub-store that this process writes there, and those of others."""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock import _native
from penstock.folders import make_folder
from penstock.kv.limits import Budget, Health
from penstock.kv.names import Namer
from penstock.sessions import Session

__all__ = ["Drive", "Outcome", "nbytes_of"]

_SUB_STORES_MOST = 64
_FULL = 0.95  # Of a sub-store: from here on chunks make room for others.
_FARTHEST = len(_native.distance_names()) - 1


class Outcome(enum.IntEnum):
    """What became of one key."""

    DONE = 0  #: put: it is there now; get: its bytes are in the memory.
    PRESENT = 1  #: put: it was there, or is being put; nothing was written.
    MISS = 2  #: There is no such chunk.
    DAMAGED = 3  #: There was one, and its header, checksum or length is wrong: it is dropped. A miss.
    MISMATCH = 4  #: get: it has another size than the memory. A miss.
    FULL = 5  #: put: all that could make room is pinned or in use.
    LARGE = 6  #: put: larger than an extent.
    FAILED = 7  #: The drive failed; `Store.failure` says how. A miss.
    LATE = 8  #: get: it was not there in time (`timeout`). A miss; the memory is as it was.
    WRITE_BUDGET_EXCEEDED = 9  #: put: the drive was written to as much today as it may be.
    SLOW = 10  #: put: every drive has become slow; `Store.state` says how.
    UNLIKE = 4  #: The deprecated name of MISMATCH: it goes with the next minor version.
    WORN = 9  #: The deprecated name of WRITE_BUDGET_EXCEEDED: it goes with the next minor version.


class Drive:
    """The sub-stores of one folder: the one that this process writes, and those of others."""

    def __init__(self, folder: Path, session: Session, namer: Namer, direct: bool, gpu: str) -> None:
        self.folder = folder
        self.distance = _native.distance(str(_there(folder)), gpu)
        self._direct = direct
        self._session = session
        self._name = namer.store
        self.own: _native.KvStore | None = None
        self.others: dict[str, _native.KvStore] = {}
        self._own_number = ""
        self.bytes_under_way = 0
        self.is_full = False  # As of the last commit.
        self.refused = {"worn": 0, "slow": 0}  # Keys of puts, by names of state(), which programs read.
        self._has_host = False
        self._judged = 0, 0.0  # Bytes that the host's tier has written, and seconds.
        self.health = Health()
        self.budget: Budget | None = None

    def _open(self, number: str, nbytes: int, extent_bytes: int, by_cost: bool,
              host_bytes: int) -> _native.KvStore:
        return _native.KvStore(self._session._native, str(self.folder / number), self._name, nbytes, extent_bytes,
                               by_cost, self._direct, host_bytes)

    def become_writer(self, nbytes: int, extent_bytes: int, by_cost: bool, bytes_a_day: int | None,
                      host_bytes: int) -> None:
        """Of the first sub-store that has none: so one whose writer has died goes on with what that had."""
        if not self.folder.is_dir():
            make_folder(self.folder, mode=0o700)
        for number in range(_SUB_STORES_MOST):
            try:
                self.own = self._open(str(number), nbytes, extent_bytes, by_cost, host_bytes)
                self._own_number = str(number)
                self._has_host = host_bytes > 0
                self.budget = Budget(self.folder / str(number), bytes_a_day)
                return
            except OSError as error:
                if error.errno != errno.EWOULDBLOCK:
                    raise
        raise OSError(errno.EBUSY, f"{self.folder} has {_SUB_STORES_MOST} writers: that is the most")

    def worth(self, planned: int) -> tuple[bool, bool, int, int]:
        """Less for a drive that rather gets the next chunk, where so many bytes are on their way to it besides.

        What is slow comes last, and what is full. The less has to be written first the better, and what has to pass the
        link between two sockets counts double. Then the nearer one, until all are full: from then on the near ones
        would lose chunks that are still asked for, while the far ones keep what nobody wants.
        """
        load = (self.bytes_under_way + planned) * (2 if self.distance == _FARTHEST else 1)
        return self.health.is_slow, self.is_full, load, 0 if self.is_full else self.distance

    def put(self, names: list[bytes], pieces: list[list[Any]], costs: list[float],
            stream: Any) -> tuple[bytes, Exception | None]:
        if self.own is None or self.budget is None:
            raise ValueError("the store was opened with read_only=True: it cannot put")
        nbytes = sum(nbytes_of(piece) for each in pieces for piece in each)
        if not self.budget.take(nbytes):
            self.refused["worn"] += len(names)
            return bytes([Outcome.WRITE_BUDGET_EXCEEDED]) * len(names), None
        self.bytes_under_way += nbytes
        began = time.perf_counter()
        try:
            outcomes, failure = self.own.put(b"".join(names), pieces, costs, stream)
        finally:
            self.bytes_under_way -= nbytes
        if not self._has_host and all(outcome == Outcome.DONE for outcome in outcomes):
            self.health.add(nbytes, time.perf_counter() - began)
        return outcomes, failure

    def commit(self) -> None:
        if self.own is not None and self.budget is not None:
            self.own.commit()
            self.budget.save()
            state = self.own.state()
            self.is_full = state["used_bytes"] > _FULL * state["capacity_bytes"]
            if self._has_host:
                self._judge_writes(state["host"])

    def _judge_writes(self, host: dict[str, Any]) -> None:
        """A put is over when the host's memory has it: how quick the drive is, the writes behind it tell."""
        nbytes, seconds = host["written_bytes"], host["written_s"]
        self.health.add(nbytes - self._judged[0], seconds - self._judged[1])
        self._judged = nbytes, seconds

    def state_of(self, store: _native.KvStore) -> dict[str, Any]:
        state = {"own": store is self.own, **store.state()}
        if store is self.own:
            state["puts"] = {**state["puts"], **self.refused}
        return state

    def refresh(self) -> None:
        """Looks for what the others have committed, and for new ones."""
        with contextlib.suppress(FileNotFoundError):
            for number in os.listdir(self.folder):
                if number == self._own_number or number in self.others or not number.isdecimal():
                    continue
                with contextlib.suppress(FileNotFoundError):  # It is being made.
                    self.others[number] = self._open(number, 0, 0, False, 0)
        for other in list(self.others.values()):
            other.refresh()

    def all(self) -> Iterator[_native.KvStore]:
        if self.own is not None:
            yield self.own
        yield from list(self.others.values())


def _there(folder: Path) -> Path:
    """The folder, or of those above it the first that is there."""
    return next((path for path in (folder, *folder.parents) if path.is_dir()), folder).resolve()


def nbytes_of(memory: Any) -> int:
    nbytes = getattr(memory, "nbytes", None)
    return memoryview(memory).nbytes if nbytes is None else int(nbytes)
