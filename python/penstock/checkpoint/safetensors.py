# SPDX-License-Identifier: Apache-2.0

"""Checkpoints whose data files are safetensors, for stock readers:

    dcp.save(model.state_dict(), storage_writer=SafetensorsWriter("checkpoints/step-100"))

Torch's HuggingFaceStorageReader and consolidate_safetensors_files, safetensors and `penstock.weights` read them. With
their checkpoint.json they are normal checkpoints of Penstock's: Reader, verify, latest and drain work.

Ranks write into a hidden folder next to the target. Rank 0 names the files, and renames the folder in one step, which
also replaces an existing checkpoint: stock readers never see a partial or mixed one.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch.distributed.checkpoint import metadata as dcp
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult

from penstock import _native
from penstock.checkpoint.distributed import Writer, content_of, name_of_dtype, nbytes_of_item, saved_tensor
from penstock.checkpoint.ids import hold, new_lease
from penstock.checkpoint.layout import PIECE_BYTES, CheckpointError, Extent, Layout
from penstock.checkpoint.leftovers import give_up, give_up_staged, sweep_staging
from penstock.checkpoint.memory import Order
from penstock.checkpoint.publishing import give_name
from penstock.checkpoint.stock import check_replaceable, index_of, put_in_place
from penstock.checkpoint.storing import FILE_BYTES_MIN, FILES_MAX, check_room, goes_direct, room_of, write_content
from penstock.files import File
from penstock.folders import make_folder
from penstock.progress import Shared
from penstock.sessions import Session, default_session
from penstock.threads import for_each
from penstock.weights.headers import INDEX, SHARDING
from penstock.weights.runs import PAGE
from penstock.weights.tensors import OTHERS, format_shape

__all__ = ["SafetensorsWriter"]

FORMAT = {"format": "pt", "DCP_VERSION": "1.0"}  # Metadata that torch's own writer adds besides SHARDING.


@dataclass(frozen=True)
class Piece:
    """The place of a chunk, and the header of its file."""

    extent: Extent
    header: Extent


class SafetensorsWriter(Writer):
    """path: the folder of one checkpoint; `checkpoint_id` of `dcp.save` names another. durable: the checkpoint is on
    the disk when the save returns. An existing checkpoint is replaced if the folder has nothing else.

    Only tensors: objects and dtypes that safetensors lacks are refused by name before the first byte."""

    @property
    def _target(self) -> Path:
        # The target of a link, since the staging folder must be next to it.
        return Path(os.path.realpath(self._folder))

    @property
    def _staging(self) -> Path:
        return self._target.with_name(f".{self._target.name}.saving")

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        for item in plan.items:
            _check(item)
        if self._staging.is_symlink():
            raise CheckpointError(f"{self._staging}: this is a link, and old files in this folder are removed: remove "
                                  "the link")
        make_folder(self._staging, durable=self._durable)
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        make_folder(self._staging, durable=self._durable)  # Another process may have removed it as a leftover.
        check_replaceable(self._target, self._staging)
        items = [item for plan in plans for item in plan.items]
        check_room(self._staging, sum(room_of(item.index.fqn, nbytes_of_item(item)) for item in items))
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> torch.futures.Future[list[WriteResult]]:
        rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
        lease = self._save.lease = new_lease(self._target, beside=self._staging, durable=self._durable)
        files, order = _files_of(plan.items), Order()
        counter = Shared(sum(nbytes_of_item(item) for items in files for item in items), None)
        self.progress = counter.progress
        places = [self._staging / f"{lease.save_id}-{rank}-{i}" for i in range(len(files))]
        self._save.files = tuple(place.name for place in places)

        pieces: dict[dcp.MetadataIndex, Piece] = {}

        def write(file: tuple[Path, list[WriteItem]]) -> None:
            order.come_behind()
            pieces.update(self._write_file(*file, planner, counter))

        try:
            for_each(write, zip(places, files, strict=True), len(files))
        except BaseException:
            give_up(self._staging, self._save.files, lease)
            raise
        counter.count()
        done: torch.futures.Future[list[WriteResult]] = torch.futures.Future()
        done.set_result([WriteResult(index=item.index, size_in_bytes=nbytes_of_item(item),
                                     storage_data=pieces.get(item.index)) for item in plan.items])
        return done

    def _write_file(self, place: Path, items: list[WriteItem], planner: SavePlanner,
                    counter: Shared) -> dict[dcp.MetadataIndex, Piece]:
        session = self._session or default_session()
        header, offsets = _header_of(items)
        head = Extent(place.name, 0, len(header), tuple(_native.crc32c(header, PIECE_BYTES)))
        by_name = {item.index.fqn: item for item in items}
        direct = goes_direct(session, self._durable, self._direct)
        opened: File = (session.create(place, direct=direct) if self._durable
                        else session.open(place, "x", direct=direct))
        pieces = {}
        with opened:
            opened.write(header)
            for each, begin, _ in offsets:
                content = content_of(by_name[each], planner)
                sums = write_content(session, opened, content, begin, counter)
                pieces[by_name[each].index] = Piece(Extent(place.name, begin, content.nbytes, tuple(sums)), head)
        return pieces

    def finish(self, metadata: dcp.Metadata, results: list[list[WriteResult]]) -> None:
        ranks: dict[str, int] = {}  # The rank of each file, from 1 on.
        pieces: dict[dcp.MetadataIndex, Piece] = {}
        for rank, results_of_one in enumerate(results, 1):
            found = {result.index: result.storage_data for result in results_of_one if result.storage_data}
            ranks |= {file: rank for file in sorted({piece.extent.file for piece in found.values()})}
            pieces |= found
        if not pieces:
            raise CheckpointError(f"{self._folder}: no tensor is in what is to be saved")
        lease = self._save.lease or new_lease(self._target, beside=self._staging, durable=self._durable)
        # The latest id of all ranks, as in Writer.
        save_id = max(lease.save_id, *(_id_of(file) for file in ranks))
        names = _last_names(ranks, is_model=index_of(_layout_of(save_id, metadata, pieces)) is not None)
        layout = _layout_of(save_id, metadata, {index: Piece(replace(piece.extent, file=names[piece.extent.file]),
                                                    replace(piece.header, file=names[piece.header.file]))
                                       for index, piece in pieces.items()})
        whole = self._staging / lease.save_id
        try:
            self._fill(whole, layout, names)
            put_in_place(whole, self._target, durable=self._durable)
        except BaseException:
            give_up_staged([whole, *(self._staging / file for file in names)], self._target, save_id, lease)
            raise
        for each in {_id_of(file) for file in ranks} - {lease.save_id}:
            hold(self._staging, each).end()
        lease.end()
        self.save_id = save_id
        with contextlib.suppress(OSError):  # Another save has files in it.
            self._staging.rmdir()
        sweep_staging(self._target.parent)

    def _fill(self, whole: Path, layout: Layout, names: dict[str, str]) -> None:
        whole.mkdir()
        for file, name in names.items():
            (self._staging / file).rename(whole / name)
        if (index := index_of(layout)) is not None:
            session = self._session or default_session()
            with session.create(whole / INDEX) if self._durable else session.open(whole / INDEX, "x") as opened:
                opened.write(index)
        give_name(whole, layout, durable=self._durable)


def _id_of(file: str) -> str:
    """The save id of the rank that wrote the file."""
    return "-".join(file.split("-")[:2])


def _check(item: WriteItem) -> None:
    """Raises CheckpointError for data that safetensors cannot store."""
    name = item.index.fqn
    if item.type == WriteItemType.BYTE_IO or item.tensor_data is None:
        raise CheckpointError(f"{name!r} is no tensor, which safetensors cannot hold: leave it out of what is saved, "
                              "make it a tensor, or save with Writer")
    if name_of_dtype(name, item.tensor_data.properties.dtype) in OTHERS:
        raise CheckpointError(f"tensor {name!r} is of {item.tensor_data.properties.dtype}, which safetensors cannot "
                              "hold: convert it, or save with Writer")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise CheckpointError(f"tensor {name!r}: UTF-8 cannot write its name: rename it") from None


def _files_of(items: Iterable[WriteItem]) -> list[list[WriteItem]]:
    """Assigns chunks to files: the largest first, each to the smallest file without a chunk of that name. Empty shares
    are dropped, except those of empty tensors."""
    wanted = [item for item in items
              if item.tensor_data and (0 not in item.tensor_data.chunk.sizes or 0 in item.tensor_data.size)]
    total = sum(map(nbytes_of_item, wanted))
    files: list[dict[str, WriteItem]] = [{} for _ in range(max(1, min(FILES_MAX, total // FILE_BYTES_MIN)))]
    filled = [0] * len(files)
    for item in sorted(wanted, key=nbytes_of_item, reverse=True):
        free = [i for i, file in enumerate(files) if item.index.fqn not in file]
        if not free:
            free = [len(files)]
            files.append({})
            filled.append(0)
        chosen = min(free, key=filled.__getitem__)
        files[chosen][item.index.fqn] = item
        filled[chosen] += nbytes_of_item(item)
    return [list(file.values()) for file in files if file]


def _header_of(items: list[WriteItem]) -> tuple[bytes, list[tuple[str, int, int]]]:
    described, offsets = [], {}
    for item in items:
        assert item.tensor_data is not None
        name, chunk = item.index.fqn, item.tensor_data.chunk
        dtype = name_of_dtype(name, item.tensor_data.properties.dtype)
        described.append((name, dtype, list(format_shape(dtype, chunk.sizes))))
        offsets[name] = {"saved_offsets": list(format_shape(dtype, chunk.offsets))}
    try:
        return _native.make_safetensors_header(described, {**FORMAT, SHARDING: json.dumps(offsets)}, PAGE)
    except ValueError as error:
        raise CheckpointError(str(error)) from None


def _layout_of(save_id: str, metadata: dcp.Metadata, pieces: dict[dcp.MetadataIndex, Piece]) -> Layout:
    extents = {index: piece.extent for index, piece in pieces.items()}
    layout = Layout(save_id, headers={piece.header.file: piece.header for piece in pieces.values()})
    for name, entry in metadata.state_dict_metadata.items():
        assert isinstance(entry, dcp.TensorStorageMetadata)
        layout.tensors[name] = saved_tensor(name, entry, extents)
    for extent in (*extents.values(), *layout.headers.values()):
        layout.count_file(extent)
    layout.paths = {name: list(path) for name, path in (metadata.planner_data or {}).items()}
    return layout


def _last_names(ranks: dict[str, int], *, is_model: bool) -> dict[str, str]:
    """The final names, numbered like those of torch's writer, so that a missing file is noticed without an index."""
    return {file: f"{'' if is_model else f'shard-{rank:05}-'}model-{i:05}-of-{len(ranks):05}.safetensors"
            for i, (file, rank) in enumerate(ranks.items(), 1)}
