# SPDX-License-Identifier: Apache-2.0

"""What will be read of a model's files: items, and the ranges of files that hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.progress import Progress
from penstock.sessions import Session
from penstock.weights.arrays import Arrays, arrays_of
from penstock.weights.headers import Part, Tensor, WeightsError, collecting_paused, named

if TYPE_CHECKING:
    from penstock.weights.exchange import Exchange
    from penstock.weights.stream import Stream

RUN_BYTES = 256 << 20   # The most that one request reads, unless a single tensor is larger.
GAP_BYTES = 64 << 10    # What nobody wants between two tensors is read along, up to this,
GAP_SHARE = 32          # and up to this part of what was wanted before it.
AHEAD = 3               # Requests under way. Both as was best on an H200: docs/internals/performance.md.
PAGE = 4096             # Memory is laid out as the file is, so that direct I/O needs no copy.


class Whole(NamedTuple):
    """A tensor that is put together from pieces: its shape when it is, and how many there are."""

    tensor: Tensor
    shape: tuple[int, ...]
    pieces: int


class Item(NamedTuple):
    """A tensor that is wanted, or a piece of one, and the bytes of its file that hold it."""

    tensor: Tensor
    part: Part | None           # What to keep of it on the device; None for all.
    begin: int
    end: int
    rows: tuple[int, ...]       # The shape of what lies between the two, in elements of the dtype.
    whole: Whole | None = None  # Of a piece: what it belongs to, and where its first element is in that.
    at: tuple[int, ...] = ()


def items_of(tensor: Tensor, part: Part | None) -> list[Item]:
    """Raises WeightsError for a part that the tensor does not have."""
    share = None if part is None else _checked(tensor, part)
    return _pieces_of(tensor, share) if tensor.chunks else [_item_of(tensor, share)]


def in_units(dtype: str, extents: tuple[int, ...]) -> tuple[int, ...]:
    """As frameworks count: of F4 two elements are one."""
    return (*extents[:-1], extents[-1] // 2) if dtype == "F4" and extents else extents


def _checked(tensor: Tensor, part: Part) -> Part:
    """The part, with a dimension from 0 on and in units."""
    if not -len(tensor.shape) <= part.dim < len(tensor.shape):
        raise WeightsError(f"tensor {tensor.name!r} of shape {list(tensor.shape)} has no dimension {part.dim}")
    dim = part.dim % len(tensor.shape)
    if not 0 <= part.start <= part.stop <= tensor.shape[dim]:
        raise WeightsError(f"tensor {tensor.name!r}: {part.start} to {part.stop} of dimension {dim}, which has "
                           f"{tensor.shape[dim]} elements")
    if tensor.dtype != "F4" or dim != len(tensor.shape) - 1:
        return Part(dim, part.start, part.stop)
    if part.start % 2 != 0 or part.stop % 2 != 0:
        raise WeightsError(f"tensor {tensor.name!r}: parts of F4 begin and end at even elements: two are a byte")
    return Part(dim, part.start // 2, part.stop // 2)


def _item_of(tensor: Tensor, part: Part | None) -> Item:
    begin, end, shape = tensor.offset, tensor.offset + tensor.nbytes, in_units(tensor.dtype, tensor.shape)
    if part is None:
        return Item(tensor, None, begin, end, shape)
    if part.dim > 0 or tensor.strides is not None or shape[0] == 0 or tensor.nbytes % shape[0] != 0:
        return Item(tensor, part, begin, end, shape)  # Strided: all is read, and cut on the device.
    row = tensor.nbytes // shape[0]
    return Item(tensor, None, begin + part.start * row, begin + part.stop * row,
                (part.stop - part.start, *shape[1:]))


def _pieces_of(tensor: Tensor, part: Part | None) -> list[Item]:
    """The pieces that the part meets; where it is empty, an empty one."""
    shape, found = list(in_units(tensor.dtype, tensor.shape)), []
    if part is not None:
        shape[part.dim] = part.stop - part.start
    for chunk in tensor.chunks:
        at, share = list(in_units(tensor.dtype, chunk.at)), None
        if part is not None:
            extent = in_units(tensor.dtype, chunk.piece.shape)[part.dim]
            share = Part(part.dim, max(part.start - at[part.dim], 0), min(part.stop - at[part.dim], extent))
            if share.start >= share.stop:
                continue
            at[part.dim] = max(at[part.dim] - part.start, 0)
        found.append((_item_of(chunk.piece, share), tuple(at)))
    if not found:
        found = [(_item_of(tensor.chunks[0].piece, Part(0, 0, 0)), (0,) * len(shape))]
    whole = Whole(tensor, tuple(shape), len(found))
    return [item._replace(whole=whole, at=at) for item, at in found]


@dataclass
class Run:
    """Neighbours in a file, read by one request."""

    file: Path
    begin: int
    end: int
    items: list[Item]
    is_together: bool = False  # The ranks of a group read a share each, and exchange them.


def _runs_of(items: Iterable[Item], run_bytes: int, is_together: bool) -> list[Run]:
    by_file: dict[Path, list[Item]] = {}
    file, there = None, []
    for item in items:
        if item.tensor.file is not file:
            file = item.tensor.file
            there = by_file.setdefault(file, [])
        there.append(item)
    return [run for file in by_file for run in _runs_in(file, by_file[file], run_bytes, is_together)]


def _runs_in(file: Path, items: list[Item], run_bytes: int, is_together: bool) -> Iterator[Run]:
    run: Run | None = None
    for item in sorted(items, key=attrgetter("begin")):
        if run is not None and _is_near(run, item) and (item.end <= run.end or item.end - run.begin <= run_bytes):
            if item.end > run.end:
                run.end = item.end
            run.items.append(item)
            continue
        if run is not None:
            yield run
        run = Run(file, item.begin, item.end, [item], is_together)
    if run is not None:
        yield run


def _is_near(run: Run, item: Item) -> bool:
    """What lies between is storage's page, or a small share of what is read before it."""
    gap = item.begin - run.end
    return gap <= PAGE or gap <= min(GAP_BYTES, (run.end - run.begin) // GAP_SHARE)


class Plan:
    """What will be read. Iterating over it reads, and gives (name, tensor) in the order of the files.

    A tensor shares its memory with its neighbours in the file (256 MiB at most): clone one that is to outlive the
    others. `bytes_from_storage` and `bytes_on_device` say what it takes.
    """

    def __init__(self, wanted: Iterable[tuple[Tensor, Part | None]], device: Any, dtype: Any, session: Session | None,
                 identities: Mapping[Path, tuple[int, int, int, int]], *, framework: str = "pt",
                 exchange: Exchange | None = None, budget: int | None = None,
                 check: Callable[[Tensor, Any], None] | None = None) -> None:
        self.arrays: Arrays = arrays_of(framework, device)
        self.device, self.dtype = self.arrays.device, self.arrays.dtype_named(dtype)
        self.session, self.identities, self.exchange, self.check = session, identities, exchange, check
        with collecting_paused():
            self.runs = self._plan_runs(wanted, budget)
        self.bytes_from_storage = sum(self._bytes_read(run) for run in self.runs)
        self.progress = Progress(self.bytes_from_storage)

    def _plan_runs(self, wanted: Iterable[tuple[Tensor, Part | None]], budget: int | None) -> list[Run]:
        run_bytes = RUN_BYTES if budget is None else max(min(RUN_BYTES, budget // (AHEAD + 1)), PAGE)
        alone: list[Item] = []
        together: list[Item] = []
        for tensor, part in wanted:
            dtype = self.arrays.dtype_of(tensor)
            if tensor.nbytes == 0:  # Of any shape, which frameworks may not have; the others are as large as files.
                with named(f"{tensor.file}: tensor {tensor.name!r} of shape {list(tensor.shape)}"):
                    self.arrays.nothing(dtype, in_units(tensor.dtype, tensor.shape))
            shared = self.exchange is not None and (part is None or _is_strided(tensor, part))
            (together if shared else alone).extend(items_of(tensor, part))
        runs = _runs_of(alone, run_bytes, False) + _runs_of(together, run_bytes, True)
        return sorted(runs, key=lambda run: (str(run.file), run.begin))

    def _bytes_read(self, run: Run) -> int:
        begin, end = share_of_run(run, self.exchange)
        return end - begin

    @cached_property
    def names(self) -> list[str]:
        """In the order in which they will be there."""
        return list(_names_of(self.runs))

    @cached_property
    def bytes_on_device(self) -> int:
        """What is kept, and what requests under way take besides."""
        copied, whole, kept = 0, {}, 0
        for run in self.runs:
            views = False
            for item in run.items:
                if item.whole is not None:
                    whole[item.whole.tensor.name] = self._bytes_copied(item.tensor, item.whole.shape)
                elif self.is_copied(item):
                    copied += self._bytes_copied(item.tensor, self.shape_of(item))
                else:
                    views = True
            if views:
                kept += memory_of(run, self.exchange)[1] + PAGE
        under_way = max((memory_of(run, self.exchange)[1] + PAGE for run in self.runs), default=0) * (AHEAD + 1)
        return copied + sum(whole.values()) + kept + (under_way if copied or whole else 0)

    def _bytes_copied(self, tensor: Tensor, shape: tuple[int, ...]) -> int:
        dtype = self.arrays.dtype_of(tensor)
        nbytes = self.item_bytes(dtype)
        for extent in shape:
            nbytes *= extent
        return nbytes

    def item_bytes(self, dtype: Any) -> int:
        """Of an element when it has the dtype that is wanted."""
        if not self.arrays.is_converted(dtype, self.dtype):
            return self.arrays.item_bytes(dtype)
        return int(self.dtype.itemsize)

    def is_copied(self, item: Item) -> bool:
        """Whether the tensor gets memory of its own: where it is cut or converted."""
        return item.part is not None or (
            self.dtype is not None and self.arrays.is_converted(self.arrays.dtype_of(item.tensor), self.dtype))

    @staticmethod
    def shape_of(item: Item) -> tuple[int, ...]:
        if item.part is None:
            return item.rows
        return (*item.rows[:item.part.dim], item.part.stop - item.part.start, *item.rows[item.part.dim + 1:])

    def __len__(self) -> int:
        return len(self.names)

    def shortage(self) -> str | None:
        """Why the tensors will not fit, or None."""
        free = self.arrays.free_bytes()
        if free is None or self.bytes_on_device <= free:
            return None
        return (f"the tensors take {self.bytes_on_device} bytes on {self.device}, of which {free} are free: nothing "
                "was read. Choose fewer tensors, parts of them, or another device.")

    def load(self, on_progress: Callable[[Progress], None] | None = None) -> dict[str, Any]:
        """All tensors by name. Raises MemoryError before the first byte where they will not fit."""
        from penstock.weights.stream import Stream

        with collecting_paused(), closing(Stream(self, on_progress, is_kept=True)) as tensors:
            return dict(tensors)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self.stream()

    def stream(self, on_progress: Callable[[Progress], None] | None = None) -> Stream:
        """(name, tensor), in the order of the files, while further ones are read: three requests at most.

        on_progress is called after each request.
        """
        from penstock.weights.stream import Stream

        return Stream(self, on_progress, is_kept=False)


def _is_strided(tensor: Tensor, part: Part) -> bool:
    """Whether parts along this dimension lie between each other in the file. The same on all ranks."""
    return not tensor.chunks and (part.dim % max(len(tensor.shape), 1) != 0 or tensor.strides is not None)


def _names_of(runs: Iterable[Run]) -> Iterator[str]:
    left: dict[str, int] = {}
    for run in runs:
        for item in run.items:
            if item.whole is None:
                yield item.tensor.name
                continue
            name = item.whole.tensor.name
            left[name] = left.get(name, item.whole.pieces) - 1
            if left[name] == 0:
                yield name


def memory_of(run: Run, exchange: Exchange | None) -> tuple[int, int]:
    """Where in the file the memory of a run begins, and its bytes: pages, as many for each rank that shares it."""
    base = run.begin // PAGE * PAGE
    ranks = exchange.world if exchange is not None and run.is_together else 1
    pages = (run.end - base + PAGE - 1) // PAGE
    return base, (pages + ranks - 1) // ranks * ranks * PAGE


def share_of_run(run: Run, exchange: Exchange | None) -> tuple[int, int]:
    """What this rank reads of a run."""
    if exchange is None or not run.is_together:
        return run.begin, run.end
    base, nbytes = memory_of(run, exchange)
    share = nbytes // exchange.world
    begin = min(max(base + exchange.rank * share, run.begin), run.end)
    return begin, min(max(base + (exchange.rank + 1) * share, begin), run.end)
