# SPDX-License-Identifier: Apache-2.0

"""What will be read of a model's files, what memory that takes, and its reading."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock import _native
from penstock.progress import Progress
from penstock.sessions import Session
from penstock.weights.arrays import Arrays, arrays_of
from penstock.weights.exchange import Exchange
from penstock.weights.files import Held
from penstock.weights.runs import (
    AHEAD, PAGE, RUN_BYTES, Item, Run, Share, in_units, in_windows, items_of, memory_of, part_of, runs_of, share_alone,
    share_of_run,
)
from penstock.weights.stream import Stream
from penstock.weights.tensors import Part, Tensor, collecting_paused, named


class Plan:
    """What will be read. Iterating over it reads, and gives (name, tensor) in the order of the files.

    A tensor shares its memory with its neighbours in the file (256 MiB at most): clone one that is to outlive the
    others. `bytes_from_storage` and `bytes_on_device` say what it takes, and `progress` which path moved it and why;
    when all is read, the log of penstock.weights has that, too.
    """

    def __init__(self, wanted: Iterable[tuple[Tensor, Part | None]], device: Any, dtype: Any, session: Session | None,
                 identities: Mapping[Path, tuple[int, int, int, int]], *, framework: str = "pt",
                 exchange: Exchange | None = None, budget: int | None = None,
                 check: Callable[[Tensor, Any], None] | None = None, plain: Iterable[Plain] = (),
                 held: Held | None = None,
                 tensors: Mapping[str, Tensor] | None = None) -> None:
        """plain: the same as `wanted`, for which no tensor need be described. held: the file, if it is one. tensors:
        all that there are, of which other ranks may want some."""
        here = arrays_of(framework, device).here()  # Threads differ in which device is the current one.
        self.arrays: Arrays = arrays_of(framework, here)
        self.device, self.dtype = self.arrays.device, self.arrays.dtype_named(dtype)
        self.session, self.identities, self.exchange, self.check = session, identities, exchange, check
        self.held = held
        with collecting_paused():
            run_bytes = RUN_BYTES if budget is None else max(min(RUN_BYTES, budget // (AHEAD + 1)), PAGE)
            self.runs = self._plain_runs(plain, run_bytes)
            if not self.runs:
                own = [(tensor, self._checked(tensor, part)) for tensor, part in wanted]
                alone = (share_alone(tensor, part) for tensor, part in own)
                shares = alone if exchange is None else exchange.shares(own, tensors or {})
                self.runs = self._plan_runs(shares, run_bytes)
        self.bytes_from_storage = sum(self._bytes_read(run) for run in self.runs)
        self.progress = Progress(self.bytes_from_storage)

    def _plain_runs(self, plain: Iterable[Plain], run_bytes: int) -> list[Run]:
        """No run if tensors must be described, after all."""
        if self.arrays.dlpack_device() is None:
            return []
        runs: list[Run] = []
        for file, header, picks in plain:
            pieces = _native.Pieces(header, picks, run_bytes)
            if not pieces.is_plain:
                return []
            for index, dtype in pieces.dtypes():
                self.arrays.dtype_of(Tensor(header.described(index)[0], file, dtype, (), 0, 0))
            runs.extend(Run(file, begin, end, [], False, pieces, number)
                        for number, (begin, end, _) in enumerate(pieces.runs()))
        return sorted(runs, key=_place_of)

    def _checked(self, tensor: Tensor, part: Part | None) -> Part | None:
        dtype = self.arrays.dtype_of(tensor)
        if tensor.nbytes == 0:  # Of any shape, which frameworks may not have; the others are as large as files.
            with named(f"{tensor.file}: tensor {tensor.name!r} of shape {list(tensor.shape)}"):
                self.arrays.nothing(dtype, in_units(tensor.dtype, tensor.shape))
        return None if part is None else part_of(tensor, part)

    def _plan_runs(self, shares: Iterable[Share], run_bytes: int) -> list[Run]:
        # With the pages at both ends and those that even shares add, it is no more than run_bytes.
        window = max(run_bytes - 16 * PAGE, run_bytes // 2)
        alone: list[Item] = []
        together: list[Item] = []
        for share in shares:
            is_copied = share.is_cut or self.arrays.is_converted(self.arrays.dtype_of(share.tensor), self.dtype)
            # A checksum is of all of a tensor.
            tensor = in_windows(share.tensor, window) if is_copied and self.check is None else share.tensor
            (together if share.is_together else alone).extend(items_of(share._replace(tensor=tensor)))
        runs = runs_of(alone, run_bytes, False) + runs_of(together, run_bytes, True)
        for run in runs:
            run.is_kept = run.is_kept and not any(self._is_made_anew(item) for item in run.items)
        return sorted(runs, key=_place_of)

    def _bytes_read(self, run: Run) -> int:
        begin, end = share_of_run(run, self.exchange)
        return end - begin

    @cached_property
    def names(self) -> list[str]:
        """In the order in which they will be there."""
        return list(_names_of(self.runs, {}))

    @cached_property
    def bytes_on_device(self) -> int:
        """What is kept, and what requests under way take besides."""
        copied, whole, kept = 0, {}, 0
        for run in self.runs:
            for item in run.items:
                if item.whole is not None:
                    whole[item.whole.tensor.name] = self._bytes_copied(item.tensor, item.whole.shape)
                elif not run.is_kept:
                    copied += self._bytes_copied(item.tensor, self.shape_of(item))
            if run.is_kept:
                kept += memory_of(run, self.exchange)[1] + PAGE
        under_way = max((memory_of(run, self.exchange)[1] + PAGE for run in self.runs), default=0) * (AHEAD + 1)
        return copied + sum(whole.values()) + kept + (under_way if any(not run.is_kept for run in self.runs) else 0)

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

    def _is_made_anew(self, item: Item) -> bool:
        """Whether the tensor cannot be a view of what is read: where it is cut, converted or put together."""
        return item.part is not None or item.whole is not None or (
            self.dtype is not None and self.arrays.is_converted(self.arrays.dtype_of(item.tensor), self.dtype))

    @staticmethod
    def shape_of(item: Item) -> tuple[int, ...]:
        if item.part is None:
            return item.rows
        return (*item.rows[:item.part.dim], item.part.stop - item.part.start, *item.rows[item.part.dim + 1:])

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<penstock.weights.Plan: {len(self)} tensors, {self.bytes_from_storage} bytes to {self.device}; {self}>"

    def __str__(self) -> str:
        files = list(dict.fromkeys(str(run.file) for run in self.runs))
        others = f" and {len(files) - 1} other files" if len(files) > 1 else ""
        return f"{files[0] if files else 'no file'}{others}: {self.progress}"

    def shortage(self) -> str | None:
        """Why the tensors will not fit, or None."""
        free = self.arrays.free_bytes()
        if free is None or self.bytes_on_device <= free:
            return None
        return (f"the tensors take {self.bytes_on_device} bytes on {self.device}, of which {free} are free: nothing "
                "was read. Choose fewer tensors, parts of them, or another device.")

    def load(self, on_progress: Callable[[Progress], None] | None = None) -> dict[str, Any]:
        """All tensors by name. Raises MemoryError before the first byte where they will not fit."""
        with collecting_paused(), closing(Stream(self, on_progress, is_kept=True)) as tensors:
            return tensors.all()

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self.stream()

    def stream(self, on_progress: Callable[[Progress], None] | None = None) -> Stream:
        """(name, tensor), in the order of the files, while further ones are read: three requests at most.

        on_progress is called after each request.
        """
        return Stream(self, on_progress, is_kept=False)


Plain = tuple[Path, _native.Header, Sequence[tuple[int, int, int]] | None]  # As native pieces take it.


def _place_of(run: Run) -> tuple[str, int]:
    return str(run.file), run.begin


def _names_of(runs: Iterable[Run], left: dict[str, int]) -> Iterator[str]:
    """left: of tensors that are put together, the pieces that are still to come."""
    for run in runs:
        if run.pieces is not None:
            yield from run.pieces.names(run.number)
        for item in run.items:
            if item.whole is None:
                yield item.tensor.name
                continue
            name = item.whole.tensor.name
            left[name] = left.get(name, item.whole.pieces) - 1
            if left[name] == 0:
                yield name
