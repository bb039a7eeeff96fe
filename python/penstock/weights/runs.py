# SPDX-License-Identifier: Apache-2.0

"""The ranges of files that hold the tensors that are wanted: items, and the runs of neighbours that one request reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock import _native
from penstock.weights.tensors import Chunk, Part, Tensor, WeightsError

if TYPE_CHECKING:
    from penstock.weights.exchange import Exchange

RUN_BYTES = 256 << 20   # The most that one request reads, unless a single tensor is larger.
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
    is_wanted: bool = True      # Else it is read for other ranks.


class Share(NamedTuple):
    """What a rank does for a tensor."""

    tensor: Tensor
    part: Part | None          # What it keeps; None for all.
    is_cut: bool               # Some rank that reads it keeps less than is read.
    is_together: bool = False  # The ranks read it together.
    is_wanted: bool = True     # Else it is read for other ranks.


def items_of(share: Share) -> list[Item]:
    """The part is one of part_of()."""
    tensor, part, is_together = share.tensor, share.part, share.is_together
    items = _pieces_of(tensor, part, is_together) if tensor.chunks else [_item_of(tensor, part, is_together)]
    return items if share.is_wanted else [item._replace(is_wanted=False) for item in items]


def in_windows(tensor: Tensor, nbytes: int) -> Tensor:
    """The tensor as pieces of some rows and of that many bytes at most, if one row is no larger, so that a copy of it
    needs little memory besides."""
    if tensor.nbytes <= nbytes or tensor.chunks or tensor.strides is not None or tensor.nbytes % tensor.shape[0] != 0:
        return tensor
    row = tensor.nbytes // tensor.shape[0]
    count = max(nbytes // row, 1)
    chunks = []
    for first in range(0, tensor.shape[0], count):
        shape = (min(count, tensor.shape[0] - first), *tensor.shape[1:])
        piece = Tensor(tensor.name, tensor.file, tensor.dtype, shape, tensor.offset + first * row, shape[0] * row)
        chunks.append(Chunk((first,) + (0,) * (len(shape) - 1), piece))
    return tensor._replace(chunks=tuple(chunks))


def in_units(dtype: str, extents: tuple[int, ...]) -> tuple[int, ...]:
    """As frameworks count: of F4 two elements are one."""
    return (*extents[:-1], extents[-1] // 2) if dtype == "F4" and extents else extents


def part_of(tensor: Tensor, part: Part) -> Part:
    """The part, with a dimension from 0 on and in units. Raises WeightsError if the tensor does not have it."""
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


def _item_of(tensor: Tensor, part: Part | None, is_together: bool) -> Item:
    begin, end, shape = tensor.offset, tensor.offset + tensor.nbytes, in_units(tensor.dtype, tensor.shape)
    if part is None:
        return Item(tensor, None, begin, end, shape)
    is_strided = part.dim > 0 or tensor.strides is not None or shape[0] == 0 or tensor.nbytes % shape[0] != 0
    if is_together or is_strided:
        return Item(tensor, part, begin, end, shape)  # All is read, and cut on the device.
    row = tensor.nbytes // shape[0]
    return Item(tensor, None, begin + part.start * row, begin + part.stop * row,
                (part.stop - part.start, *shape[1:]))


def _pieces_of(tensor: Tensor, part: Part | None, is_together: bool) -> list[Item]:
    """The pieces that the part meets, where it is empty an empty one; and for other ranks the rest."""
    shape = list(in_units(tensor.dtype, tensor.shape))
    found: list[Item] = []
    if part is not None:
        shape[part.dim] = part.stop - part.start
    for chunk in tensor.chunks:
        at, share = list(in_units(tensor.dtype, chunk.at)), None
        if part is not None:
            extent = in_units(tensor.dtype, chunk.piece.shape)[part.dim]
            share = Part(part.dim, max(part.start - at[part.dim], 0), min(part.stop - at[part.dim], extent))
            at[part.dim] = max(at[part.dim] - part.start, 0)
        is_met = share is None or share.start < share.stop
        if is_met or is_together:
            found.append(_item_of(chunk.piece, share if is_met else None, is_together)._replace(at=tuple(at),
                                                                                               is_wanted=is_met))
    if not any(item.is_wanted for item in found):
        found[:1] = [_item_of(tensor.chunks[0].piece, Part(0, 0, 0), is_together)._replace(at=(0,) * len(shape))]
    whole = Whole(tensor, tuple(shape), sum(item.is_wanted for item in found))
    return [item._replace(whole=whole) for item in found]


def is_strided(tensor: Tensor, part: Part) -> bool:
    """Whether parts along this dimension lie between each other in the file."""
    return not tensor.chunks and (part.dim > 0 or tensor.strides is not None)


def share_alone(tensor: Tensor, part: Part | None) -> Share:
    return Share(tensor, part, part is not None and is_strided(tensor, part))


def is_shared(tensor: Tensor, parts: Sequence[Part | None]) -> bool:
    """Whether ranks that want these parts of a tensor, None for all of it, would read a byte twice, each by itself."""
    cut = [part for part in parts if part is not None]
    if len(parts) < 2 or (tensor.chunks and cut):  # The pieces of a tensor are each read by whom they serve.
        return False
    if len(cut) < len(parts) or any(is_strided(tensor, part) for part in cut):
        return True
    rows = sorted((part.start, part.stop) for part in cut if part.start < part.stop)
    return any(stop > start for (_, stop), (start, _) in pairwise(rows))


@dataclass
class Run:
    """Neighbours in a file, read by one request: items, or of a plan of plain tensors a run of native pieces."""

    file: Path
    begin: int
    end: int
    items: list[Item]
    is_together: bool = False  # The ranks of a group read a share each, and exchange them.
    pieces: _native.Pieces | None = None
    number: int = 0            # The run of the pieces.
    is_kept: bool = True       # Its tensors are views of its memory; else each has memory of its own.


def runs_of(items: Iterable[Item], run_bytes: int, is_together: bool) -> list[Run]:
    by_file: dict[Path, list[Item]] = {}
    file, there = None, []
    for item in items:
        if item.tensor.file is not file:
            file = item.tensor.file
            there = by_file.setdefault(file, [])
        there.append(item)
    return [run for file in by_file for run in _runs_in(file, by_file[file], run_bytes, is_together)]


def _runs_in(file: Path, items: list[Item], run_bytes: int, is_together: bool) -> Iterator[Run]:
    items, first = sorted(items, key=attrgetter("begin")), 0
    for begin, end, count in _native.neighbours([(item.begin, item.end) for item in items], run_bytes, PAGE):
        here = items[first:first + count]
        wanted = [item for item in here if item.is_wanted]
        yield Run(file, begin, end, wanted, is_together, is_kept=len(wanted) == count)
        first += count


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
