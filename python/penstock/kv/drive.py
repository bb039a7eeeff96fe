# SPDX-License-Identifier: Apache-2.0

"""One folder of a store: this process's sub-store there, and those of others."""

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
from penstock.errors import PenstockError
from penstock.folders import make_folder
from penstock.kv.limits import Budget, Health
from penstock.kv.names import Namer
from penstock.sessions import Session

__all__ = ["Drive", "Outcome", "nbytes_of"]

_SUB_STORES_MOST = 64
_READ_AGAIN_S = 0.001  # A look at another's journal takes ten microseconds.
_FULL = 0.95  # A sub-store this full is close to evicting chunks.
_FARTHEST = len(_native.distance_names()) - 1


class Outcome(enum.IntEnum):
    """The result for one key."""

    DONE = 0  #: put: the chunk is stored; get: its bytes are in the memory.
    PRESENT = 1  #: put: the chunk was there, or is being put; nothing was written.
    MISS = 2  #: There is no such chunk.
    DAMAGED = 3  #: The chunk's header, checksum or length is wrong: it is dropped. A miss.
    MISMATCH = 4  #: get: the chunk has another size than the memory. A miss.
    FULL = 5  #: put: all chunks that could be evicted are pinned or in use.
    LARGE = 6  #: put: the chunk is larger than an extent.
    FAILED = 7  #: The drive failed; `Store.failure` has the error. A miss.
    LATE = 8  #: get: the chunk was not read in time (`timeout`). A miss; the memory is unchanged.
    WRITE_BUDGET_EXCEEDED = 9  #: put: the drive's write budget for today is used up.
    SLOW = 10  #: put: every drive has become slow; see `Store.state`.
    UNLIKE = 4  #: The deprecated name of MISMATCH: it goes with the next minor version.
    WORN = 9  #: The deprecated name of WRITE_BUDGET_EXCEEDED: it goes with the next minor version.


class Drive:
    """The sub-stores of one folder: this process's own, and those of others."""

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
        self.is_full = False  # State at the last commit.
        self.refused = {"write_budget_exceeded": 0, "slow": 0}  # Keys of puts, by names of state().
        self._has_host = False
        self._read_at: dict[str, float] = {}  # When each other sub-store's journal had been read.
        self._judged = 0, 0.0  # Bytes written by the host tier, and the seconds for them.
        self.health = Health()
        self.budget: Budget | None = None

    def _open(self, number: str, nbytes: int, extent_bytes: int, by_cost: bool,
              host_bytes: int) -> _native.KvStore:
        return _native.KvStore(self._session._native, str(self.folder / number), self._name, nbytes, extent_bytes,
                               by_cost, self._direct, host_bytes)

    def become_writer(self, nbytes: int, extent_bytes: int, by_cost: bool, bytes_a_day: int | None,
                      host_bytes: int) -> None:
        """Becomes the writer of the first sub-store without one, so that the chunks of a dead writer stay in use."""
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
        """A sort key: the drive with the smallest value gets the next chunk. bytes: those already in flight to it.

        Slow and full drives come last. Fewer bytes in flight are better, and bytes that pass the link between two
        sockets count double. Then the nearer drive wins, until all are full: from then on near drives would evict
        chunks still in use, while far ones kept unused chunks.
        """
        load = (self.bytes_under_way + planned) * (2 if self.distance == _FARTHEST else 1)
        return self.health.is_slow, self.is_full, load, 0 if self.is_full else self.distance

    def put(self, names: bytes, pieces: list[list[Any]], costs: list[float],
            stream: Any) -> tuple[bytes, Exception | None]:
        if self.own is None or self.budget is None:
            raise ValueError("the store was opened with read_only=True: it cannot put")
        nbytes = sum(nbytes_of(piece) for each in pieces for piece in each)
        if not self.budget.take(nbytes):
            self.refused["write_budget_exceeded"] += len(pieces)
            return bytes([Outcome.WRITE_BUDGET_EXCEEDED]) * len(pieces), None
        self.bytes_under_way += nbytes
        began = time.perf_counter()
        try:
            outcomes, failure = self.own.put(names, pieces, costs, stream)
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
        """A put ends when the chunk is in host memory, so the drive's speed is judged by the background writes."""
        nbytes, seconds = host["written_bytes"], host["written_s"]
        self.health.add(nbytes - self._judged[0], seconds - self._judged[1])
        self._judged = nbytes, seconds

    def state_of(self, store: _native.KvStore) -> dict[str, Any]:
        state = {"own": store is self.own, **store.state()}
        if store is self.own:
            state["puts"] = {**state["puts"], **self.refused}
        return state

    def refresh(self) -> None:
        """Reads the commits of other sub-stores, and finds new ones."""
        with contextlib.suppress(FileNotFoundError):
            for number in os.listdir(self.folder):
                if number == self._own_number or number in self.others or not number.isdecimal():
                    continue
                try:
                    self.others[number] = self._open(number, 0, 0, False, 0)
                except OSError as error:
                    if error.errno != errno.ENOENT:
                        raise
                    # The sub-store is being created, or its writer was killed before it had a slab.
        for other in list(self.others.values()):
            other.refresh()

    def read_commits(self) -> Iterator[_native.KvStore]:
        """The sub-stores of others, each after its new commits were read, unless they were just now. It may wait for a
        drive."""
        for number, other in list(self.others.items()):
            if time.monotonic() - self._read_at.get(number, 0.0) >= _READ_AGAIN_S:
                with contextlib.suppress(PenstockError, OSError):  # The store's thread tells of it.
                    other.refresh()
                self._read_at[number] = time.monotonic()  # Not before: other threads would look too early.
            yield other

    def all(self) -> Iterator[_native.KvStore]:
        if self.own is not None:
            yield self.own
        yield from list(self.others.values())


def _there(folder: Path) -> Path:
    """The folder, or its nearest existing parent."""
    return next((path for path in (folder, *folder.parents) if path.is_dir()), folder).resolve()


def nbytes_of(memory: Any) -> int:
    nbytes = getattr(memory, "nbytes", None)
    return memoryview(memory).nbytes if nbytes is None else int(nbytes)
