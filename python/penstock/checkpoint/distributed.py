# SPDX-License-Identifier: Apache-2.0

"""Storage for torch.distributed.checkpoint:

    dcp.save(state, storage_writer=Writer("checkpoints/step-100"))
    dcp.load(state, storage_reader=Reader("checkpoints/step-100"))

Each rank writes its own data files, and reads the bytes that it needs, for any number of ranks. Rank 0 publishes
checkpoint.json when all ranks have flushed their files: until then the folder keeps its previous checkpoint.
"""

from __future__ import annotations

import dataclasses
import io
import math
import os
import threading
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint import metadata as dcp
from torch.distributed.checkpoint.planner import (
    LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType,
)
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult

from penstock.checkpoint.ids import new_lease
from penstock.checkpoint.layout import CheckpointError, Chunk, Extent, Layout, SavedTensor, check_shape
from penstock.checkpoint.leases import Lease
from penstock.checkpoint.leftovers import give_up, sweep
from penstock.checkpoint.publishing import publish
from penstock.checkpoint.reading import folder_of, of_one_save, read_layout
from penstock.checkpoint.restoring import Wanted, restore, tell_of_load
from penstock.checkpoint.sources import Source
from penstock.checkpoint.storing import Content, Storing, check_room, room_of
from penstock.folders import make_folder
from penstock.progress import Progress
from penstock.sessions import Session
from penstock.weights.plan import Plan
from penstock.weights.runs import in_units
from penstock.weights.tensors import DTYPES, NAMES, OTHERS, SIZES, Part, Tensor, WeightsError, format_shape, nbytes_of

__all__ = ["Reader", "Writer"]


class _Save(threading.local):
    """A Writer's state for the save of this thread: one thread does all of a save."""

    named: Path | None = None  # From `checkpoint_id`, which torch passes first, if there is one.
    folder = Path()
    # Held until rank 0 has published; other ranks do not learn of that, and hold it until their next save.
    lease: Lease | None = None
    files: tuple[str, ...] = ()  # Files of this rank.


class Writer(StorageWriter):
    """path: the folder of one checkpoint; `checkpoint_id` of `dcp.save` names another for that save. durable: the
    checkpoint is on the disk when the save returns. direct: write with O_DIRECT; None: only if a GPU's bytes then go
    directly to the drive. `progress` is what this rank wrote last, and by which paths; `save_id` (on rank 0) is the
    last save's id in checkpoint.json, None until it is published. One Writer may serve several saves at a time, and can
    be pickled to another process if it has no session of its own."""

    def __init__(self, path: str | os.PathLike[str], *, session: Session | None = None, durable: bool = True,
                 direct: bool | None = None) -> None:
        super().__init__()
        self._given, self._session, self._durable, self._direct = Path(path), session, durable, direct
        self._save = _Save()
        self.progress = Progress(0)
        self.save_id: str | None = None

    @property
    def _folder(self) -> Path:
        return self._save.folder

    def __reduce__(self) -> tuple[Any, ...]:
        if self._session is not None:
            raise CheckpointError("this Writer was given a session, which belongs to this process, so that async_save "
                                  "cannot save in another: give it none, or use AsyncCheckpointerType.THREAD")
        return partial(type(self), durable=self._durable, direct=self._direct), (self._given,)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        self._save.named = Path(checkpoint_id) if checkpoint_id else None

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if self._save.lease is not None:
            # The lease of a save that another rank named, or that failed: a sweep removes its files.
            self._save.lease.close()
        self._save.lease, self._save.files = None, ()
        self._save.folder, self._save.named, self.save_id = self._save.named or self._given, None, None
        if kwargs.get("use_collectives") is False:
            raise CheckpointError("use_collectives=False has each rank publish for itself, which is no whole "
                                  "checkpoint: leave it out")

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        for item in plan.items:
            nbytes_of_item(item)  # Refuses unsupported dtypes with our own message: planners fail on some.
        make_folder(self._folder, durable=self._durable)
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        sweep(self._folder)
        items = [item for plan in plans for item in plan.items]
        check_room(self._folder, sum(room_of(item.index.fqn, nbytes_of_item(item)) for item in items))
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> torch.futures.Future[list[WriteResult]]:
        # Unique to this rank and this save: a planner that caches plans returns those of an earlier save.
        rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
        contents = [content_of(item, planner) for item in plan.items]
        lease = self._save.lease = new_lease(self._folder, durable=self._durable)
        storing = Storing(self._folder, f"{lease.save_id}-{rank}", contents, session=self._session,
                          durable=self._durable, direct=self._direct)
        self._save.files = tuple(storing.names)
        try:
            storing.write()
            self._on_written()
            stored = storing.finish()
        except BaseException:
            give_up(self._folder, storing.names, lease)
            raise
        self.progress = stored.progress
        done: torch.futures.Future[list[WriteResult]] = torch.futures.Future()
        done.set_result([WriteResult(index=item.index, size_in_bytes=extent.nbytes, storage_data=extent)
                         for item, extent in zip(plan.items, stored.extents, strict=True)])
        return done

    def _on_written(self) -> None:
        """Called when the state may change."""

    def finish(self, metadata: dcp.Metadata, results: list[list[WriteResult]]) -> None:
        written = {result.index: result.storage_data for results_of_one in results for result in results_of_one}
        # The latest id of all ranks; the next save reads it from the file names.
        ids = ["-".join(extent.file.split("-")[:2]) for extent in written.values()]
        lease = self._save.lease or new_lease(self._folder, durable=self._durable)
        layout = Layout(max(ids, default=lease.save_id))
        for name, entry in metadata.state_dict_metadata.items():
            if isinstance(entry, dcp.TensorStorageMetadata):
                layout.tensors[name] = saved_tensor(name, entry, written)
            else:
                layout.objects[name] = written[dcp.MetadataIndex(name)]
        for extent in written.values():
            layout.count_file(extent)
        layout.paths = {name: list(path) for name, path in (metadata.planner_data or {}).items()}
        publish(self._folder, layout, lease, durable=self._durable)
        self.save_id = layout.save_id

    def storage_meta(self) -> dcp.StorageMeta | None:
        return dcp.StorageMeta(checkpoint_id=str(self._save.named or self._given), save_id=self.save_id)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return "://" not in str(checkpoint_id)


def name_of_dtype(name: str, dtype: torch.dtype) -> str:
    known = NAMES.get(str(dtype).removeprefix("torch."))
    if known is None:
        raise CheckpointError(f"tensor {name!r} is of {dtype}, which the format cannot hold")
    return known


def nbytes_of_item(item: WriteItem) -> int:
    """The size of the chunk; torch's own sizes are of the whole tensor."""
    if item.type == WriteItemType.BYTE_IO or item.tensor_data is None:
        return 0
    dtype, sizes = name_of_dtype(item.index.fqn, item.tensor_data.properties.dtype), item.tensor_data.chunk.sizes
    check_shape(item.index.fqn, dtype, tuple(sizes))
    return nbytes_of(dtype, format_shape(dtype, sizes))


def content_of(item: WriteItem, planner: SavePlanner) -> Content:
    if item.type == WriteItemType.BYTE_IO:
        content: Any = planner.resolve_data(item)
        text = content.getbuffer()
        return Content(item.index.fqn, text.nbytes, lambda: text)
    # Resolved late, so that only data being written is in memory.
    return Content(item.index.fqn, nbytes_of_item(item), lambda: planner.resolve_data(item))


def saved_tensor(name: str, entry: dcp.TensorStorageMetadata, written: dict[dcp.MetadataIndex, Extent]) -> SavedTensor:
    dtype = name_of_dtype(name, entry.properties.dtype)
    chunks = [Chunk(format_shape(dtype, chunk.offsets), format_shape(dtype, chunk.sizes),
                    written[dcp.MetadataIndex(name, chunk.offsets)])
              # A rank without a share may list an empty chunk.
              for chunk in entry.chunks if 0 not in chunk.sizes or 0 in entry.size]
    return SavedTensor(dtype, format_shape(dtype, entry.size), tuple(chunks[:1] if 0 in entry.size else chunks))


class Reader(StorageReader):
    """path: the folder of one checkpoint; `checkpoint_id` of `dcp.load` names another. Each checksum covers 16 MiB: a
    piece that is read only in part is not checked. `progress` is what this rank read last, and by which paths."""

    def __init__(self, path: str | os.PathLike[str], *, session: Session | None = None) -> None:
        super().__init__()
        self._path, self._session = folder_of(path), session
        self.load_id = str(uuid.uuid4())
        self.progress = Progress(0)
        self._layout = Layout("")  # As read_metadata() found it: another save may replace it meanwhile.

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        self.load_id = str(uuid.uuid4())
        if checkpoint_id:
            self._path = Path(checkpoint_id)

    # torch calls a method with a parameter named `kwargs` again for a single rank, and then reports the same error
    # twice.
    def read_metadata(self, *args: Any, **others: Any) -> dcp.Metadata:
        layout = self._layout = read_layout(self._path)
        described: dict[str, Any] = {name: _metadata_of(tensor) for name, tensor in layout.tensors.items()}
        described |= {name: dcp.BytesStorageMetadata() for name in layout.objects}
        places: dict[dcp.MetadataIndex, Any] = {
            dcp.MetadataIndex(name, torch.Size(in_units(tensor.dtype, chunk.at))): (name, chunk)
            for name, tensor in layout.tensors.items() for chunk in tensor.chunks}
        places |= {dcp.MetadataIndex(name): extent for name, extent in layout.objects.items()}
        paths = {name: tuple(path) for name, path in layout.paths.items()}
        return dcp.Metadata(described, paths or None, places, dcp.StorageMeta(
            checkpoint_id=str(self._path), save_id=layout.save_id, load_id=self.load_id))

    def set_up_storage_reader(self, metadata: dcp.Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self._places: dict[dcp.MetadataIndex, Any] = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return dataclasses.replace(plan, storage_data=self._layout.save_id)

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        if any(plan.storage_data != self._layout.save_id for plan in plans):
            raise CheckpointError(f"{self._path}: it was saved anew while ranks began to load it: load it again")
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> torch.futures.Future[None]:
        self.progress = Progress(0)
        with of_one_save(self._path, self._layout):
            self._read(plan, planner)
        self.progress.bytes_total = self.progress.bytes_done
        tell_of_load(self._path, self.progress)
        done: torch.futures.Future[None] = torch.futures.Future()
        done.set_result(None)
        return done

    def _read(self, plan: LoadPlan, planner: LoadPlanner) -> None:
        filled: list[Wanted] = []   # Whole rows are read directly into their place.
        cut: list[tuple[ReadItem, torch.Tensor]] = []
        targets = []
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(self._object(item)))
                continue
            target = planner.resolve_tensor(item).detach()
            targets.append((item, target))
            name, chunk = self._places[item.storage_index]
            rows = _rows_of(item, chunk, self._layout.tensors[name].dtype)
            if rows is not None and _is_plain(target, _torch_dtype(self._layout.tensors[name].dtype)):
                filled.append(Wanted(name, chunk.extent, rows, target))
            else:
                cut.append((item, target))
        self.progress.add(restore(self._path, filled, self._session))
        by_device: dict[torch.device, list[tuple[ReadItem, torch.Tensor]]] = {}
        for item, target in cut:
            by_device.setdefault(target.device, []).append((item, target))
        for device, items in by_device.items():
            self._read_cut(device, items)
        for item, target in targets:
            planner.commit_tensor(item, target)

    def _object(self, item: ReadItem) -> bytes:
        extent: Extent = self._places[dcp.MetadataIndex(item.storage_index.fqn)]
        content = bytearray(extent.nbytes)
        self.progress.add(restore(self._path, [Wanted(item.storage_index.fqn, extent, 0, content)], self._session))
        return bytes(content)

    def _read_cut(self, device: torch.device, items: list[tuple[ReadItem, torch.Tensor]]) -> None:
        """Reads rows of stored chunks, and copies the wanted columns to their place."""
        source = Source(self._path, self._layout)
        pairs, wanted = [], {}
        for item, target in items:
            name, chunk = self._places[item.storage_index]
            unique = name
            while unique in wanted:
                unique += " again"
            tensor = Tensor(unique, self._path / chunk.extent.file, self._layout.tensors[name].dtype, chunk.shape,
                            chunk.extent.offset, chunk.extent.nbytes)
            pairs.append((tensor, _row_part(item, tensor)))
            wanted[unique] = item, target
        plan = Plan(pairs, device, None, self._session, source.identities, check=source.check)
        try:
            for unique, array in plan:
                item, target = wanted[unique]
                for dim, (begin, size) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
                    if dim > 0:
                        array = array.narrow(dim, begin, size)
                target.copy_(array)
        except WeightsError as error:
            raise CheckpointError(str(error)) from None
        self.progress.add(plan.progress)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return (Path(checkpoint_id) / "checkpoint.json").is_file()


def _rows_of(item: ReadItem, chunk: Chunk, dtype: str) -> int | None:
    """The offset of an item's rows in the chunk's bytes; None if it does not need whole rows."""
    shape = in_units(dtype, chunk.shape)
    if tuple(item.lengths[1:]) != shape[1:]:
        return None
    return item.storage_offsets[0] * math.prod(shape[1:]) * SIZES[dtype] if shape else 0


def _is_plain(target: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether the file's bytes can be read into the target unchanged."""
    return target.dtype == dtype and target.is_contiguous() and not target.is_conj() and not target.is_neg()


def _torch_dtype(dtype: str) -> torch.dtype:
    return getattr(torch, DTYPES.get(dtype) or OTHERS[dtype])  # type: ignore[no-any-return]


def _row_part(item: ReadItem, tensor: Tensor) -> Part | None:
    if not tensor.shape:
        return None
    unit = 2 if tensor.dtype == "F4" and len(tensor.shape) == 1 else 1
    begin, size = item.storage_offsets[0] * unit, item.lengths[0] * unit
    return None if size == tensor.shape[0] else Part(0, begin, begin + size)


def _metadata_of(tensor: SavedTensor) -> dcp.TensorStorageMetadata:
    return dcp.TensorStorageMetadata(
        properties=dcp.TensorProperties(dtype=_torch_dtype(tensor.dtype)),
        size=torch.Size(in_units(tensor.dtype, tensor.shape)),
        chunks=[dcp.ChunkStorageMetadata(torch.Size(in_units(tensor.dtype, chunk.at)),
                                         torch.Size(in_units(tensor.dtype, chunk.shape)))
                for chunk in tensor.chunks])
