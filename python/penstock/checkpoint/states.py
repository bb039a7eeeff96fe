# SPDX-License-Identifier: Apache-2.0

"""Saves and loads the state of a single process."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from penstock.checkpoint.changes import begin_with_links
from penstock.checkpoint.governing import FULL, Pace
from penstock.checkpoint.layout import NAME, CheckpointError, Chunk, Extent, Layout, SavedTensor, check_shape
from penstock.checkpoint.memory import bytes_of
from penstock.checkpoint.pieces import Described, Piece, placed, sources_of
from penstock.checkpoint.publishing import publish
from penstock.checkpoint.reading import folder_of, read_layout
from penstock.checkpoint.restoring import Wanted, restore, tell_of_load
from penstock.checkpoint.starting import Start
from penstock.checkpoint.storing import Content, Storing
from penstock.checkpoint.trees import put_together, taken_apart
from penstock.progress import OnProgress, Progress
from penstock.sessions import Session
from penstock.weights.arrays import Arrays, arrays_of, format_dtype
from penstock.weights.headers import Weights
from penstock.weights.runs import in_units
from penstock.weights.tensors import Tensor, WeightsError, format_shape

log = logging.getLogger("penstock.checkpoint")


def save(state: Any, folder: str | os.PathLike[str], *, session: Session | None = None, durable: bool = True,
         direct: bool | None = None, on_progress: OnProgress | None = None, changed_only: bool = False) -> Progress:
    """Saves a state: dicts, lists and tuples of tensors (of torch or numpy, on any device) and plain data.

    Creates the folder; an existing checkpoint in it is replaced once the new one is whole. durable: it is on the disk
    when this returns. direct: write with O_DIRECT; None: only if a GPU's bytes then go directly to the drive.
    changed_only: write what differs from the newest checkpoint beside it that this process saved, and link its files
    for the rest; where that cannot be, the log says why. Returns the bytes by path, of what was written.

    Raises CheckpointError for other data, and for a tensor that changes meanwhile, and OSError (ENOSPC) before the
    first byte if it does not fit.
    """
    tree, tensors = taken_apart(state)
    known, start = described(tensors), Start(Path(folder), tree, durable=durable)
    with start.given_up_on_failure():
        sources = begin_with_links(start, known, tensors, session) if changed_only else sources_of(known, tensors)
        if changed_only:
            log.info("%s: %s", start.folder, start.links)
        return Save(start, known, sources, session=session, direct=direct, on_progress=on_progress).whole()


class Save:
    """A save in two steps: writes the files, then flushes and publishes them.

    start: begun already if it has links. tensors: dtype and shape of those of the tree; sources: the objects with the
    bytes of each piece that is not linked, possibly copies. sums: checksums of pieces, where they are known. writers,
    pace: see Storing.
    """

    def __init__(self, start: Start, tensors: Described, sources: Mapping[Piece, Any], *, session: Session | None,
                 direct: bool | None, on_progress: OnProgress | None,
                 sums: Mapping[Piece, Sequence[int]] = MappingProxyType({}), writers: int = 0,
                 pace: Pace = FULL) -> None:
        self._start, self._described, self._pieces = start, tensors, list(sources)
        if not start.is_begun:
            start.begin(sources)
        known = {**sums, **start.sums}
        contents = [Content(piece.name, piece.nbytes, partial(sources.__getitem__, piece), known.get(piece))
                    for piece in sources]
        self._storing = Storing(start.folder, start.prefix, contents, session=session, durable=start.durable,
                                direct=direct, on_progress=on_progress, writers=writers, pace=pace)
        start.names += self._storing.names

    def write(self) -> None:
        self._storing.write()

    def finish(self) -> Progress:
        stored = self._storing.finish()
        self._start.flush_links()
        layout = self._start.layout
        self._describe(layout, {**self._start.extents, **dict(zip(self._pieces, stored.extents, strict=True))})
        publish(self._start.folder, layout, self._start.lease, durable=self._start.durable)
        if self._start.hashes:
            self._start.remember()
        return stored.progress

    def _describe(self, layout: Layout, extents: Mapping[Piece, Extent]) -> None:
        chunks: dict[str, list[Chunk]] = {name: [] for name in self._described}
        for piece, extent in sorted(extents.items(), key=lambda each: each[0].begin):
            known = replace(extent, hash64=self._start.hashes.get(piece))
            chunks[piece.name].append(Chunk(piece.at, piece.shape, known))
            layout.count_file(extent)
        for name, (dtype, shape) in self._described.items():
            layout.tensors[name] = SavedTensor(dtype, shape, tuple(chunks[name]))

    def whole(self) -> Progress:
        self.write()
        return self.finish()


def described(tensors: Mapping[str, Any]) -> Described:
    """dtype and shape of each. Raises CheckpointError for what the format cannot express."""
    return {name: _described(name, tensor) for name, tensor in tensors.items()}


def _described(name: str, tensor: Any) -> tuple[str, tuple[int, ...]]:
    with _as_checkpoint_error():
        dtype = format_dtype(name, tensor)
    check_shape(name, dtype, tuple(tensor.shape))
    return dtype, format_shape(dtype, tensor.shape)


def load(folder: str | os.PathLike[str], device: Any = "cpu", *, framework: str = "pt", session: Session | None = None,
         on_progress: OnProgress | None = None) -> Any:
    """Returns the saved state, with its tensors on the device. framework: "pt", or "np" for numpy arrays.

    Compares every checksum, and logs paths and rate at the level INFO. Raises CheckpointError with file, tensor and
    piece if one is wrong, and MemoryError before the first byte if the tensors do not fit.
    """
    place = folder_of(folder)
    layout = read_layout(place)
    if layout.tree is None and (layout.tensors or layout.objects):
        raise CheckpointError(f"{place}: it was saved by torch.distributed.checkpoint: load it with Reader, or its "
                              "tensors with penstock.weights")
    places = _places(place, layout)
    made = _made_for(layout, arrays_of(framework, device)) if layout.tensors else {}
    wanted = [Wanted(name, chunk.extent, 0, bytes_of(made[name])[begin:begin + chunk.extent.nbytes])
              for name, chunks in places.items() for chunk, begin in chunks]
    done = restore(place, wanted, session, on_progress)
    tell_of_load(place, done)
    try:
        return put_together(layout.tree, made)
    except (TypeError, ValueError, CheckpointError) as error:
        raise CheckpointError(f"{place / NAME}: its state makes no sense: {error}") from None


def _places(place: Path, layout: Layout) -> dict[str, list[tuple[Chunk, int]]]:
    try:
        return {name: placed(name, tensor) for name, tensor in layout.tensors.items()}
    except CheckpointError as error:
        raise CheckpointError(f"{place / NAME}: {error}") from None


def _made_for(layout: Layout, arrays: Arrays) -> dict[str, Any]:
    """Allocates memory for each tensor."""
    wanted, free = layout.nbytes, arrays.free_bytes()
    if free is not None and wanted > free:
        raise MemoryError(f"the tensors take {wanted} bytes on {arrays.device}, of which {free} are free: nothing was "
                          "read. Load to another device, or some of them with penstock.weights")
    made = {}
    for name, tensor in layout.tensors.items():
        there = Tensor(name, Path(NAME), tensor.dtype, tensor.shape, 0, 0)
        made[name] = arrays.empty(arrays.dtype_of(there), in_units(tensor.dtype, tensor.shape))
    return made


def load_into(tensors: dict[str, Any], folder: str | os.PathLike[str], *, session: Session | None = None) -> None:
    """Loads into existing tensors, by their names in the checkpoint. Raises CheckpointError for missing ones before
    anything is read."""
    place = folder_of(folder)
    with _as_checkpoint_error():
        _fill(tensors, Weights(place), place, session)


def _fill(tensors: dict[str, Any], found: Weights, place: Path, session: Session | None) -> None:
    lacking = sorted(set(tensors) - set(found.tensors))
    if lacking:
        raise CheckpointError(f"{place}: it lacks {lacking[:5]}")
    for name, target in tensors.items():
        if tuple(target.shape) != in_units(found.tensors[name].dtype, found.tensors[name].shape):
            raise CheckpointError(f"{place}: tensor {name!r} is {list(found.tensors[name].shape)}, and "
                                  f"{list(target.shape)} in the state to load into")
    if not tensors:
        return
    plan = found.plan(list(tensors), device=next(iter(tensors.values())).device, session=session)
    for name, tensor in plan:
        tensors[name].detach().copy_(tensor)
    tell_of_load(place, plan.progress)


@contextmanager
def _as_checkpoint_error() -> Iterator[None]:
    try:
        yield
    except WeightsError as error:
        raise CheckpointError(str(error)) from None
