# SPDX-License-Identifier: Apache-2.0

"""Batches of records, read ahead, in an order that depends only on seed and epoch."""

from __future__ import annotations

import copy
import functools
import os
import time
from collections import deque
from types import TracebackType
from typing import Any

import numpy as np

from penstock import _native
from penstock.data.errors import DataError
from penstock.data.index import Numbers, RecordIndex
from penstock.data.slots import Flight, Slot
from penstock.errors import ClosedError, TimedOutError, UnsupportedError
from penstock.files import File
from penstock.progress import Meter, Progress
from penstock.seconds import timeout_of
from penstock.sessions import Session, default_session
from penstock.threads import Pool, wait

__all__ = ["Prefetcher"]


class Prefetcher:
    """An iterator of batches that reads ahead while the program uses one.

    `for batch in prefetcher` continues at the current position. After the end of an epoch it begins the next one, with
    a new order, so that `for epoch in range(3): for batch in prefetcher` runs three of them; `set_epoch()` begins any
    other.

    Tokens come as [records, tokens], in tensors of a dtype that torch's embeddings take: uint16 as int32, uint32 as
    int64; samples of tars as a list of dicts, "__key__" and each part by its name; other records as (bytes, places):
    record i is bytes[places[i]:places[i + 1]]. A batch is valid until the next one is taken: then its memory is reused,
    on a GPU (and if pinned) after the work queued on the current stream by then. Clone data that must live longer.

    device: a torch device; None: numpy arrays. pin_memory: tensors in pinned host memory, instead of device. shuffle:
    the epoch's order is a permutation by seed and epoch; else the index's order. shuffle_window: shuffles records only
    within windows of so many consecutive ones, and the windows: faster where sequential reads are. rank, world_size:
    ranks get disjoint shares; with drop_last, which drops records that do not fill a batch on every rank, equally many
    batches. window_batches, window_bytes: memory for batches, including the one in use. coalesce_gap: records of a
    batch at most so many bytes apart are one read. timeout: seconds for the reads of a batch. One call reads a whole
    batch; each file has one open descriptor.

    A failed read raises at its batch; the next call reads that batch again. A late read raises TimedOutError; its
    memory is not reused until the drive has released it.
    """

    def __init__(self, index: RecordIndex, batch_size: int, *, device: Any = None, pin_memory: bool = False,
                 session: Session | None = None, shuffle: bool = True, shuffle_window: int = 0, seed: int = 0,
                 epoch: int = 0, rank: int = 0, world_size: int = 1, drop_last: bool = False, window_batches: int = 4,
                 window_bytes: int = 1 << 30, coalesce_gap: int = 4096, timeout: float | None = None) -> None:
        _check(batch_size, seed, epoch, rank, world_size, coalesce_gap, shuffle_window)
        self._index, self._session = index, session or default_session()
        self._gap, self._timeout = coalesce_gap, None if timeout is None else timeout_of(timeout)
        self._settings: dict[str, Any] = {
            "index": index.fingerprint(), "batch_size": batch_size, "shuffle": shuffle,
            "shuffle_window": shuffle_window, "seed": seed, "rank": rank, "world_size": world_size,
            "drop_last": drop_last,
        }
        self._options: dict[str, Any] = {
            "device": device, "pin_memory": pin_memory, "window_batches": window_batches, "window_bytes": window_bytes,
            "coalesce_gap": coalesce_gap, "timeout": timeout}
        self._files: dict[int, File] = {}
        self._readers: Pool | None = None
        self._pid = os.getpid()
        self._flights: deque[Flight] = deque()
        self._late: list[Flight] = []  # Late reads whose memory may still be written.
        self._held: Slot | None = None  # The slot of the batch in use.
        self._closed, self._position = False, 0
        self._statistics: dict[str, Any] = {"batches": 0, "waited_seconds": 0.0, "idle_seconds": 0.0}
        self._meter = Meter()
        nbytes = int(index.length.max(initial=0)) * min(batch_size, len(index))
        self._count = min(window_batches, window_bytes // max(nbytes + coalesce_gap, 1))
        if self._count < 2:
            raise ValueError(f"window_batches is {window_batches} and window_bytes {window_bytes}: expected room for "
                             f"two batches, of {nbytes + coalesce_gap} bytes each at most")
        self._free = deque(Slot(nbytes, coalesce_gap, device, pin_memory, self._session) for _ in range(self._count))
        self._begin(epoch, 0)

    # ---- The order ----

    def __len__(self) -> int:
        """The number of batches of this rank in an epoch."""
        return -(-len(self._share) // int(self._settings["batch_size"]))

    def set_epoch(self, epoch: int) -> None:
        """Begins the given epoch."""
        _check(1, 0, epoch, 0, 1, 0, 0)
        self._begin(epoch, 0)

    def state_dict(self) -> dict[str, Any]:
        """The position (the next batch), and the settings on which it depends. Plain numbers and strings."""
        return {"epoch": self._epoch, "position": self._position, **self._settings}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues at the state's position. Raises DataError, without effect, for a state of other settings."""
        for name, value in self._settings.items():
            if state.get(name) != value:
                raise DataError(f"load a state: {name} was {state.get(name)!r} and is {value!r}: make the prefetcher "
                                "as the one that the state is of")
        epoch, position = state.get("epoch"), state.get("position")
        if not isinstance(epoch, int) or not isinstance(position, int) or epoch < 0 or not 0 <= position <= len(self):
            raise DataError(f"load a state: epoch is {epoch!r} and position {position!r}: expected what state_dict() "
                            f"gives, with a position up to {len(self)}")
        self._begin(epoch, position)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy is at the same position, and has the session of its process."""
        settings = {name: value for name, value in self._settings.items() if name != "index"}
        return _again, (self._index, {**settings, **self._options}, self._epoch, self._position)

    def in_worker(self, number: int, count: int) -> Prefetcher:
        """For worker `number` of `count` that take turns: a copy with every `count`-th of the batches to come. Raises
        UnsupportedError unless batches are arrays or tensors of plain host memory."""
        if self._options["pin_memory"] or str(self._options["device"] or "cpu") != "cpu":
            raise UnsupportedError("iterate in a worker process: it has no GPU, and num_workers is not 0. The "
                                   "prefetcher reads ahead by itself: give DataLoader num_workers=0")
        made, size = copy.copy(self), int(self._settings["batch_size"])
        places = range(self._position + number, len(self), count)
        made._share = np.concatenate([made._share[:0], *(self._share[at * size:(at + 1) * size] for at in places)])
        made._position = made._submitted = 0
        return made

    def _begin(self, epoch: int, position: int) -> None:
        self._drop_flights()
        self._epoch, self._position, self._submitted, self._has_ended = epoch, position, position, False
        count, settings = len(self._index), self._settings
        order = np.arange(count, dtype=np.int64)
        if settings["shuffle"]:
            # Raw numbers, which numpy guarantees to be the same in later versions.
            source = np.random.PCG64(np.random.SeedSequence([settings["seed"], epoch]))
            numbers, window = source.random_raw(count), settings["shuffle_window"]
            windows = order // window if window else np.zeros(count, np.int64)
            place = source.random_raw(int(windows.max(initial=0)) + 1)
            order = np.lexsort((numbers, windows, place[windows])).astype(np.int64)
        if settings["drop_last"]:
            whole = settings["batch_size"] * settings["world_size"]
            order = order[:count // whole * whole]
            if count > 0 and len(order) == 0:
                raise DataError(f"make a prefetcher: with drop_last there is no batch: {count} records are fewer than "
                                f"one batch of {settings['batch_size']} for each of {settings['world_size']} ranks")
        self._share: Numbers = order[settings["rank"]::settings["world_size"]]

    # ---- Reading ----

    def __iter__(self) -> Prefetcher:
        if self._has_ended and not self._closed and os.getpid() == self._pid:
            self._begin(self._epoch + 1, 0)
        return self

    def __next__(self) -> Any:
        if self._closed or os.getpid() != self._pid:
            raise ClosedError("take a batch: the prefetcher is closed, or the parent's")
        self._give_back()
        self._submit()
        if not self._flights:
            self._has_ended = True
            raise StopIteration
        flight, began = self._flights[0], time.monotonic()
        try:
            self._finish(flight)
        except BaseException:
            # The next call reads this batch and the following ones again.
            self._drop_flights()
            raise
        finally:
            self._statistics["waited_seconds"] += time.monotonic() - began
        self._flights.popleft()
        self._held = flight.slot
        self._position += 1
        self._statistics["batches"] += 1
        batch = flight.slot.batch(self._index.length[flight.records], self._index.dtype)
        if self._index.samples is None:
            return batch
        content, places = batch
        return self._index.samples.split(content, places, flight.records)

    def statistics(self) -> dict[str, Any]:
        """batches, bytes (with gaps between records), bytes_by_path, path, reason and gb_per_s of `progress`;
        waited_seconds: how long the program waited for reads; idle_seconds: how long no read ran, because the window
        was full and the program had taken no batch.
        """
        done = self.progress
        return {**self._statistics, "bytes": done.bytes_done, "bytes_by_path": done.bytes_by_path, "path": done.path,
                "reason": done.reason, "gb_per_s": done.gb_per_s}

    @property
    def progress(self) -> Progress:
        """What was read, by which path, and why by no better one, in the seconds in which a read was under way."""
        return self._meter.progress()

    def __repr__(self) -> str:
        return (f"<penstock.data.Prefetcher: epoch {self._epoch}, batch {self._position} of {len(self)}; "
                f"{self.progress}>")

    def _submit(self) -> None:
        batch_size = self._settings["batch_size"]
        self._take_back_late()
        self._count_idleness()
        while self._submitted < len(self):
            if not self._free:
                if not self._flights:
                    raise TimedOutError("could not read a batch: all memory of the window is written to by reads that "
                                        "are late")
                return
            if not self._free[0].is_free():
                if self._flights:
                    return
                self._free[0].wait()
            begin = self._submitted * batch_size
            deadline = None if self._timeout is None else time.monotonic() + self._timeout
            flight = Flight(self._free.popleft(), self._share[begin:begin + batch_size], deadline)
            self._flights.append(flight)
            self._submitted += 1
            try:
                self._read(flight)
            except BaseException:
                self._drop_flights()
                raise

    def _count_idleness(self) -> None:
        """Counts from the end of the last read, if the whole window was read."""
        readings = [flight.reading for flight in self._flights if flight.reading is not None]
        if readings and len(readings) == self._count - 1 and all(reading.done() for reading in readings):
            self._statistics["idle_seconds"] += time.monotonic() - max(reading.ended for reading in readings)

    def _file(self, number: int) -> File:
        if number not in self._files:
            self._files[number] = self._session.open(self._index.paths[number])
        return self._files[number]

    def _read(self, flight: Flight) -> None:
        if self._readers is None:
            reader = _native.RecordReader(self._session._native,
                                          [self._file(number) for number in range(len(self._index.paths))])
            self._readers, self._reader = Pool(self._count, may_be_left=True), reader
        flight.reading = self._readers.submit(functools.partial(_read, self._index, self._reader, flight.records,
                                                                flight.slot, self._gap, self._meter))

    def _finish(self, flight: Flight) -> None:
        assert flight.reading is not None
        left = None if flight.deadline is None else max(flight.deadline - time.monotonic(), 0)
        try:
            flight.reading.result(left)
        except TimeoutError:
            if flight.reading.done():  # The read itself failed with this error.
                raise
            raise TimedOutError(f"could not read a batch of {len(flight.records)} records within {self._timeout} s"
                                ) from None

    # ---- Its end ----

    def _give_back(self) -> None:
        if self._held is not None:
            self._held.release()
            self._free.append(self._held)
            self._held = None

    def _drop_flights(self) -> None:
        self._give_back()
        for flight in self._flights:
            if flight.reading is not None:
                flight.reading.cancel()
        if self._timeout is None:
            wait(flight.reading for flight in self._flights if flight.reading is not None)
        self._late += self._flights
        self._flights.clear()
        self._take_back_late()
        self._submitted = self._position

    def _take_back_late(self) -> None:
        self._free += [flight.slot for flight in self._late if flight.is_over]
        self._late = [flight for flight in self._late if not flight.is_over]

    def close(self) -> None:
        """Cancels reads that have not begun, waits for the others (not if there is a `timeout`), and closes the
        files."""
        self._closed = True
        if os.getpid() != self._pid:  # The parent waits for its reads; a forked child does not have the threads.
            return
        self._drop_flights()
        if self._readers is not None:
            self._readers.shutdown(wait=False)
            self._readers = None
        self._free.clear()
        while self._files:
            self._files.popitem()[1].close()

    def __enter__(self) -> Prefetcher:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_free"):
            self.close()


def _again(index: RecordIndex, arguments: dict[str, Any], epoch: int, position: int) -> Prefetcher:
    made = Prefetcher(index, **arguments)
    made._begin(epoch, position)
    return made


def _read(index: RecordIndex, reader: _native.RecordReader, records: Numbers, slot: Slot, gap: int,
          meter: Meter) -> None:
    lengths = index.length[records]
    places = np.cumsum(lengths) - lengths
    moved: tuple[dict[str, int], dict[str, int]] = {}, {}
    meter.begin()
    try:
        # Without stream order: no work uses the slot, and the program gets it after its bytes have arrived.
        moved = reader.read(index.file[records].tobytes(), index.offset[records].tobytes(), lengths.tobytes(),
                            places.tobytes(), slot.memory, gap, -1 if slot.is_gpu else None)
    except ValueError as error:
        for record in records:
            path, offset, length = index.paths[index.file[record]], index.offset[record], index.length[record]
            size = os.stat(path).st_size
            if offset + length > size:
                raise DataError(f"{path}: expected {length} bytes at {offset}, it has {size}: it was cut after the "
                                "index was made") from None
        raise DataError(f"read a batch: {error}") from error  # The file was truncated, and is whole again.
    finally:
        meter.end(*moved)


def _check(batch_size: int, seed: int, epoch: int, rank: int, world_size: int, gap: int, window: int) -> None:
    for name, value, least in (("batch_size", batch_size, 1), ("seed", seed, 0), ("epoch", epoch, 0),
                               ("world_size", world_size, 1), ("coalesce_gap", gap, 0), ("shuffle_window", window, 0)):
        if value < least:
            raise ValueError(f"{name} is {value}: expected at least {least}")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank is {rank}: expected 0 to {world_size - 1}, as world_size is {world_size}")
