# SPDX-License-Identifier: Apache-2.0

"""penstock.kv.Store: sub-stores on drives; this process writes its own and reads all."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from penstock import _native
from penstock.errors import ClosedError
from penstock.kv.decisions import Decisions
from penstock.kv.drive import Drive, Outcome, nbytes_of
from penstock.kv.metrics import exposition
from penstock.kv.names import Key, Namer
from penstock.progress import Meter, Progress
from penstock.seconds import costs_of, interval_of, timeout_of
from penstock.sessions import Session, default_session
from penstock.threads import Event, Future, Pool, wait

__all__ = ["Folder", "Outcome", "Store"]

Folder = str | os.PathLike[str]
Memories = Sequence[Any]  # For each key a buffer, tensor or block, or a list of those: the chunk's bytes, in order.

_EVICTIONS = {"lru": False, "cost": True}
_EXTENT_BYTES = 64 << 20
_NAME_BYTES = 16
_OUTCOMES = list(Outcome)

_stores: weakref.WeakSet[Store] = weakref.WeakSet()


class Store:
    """Chunks of one model and one tenant, on one or several drives.

    folders: one for each drive, created if missing (0700; all files are 0600). model, dtype, layout: identify the
    chunks: include everything on which their bytes depend, such as the parallel layout. A chunk with other values is a
    miss. salt: a tenant's secret; without it, its chunks can neither be found nor recognized. capacity_bytes: of this
    process, over all drives; allocated at once, and never exceeded. extent_bytes: the largest chunk, less 4096; a
    multiple of 4096. eviction: "lru", or "cost": chunks that are expensive to compute stay longer (`costs` of `put`).
    commit_s: this many seconds after its put a chunk survives a loss of power, and other processes see it. bytes_a_day:
    the most bytes that this process writes to each drive per day (UTC), also across restarts. direct: bypasses the page
    cache, if the file system has direct I/O; without it, recent chunks are read from host memory, and all puts go
    through it. host_bytes: host memory as a tier in front of all drives. A put copies into it, and is written in the
    background; recent puts and gets are read from it. If all of it waits for the drives, a put is FULL. read_only: only
    reads chunks of other processes. gpu: the ordinal of the GPU whose nearest drives get chunks first, while they have
    room.

    Each process writes its own sub-store and reads all. When one dies, the next that is opened takes over its
    sub-store. Raises PenstockError, and OSError if a folder cannot be used or a drive has no space.

    Thread-safe. After fork() the child's calls fail with `penstock.ClosedError`. A store that is not closed loses at
    most the puts of the last `commit_s`.
    """

    def __init__(self, folders: Folder | Sequence[Folder], *, model: str, dtype: str = "", layout: str = "",
                 salt: Key = b"", capacity_bytes: int = 0, extent_bytes: int = _EXTENT_BYTES, eviction: str = "lru",
                 commit_s: float = 0.5, bytes_a_day: int | None = None, direct: bool = True,
                 host_bytes: int = 0, read_only: bool = False, gpu: int = 0,
                 session: Session | None = None) -> None:
        if eviction not in _EVICTIONS:
            raise ValueError(f"eviction={eviction!r}: expected 'lru' or 'cost'")
        paths = [folders] if isinstance(folders, (str, os.PathLike)) else list(folders)
        each = capacity_bytes // max(len(paths), 1) // 4096 * 4096
        if not paths or (not read_only and each < extent_bytes):
            raise ValueError(f"capacity_bytes={capacity_bytes}: expected at least one extent of {extent_bytes} bytes "
                             f"for each of {len(paths)} folders")
        host_each = 0 if read_only else host_bytes // len(paths) // 4096 * 4096
        if host_bytes != 0 and not read_only and host_each < extent_bytes:
            raise ValueError(f"host_bytes={host_bytes}: expected 0, or at least one extent of {extent_bytes} bytes for "
                             f"each of {len(paths)} folders")
        commit_s = interval_of("commit_s", commit_s)
        self._session = default_session() if session is None else session
        self._namer = Namer(model, dtype, layout, salt)
        near = next((each["pci_address"] for each in self._session.devices() if each["ordinal"] == gpu), "")
        self._drives = [Drive(Path(path) / self._namer.store.hex(), self._session, self._namer, direct, near)
                        for path in paths]
        self._missed = 0  # Requested keys that no sub-store has, which no sub-store counts.
        self._meter = Meter()
        self._decisions = Decisions()
        self._pool: Pool | None = None
        self._helpers: Pool | None = None
        self._ended = Event()
        self._lock = threading.Lock()
        self.failure: Exception | None = None  #: The error of the last failed request or commit.
        try:
            for drive in self._drives:
                if not read_only:
                    drive.become_writer(each, extent_bytes, _EVICTIONS[eviction], bytes_a_day, host_each)
                drive.refresh()
        except BaseException:
            self.close()
            raise
        _stores.add(self)
        threading.Thread(target=_commit_repeatedly, args=(weakref.ref(self), self._ended, commit_s),
                         name="penstock-kv", daemon=True).start()

    # ---- Chunks ----

    def put(self, keys: Sequence[Key], memories: Memories, *, costs: Sequence[float] | None = None,
            stream: Any = None) -> list[Outcome]:
        """Writes chunks, and returns when their bytes have left the memory.

        memories: for each key a buffer, tensor or array of the host or a GPU, or a list of up to 1024 of them,
        concatenated in the chunk: the pages of a paged cache. All must be contiguous. Or a block of `Blocks`. costs:
        the seconds to compute each again, 0 or more, for eviction="cost". stream: as for `File.write()`. Returns an
        outcome for each.
        """
        names = self._namer.chunks(keys)
        pieces = [_pieces(memory) for memory in memories]
        outcomes = [Outcome.PRESENT] * (len(names) // _NAME_BYTES)
        seconds = [] if costs is None else costs_of(costs, len(outcomes))
        stream = _stream_of(pieces, stream)
        there = {i for which in self._by_store(names, reads_commits=True).values() for i in which}
        groups: dict[int, list[int]] = {}
        planned = [0] * len(self._drives)
        for i in range(len(outcomes)):
            if i not in there:
                number = self._drive_for(names[_NAME_BYTES * i], planned)
                groups.setdefault(number, []).append(i)
                planned[number] += sum(map(nbytes_of, pieces[i])) if len(planned) > 1 else 0

        def put_some(number: int, which: list[int]) -> None:
            drive = self._drives[number]
            if drive.health.is_slow:  # All other drives are slow, too.
                drive.refused["slow"] += len(which)
                result, failure = bytes([Outcome.SLOW]) * len(which), None
            else:
                result, failure = drive.put(_some(names, which), [pieces[i] for i in which],
                                            [seconds[i] for i in which] if seconds else [], stream)
            self._take(outcomes, which, result, failure)

        with self._meter:
            self._at_once(put_some, groups)
        return outcomes

    def get(self, keys: Sequence[Key], memories: Memories, *, stream: Any = None,
            timeout: float | None = None) -> list[Outcome]:
        """Reads chunks into memory, given as for `put`. Returns an outcome for each; the memory has the chunk only if
        it is DONE.

        timeout: seconds after which a chunk that has not arrived is LATE; its memory is not written afterwards. Such a
        get uses host memory; up to 16 late gets keep theirs until the drive releases it. Otherwise the memory of a
        chunk that is not DONE is undefined.
        """
        names = self._namer.chunks(keys)
        pieces = [_pieces(memory) for memory in memories]
        stream = _stream_of(pieces, stream)
        seconds = timeout_of(timeout)
        outcomes = [Outcome.MISS] * (len(names) // _NAME_BYTES)
        groups = self._by_store(names, reads_commits=seconds < 0)  # With a time limit it must not wait for a drive.
        self._missed += len(outcomes) - sum(map(len, groups.values()))

        def get_some(store: _native.KvStore, which: list[int]) -> None:
            result, failure = store.get(_some(names, which), [pieces[i] for i in which], stream, seconds)
            self._take(outcomes, which, result, failure)

        with self._meter:
            self._at_once(get_some, groups)
        return outcomes

    def put_async(self, keys: Sequence[Key], memories: Memories, *, costs: Sequence[float] | None = None,
                  stream: Any = None) -> Future[list[Outcome]]:
        """Like `put`, on a thread of the store. Do not change the memory before the future is done."""
        stream = _stream_of([_pieces(memory) for memory in memories], stream)
        return self._executor().submit(self.put, keys, memories, costs=costs, stream=stream)

    def get_async(self, keys: Sequence[Key], memories: Memories, *, stream: Any = None,
                  timeout: float | None = None) -> Future[list[Outcome]]:
        """Like `get`, on a thread of the store. Do not use the memory before the future is done."""
        stream = _stream_of([_pieces(memory) for memory in memories], stream)
        return self._executor().submit(self.get, keys, memories, stream=stream, timeout=timeout)

    def lookup(self, keys: Sequence[Key]) -> list[bool]:
        """Whether each is in the store, from the indexes in memory, without I/O: what another process has committed is
        known after the next `refresh`, `get` or `put`. Only `get` detects damage.
        """
        names = self._namer.chunks(keys)
        first = self._drives[0]
        if first.own is not None:  # The common case: it has all of them, or is the only one.
            present = first.own.lookup(names)
            if 0 not in present:
                return [True] * len(present)
            if len(self._drives) == 1 and not first.others:
                return [each == 1 for each in present]
        there = {i for which in self._by_store(names).values() for i in which}
        return [i in there for i in range(len(names) // _NAME_BYTES)]

    def prefix(self, keys: Sequence[Key]) -> int:
        """How many leading keys are all in the store: the part of a prompt that need not be computed."""
        found = self.lookup(keys)
        return found.index(False) if False in found else len(found)

    def delete(self, keys: Sequence[Key]) -> list[bool]:
        """Deletes chunks of this process. Their bytes stay on the drive until overwritten: see `purge`."""
        return self._of_own("erase", keys)

    def touch(self, keys: Sequence[Key]) -> list[bool]:
        """Counts as a use: the chunks are evicted later."""
        return self._of_own("touch", keys)

    def pin(self, keys: Sequence[Key]) -> list[bool]:
        """A pinned chunk is not evicted until it was unpinned as often. Returns False for a missing chunk."""
        return self._of_own("pin", keys)

    def unpin(self, keys: Sequence[Key]) -> list[bool]:
        return self._of_own("unpin", keys)

    def seconds_to_get(self, keys: Sequence[Key]) -> float | None:
        """Predicts the time of a get of these chunks from recent gets from the same place: host memory, or each chunk's
        drive, and from what this process moves there now. None until one was measured; missing chunks take no time.
        """
        all_names = self._namer.chunks(keys)
        names = b"".join(dict.fromkeys(all_names[at:at + _NAME_BYTES] for at in range(0, len(all_names), _NAME_BYTES)))
        each = [store.seconds_to_get(_some(names, which)) for store, which in self._by_store(names).items()]
        known = [seconds for seconds in each if seconds is not None]
        return sum(known) if len(known) == len(each) else None

    def worth_loading(self, keys: Sequence[Key], recompute_s: float) -> bool:
        """Whether getting these chunks takes less time than computing them. True until a get was measured, since only
        a get can tell, and now and then where computing is faster, for at most a hundredth of its time more.
        `state()["decisions"]` counts the answers by their reason.
        """
        return self._decisions.is_get(self.seconds_to_get(keys), recompute_s)

    # ---- The store ----

    def commit(self) -> None:
        """Makes earlier puts durable and visible to other processes.

        Raises PenstockError or OSError; the next call then tries again.
        """
        for drive in self._drives:
            drive.commit()
            if drive.own is not None:
                self._keep(drive.own.failure())

    def refresh(self) -> None:
        """Reads other processes' new commits, and finds their new sub-stores, as a thread of the store does every
        `commit_s`. For a `put`, and a `get` without a timeout, they are also read, once in a millisecond, before a key
        counts as missing.
        """
        for drive in self._drives:
            drive.refresh()

    def state(self) -> dict[str, Any]:
        """Returns a dictionary: chunks, used_bytes, capacity_bytes, uncommitted, evicted, puts and gets by outcome,
        bytes_by_path, bytes_by_reason, ...

        They count this process's requests; `drives` has the same for each sub-store. With `host_bytes` also `host`:
        chunks and bytes in host memory, waiting for a drive, or written to one, and the source of gets.
        """
        names = _native.distance_names()
        drives = [{"folder": str(drive.folder), "distance": names[drive.distance], **drive.state_of(store),
                   "written_today_bytes": drive.budget.written if drive.budget and store is drive.own else 0,
                   "slow": drive.health.reason if drive.health.is_slow else None}
                  for drive in self._drives for store in drive.all()]
        total = _sum_of(drives)
        total.setdefault("gets", {})["miss"] = total.get("gets", {}).get("miss", 0) + self._missed
        return {**total, "decisions": dict(self._decisions.counts),
                "failure": None if self.failure is None else str(self.failure), "drives": drives}

    @property
    def progress(self) -> Progress:
        """What puts and gets of this process moved, in the seconds in which one was under way. Paths, and the reasons
        why no better ones, are those of the drives: what stayed in host memory has none."""
        state = self.state()
        moved = state.get("put_bytes", 0) + state.get("got_bytes", 0)
        return replace(self._meter.progress(), bytes_total=moved, bytes_done=moved,
                       bytes_by_path=state.get("bytes_by_path", {}), bytes_by_reason=state.get("bytes_by_reason", {}))

    def __repr__(self) -> str:
        return f"<penstock.kv.Store: {'closed' if self._ended.is_set() else self.progress}>"

    def metrics(self) -> str:
        """The same in Prometheus's text format, by folder."""
        return exposition(self.state()["drives"], self._missed)

    def close(self) -> None:
        """Waits for requests in flight, and commits. Further calls do nothing."""
        self._ended.set()
        for pool in (self._pool, self._helpers):
            if pool is not None:
                pool.shutdown()
        failures = []
        for drive in self._drives:
            for store in drive.all():
                try:
                    store.close()
                except Exception as failure:
                    failures.append(failure)
        if failures:
            raise failures[0]

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    # ---- Inside ----

    def _keep(self, failure: Exception | None) -> None:
        if failure is not None:
            self.failure = failure

    def _take(self, outcomes: list[Outcome], which: list[int], result: bytes, failure: Exception | None) -> None:
        self._keep(failure)
        for i, outcome in zip(which, result, strict=True):
            outcomes[i] = _OUTCOMES[outcome]

    def _executor(self) -> Pool:
        with self._lock:
            if self._pool is None:
                self._pool = Pool(4)
            return self._pool

    def _at_once(self, work: Callable[[Any, list[int]], None], groups: dict[Any, list[int]]) -> None:
        """Runs each drive's part, several drives in parallel."""
        if not groups:
            return
        *others, last = groups.items()
        if others and self._helpers is None:
            with self._lock:
                if self._helpers is None:
                    self._helpers = Pool(4 * len(self._drives))
        futures = [self._helpers.submit(work, *each) for each in others] if self._helpers is not None else []
        try:
            work(*last)
        finally:
            wait(futures)
        for future in futures:
            future.result()

    def _drive_for(self, first: int, planned: list[int]) -> int:
        """The best drive by `Drive.worth`; ties are decided by the name's first byte."""
        count = len(self._drives)
        if count == 1:
            return 0
        return min(((first + i) % count for i in range(count)),
                   key=lambda number: self._drives[number].worth(planned[number]))

    def _by_store(self, names: bytes, reads_commits: bool = False) -> dict[_native.KvStore, list[int]]:
        """The indexes in `names` of the chunks that each store has. Omits chunks that none has. It does no I/O, unless
        others' new commits are to be read for what is missing.
        """
        groups: dict[_native.KvStore, list[int]] = {}
        missing = _sort(names, list(range(len(names) // _NAME_BYTES)),
                        (store for drive in self._drives for store in drive.all()), groups)
        if missing and reads_commits:
            _sort(names, missing, (store for drive in self._drives for store in drive.read_commits()), groups)
        return groups

    def _of_own(self, call: str, keys: Sequence[Key]) -> list[bool]:
        names = self._namer.chunks(keys)
        results = [False] * (len(names) // _NAME_BYTES)
        for drive in self._drives:
            if drive.own is None:
                raise ValueError(f"the store was opened with read_only=True: it cannot {call}")
            answers = getattr(drive.own, call)(names)
            results = [before or bool(now) for before, now in zip(results, answers, strict=True)]
        return results


def _some(names: bytes, which: list[int]) -> bytes:
    """The names at these indexes, in ascending order."""
    if len(which) * _NAME_BYTES == len(names):
        return names
    return b"".join([names[_NAME_BYTES * i:_NAME_BYTES * (i + 1)] for i in which])


def _sort(names: bytes, missing: list[int], stores: Iterable[_native.KvStore],
          groups: dict[_native.KvStore, list[int]]) -> list[int]:
    """Adds what each store has to its group, and returns what none has."""
    for store in stores:
        if not missing:
            break
        present = store.lookup(_some(names, missing))
        if 1 in present:
            found = [i for i, there in zip(missing, present, strict=True) if there]
            groups[store] = sorted(groups.get(store, []) + found)
            missing = [i for i, there in zip(missing, present, strict=True) if not there]
    return missing


def _pieces(memory: Any) -> list[Any]:
    return list(memory) if isinstance(memory, (list, tuple)) else [memory]


def _stream_of(pieces: list[list[Any]], stream: Any) -> Any:
    """The caller's stream: torch's current stream is per thread, and another thread may execute the request."""
    first = next((piece for each in pieces for piece in each if getattr(piece, "is_cuda", False)), None)
    if stream is not None or first is None:
        return stream
    torch = sys.modules["torch"]
    number_of = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # It makes no object, which takes 10 us.
    return torch.cuda.current_stream(first.device) if number_of is None else number_of(first.device.index)


def _sum_of(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Sums numbers, and dictionaries key by key."""
    total: dict[str, Any] = {}
    for state in states:
        for name, value in state.items():
            if isinstance(value, dict):
                total[name] = _sum_of([total.get(name, {}), value])
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                total[name] = total.get(name, 0) + value
    return total


def _commit_repeatedly(store: weakref.ref[Store], ended: Event, every_s: float) -> None:
    while not ended.wait(every_s):
        kept = store()
        if kept is None:
            return
        try:
            kept.commit()
            kept.refresh()
        except Exception as failure:
            if not (ended.is_set() and isinstance(failure, ClosedError)):  # A closed store is not a failure.
                kept.failure = failure
        del kept


def _leave_to_parent() -> None:
    for store in list(_stores):
        for drive in store._drives:
            if drive.own is not None:
                drive.own.leave_lease()


os.register_at_fork(after_in_child=_leave_to_parent)
