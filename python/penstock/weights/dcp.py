# SPDX-License-Identifier: Apache-2.0

"""Checkpoints of torch.distributed.checkpoint: a folder with `.metadata` and the data files of all ranks.

`.metadata` is a pickle, parsed without executing it. It lists each tensor's chunks and their places: every chunk is a
complete torch.save file inside a larger file. A tensor of one chunk is read like any other; one of several is assembled
from them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.regular import read_regular
from penstock.weights.files import identity_of, opened_file
from penstock.weights.pickles import PICKLE_BYTES_MAX, PLAIN, read_pickle
from penstock.weights.stands import Kind, Made, Stand
from penstock.weights.tensors import NAMES, Chunk, Tensor, WeightsError, format_shape
from penstock.weights.torch_files import TorchFile
from penstock.weights.torch_views import Dtype, View, checked_size
from penstock.weights.zips import SIGNATURE

METADATA = ".metadata"
IRREGULAR_MAX = 2000  # Limit of chunks that do not form a grid: each is compared with each.
RESAVE = "load it with torch.distributed.checkpoint and save it anew"

_PACKAGE = "torch.distributed.checkpoint"
_OLDER = "torch.distributed._shard.sharded_tensor.metadata"


def _path(*parts: Any) -> str:
    return "/".join(part for part in parts if isinstance(part, str))


def _text(*what: Any) -> str:
    return str(what[0])[:50] if what else ""


TABLE: dict[str, Any] = {
    **PLAIN,
    **{f"{_PACKAGE}.metadata.{name}": Kind(name) for name in (
        "Metadata", "MetadataIndex", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata",
        "TensorProperties", "StorageMeta")},
    **{f"{_PACKAGE}.filesystem.{name}": Kind(name) for name in ("_StorageInfo", "_StoragePrefix")},
    f"{_OLDER}.TensorProperties": Kind("TensorProperties"),
    f"{_OLDER}.MEM_FORMAT_ENCODING": Stand(_text),
    f"{_PACKAGE}.metadata._MEM_FORMAT_ENCODING": Stand(_text),
    "torch.serialization._get_layout": Stand(_text),
    "torch.Size": Stand(checked_size),
    **{f"{module}.{name}": Stand(_path) for module in ("pathlib", "pathlib._local")
       for name in ("Path", "PosixPath", "PurePosixPath", "WindowsPath")},
    **{f"torch.{name}": Dtype(f"torch.{name}") for name in NAMES},
}


@dataclass(frozen=True)
class Place:
    """The place of a chunk: a torch.save file at `offset` of a file."""

    file: str
    offset: int
    length: int


@dataclass(frozen=True)
class Saved:
    """A tensor in the metadata: its chunks, as (position, shape)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


class Checkpoint:
    """The tensors of a folder, and the names of other objects, in the form of penstock.formats."""

    check = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.identities: dict[Path, tuple[int, int, int, int]] = {}
        path = folder / METADATA
        said = read_regular(path, PICKLE_BYTES_MAX)
        try:
            saved, objects, places = _read_metadata(read_pickle(said, TABLE))
            wanted = {(tensor.name, at): _place_of(places, tensor.name, at)
                      for tensor in saved for at, _ in tensor.chunks}
        except WeightsError as error:
            raise WeightsError(f"{path}: {error}") from None
        self.objects: dict[str, Any] = dict.fromkeys(objects)
        pieces = self._read_pieces(wanted)
        self.tensors = {tensor.name: self._tensor(tensor, pieces) for tensor in saved}
        self.files = sorted(self.identities)

    def _read_pieces(self, wanted: Mapping[tuple[str, tuple[int, ...]], Place]) -> dict[tuple[str, tuple[int, ...]],
                                                                                       Tensor]:
        """Reads every chunk's own header, one file after the other."""
        pieces = {}
        by_file: dict[str, list[tuple[Place, tuple[str, tuple[int, ...]]]]] = {}
        for key, place in wanted.items():
            by_file.setdefault(place.file, []).append((place, key))
        for name, placed in by_file.items():
            file, end = self.folder / name, 0
            with opened_file(file) as fd:
                self.identities[file] = identity_of(fd)
                for place, key in sorted(placed, key=lambda pair: pair[0].offset):
                    if place.offset < end:
                        raise WeightsError(f"{file}: two chunks are said to be at {place.offset}: {RESAVE} in the "
                                           "format of torch.save")
                    end = place.offset + place.length
                    pieces[key] = _read_piece(file, fd, place, key[0])
        return pieces

    def _tensor(self, saved: Saved, pieces: Mapping[tuple[str, tuple[int, ...]], Tensor]) -> Tensor:
        chunks = []
        for at, shape in saved.chunks:
            piece = pieces[saved.name, at]
            expected = format_shape(saved.dtype, shape)
            if piece.shape != expected or piece.dtype != saved.dtype:
                raise WeightsError(f"{piece.file}: a chunk of {saved.name!r} is {piece.dtype} {list(piece.shape)}, and "
                                   f"{saved.dtype} {list(expected)} is expected: the files are of different "
                                   "checkpoints")
            chunks.append(Chunk(format_shape(saved.dtype, at), piece))
        return assembled(saved.name, format_shape(saved.dtype, saved.shape), chunks)


def _read_piece(file: Path, fd: int, place: Place, name: str) -> Tensor:
    if os.pread(fd, 4, place.offset) != SIGNATURE:
        raise WeightsError(f"{file}: no file of torch.save is at {place.offset}: where it was saved as safetensors, "
                           f"{RESAVE} in the format of torch.save")
    there = TorchFile(file, fd, place.offset, place.length)
    if not isinstance(there.tree, View):
        raise WeightsError(f"{file}: what is at {place.offset} is no tensor, and a chunk of {name!r} is expected")
    return there.tensor(name, there.tree)


def assembled(name: str, shape: tuple[int, ...], chunks: Iterable[Chunk]) -> Tensor:
    """Assembles a tensor from its chunks, which must fill its shape exactly."""
    given = sorted(chunks, key=lambda chunk: chunk.at)
    whole = [chunk for chunk in given if 0 not in chunk.piece.shape]
    if not given:
        raise WeightsError(f"tensor {name!r} has no chunks")
    first = (whole or given)[0].piece
    if 0 in shape:
        return first._replace(name=name, shape=shape, nbytes=0, strides=None)
    _check_tiling(name, shape, whole)
    if len(whole) == 1:
        return first._replace(name=name)
    return first._replace(name=name, shape=shape, nbytes=sum(chunk.piece.nbytes for chunk in whole), strides=None,
                          chunks=tuple(whole))


def _check_tiling(name: str, shape: tuple[int, ...], chunks: list[Chunk]) -> None:
    boxes = [(chunk.at, chunk.piece.shape) for chunk in chunks]
    is_inside = all(len(at) == len(size) == len(shape)
                    and all(0 <= a and a + s <= whole for a, s, whole in zip(at, size, shape, strict=True))
                    for at, size in boxes)
    if not is_inside or sum(_volume(size) for _, size in boxes) != _volume(shape):
        raise WeightsError(f"tensor {name!r} of shape {list(shape)}: its chunks do not fill it")
    if _is_grid(shape, boxes):
        return
    if len(boxes) > IRREGULAR_MAX:
        raise WeightsError(f"tensor {name!r}: {len(boxes)} chunks of irregular shapes are not accepted")
    # The right number of elements, and no overlap: then none is missing.
    for i, one in enumerate(boxes):
        if any(_overlap(one, other) for other in boxes[:i]):
            raise WeightsError(f"tensor {name!r}: its chunks overlap")


def _is_grid(shape: tuple[int, ...], boxes: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> bool:
    """Whether the chunks form a regular grid, as ranks write them."""
    cells = 1
    lengths: list[dict[int, int]] = []
    for dim, size in enumerate(shape):
        cuts = sorted({at[dim] for at, _ in boxes})
        cells *= len(cuts)
        lengths.append({begin: end - begin for begin, end in zip(cuts, [*cuts[1:], size], strict=True)})
    return (cells == len(boxes) == len({at for at, _ in boxes})
            and all(size == tuple(length[begin] for length, begin in zip(lengths, at, strict=True))
                    for at, size in boxes))


def _overlap(one: tuple[tuple[int, ...], tuple[int, ...]], other: tuple[tuple[int, ...], tuple[int, ...]]) -> bool:
    return all(a < b + t and b < a + s for a, s, b, t in zip(*one, *other, strict=True))


def _volume(shape: tuple[int, ...]) -> int:
    volume = 1
    for size in shape:
        volume *= size
    return volume


def _read_metadata(tree: Any) -> tuple[list[Saved], list[str], dict[tuple[str, tuple[int, ...]], Place]]:
    """Tensors, names of objects, and where chunks are."""
    if not _is(tree, "Metadata"):
        raise WeightsError("it has no metadata of a checkpoint")
    described, stored = tree.field("state_dict_metadata"), tree.field("storage_data")
    if not isinstance(described, dict) or not isinstance(stored, dict):
        raise WeightsError(f"its fields make no sense: {RESAVE} with FileSystemWriter")
    saved, objects = [], []
    for name, value in described.items():
        if not isinstance(name, str):
            raise WeightsError("a name is no text")
        if _is(value, "TensorStorageMetadata"):
            saved.append(_read_tensor(name, value))
        elif _is(value, "BytesStorageMetadata"):
            objects.append(name)
        else:
            raise WeightsError(f"{name!r} is neither a tensor nor an object")
    places = {}
    for index, info in stored.items():
        if not _is(index, "MetadataIndex") or not _is(info, "_StorageInfo"):
            raise WeightsError(f"it says nowhere in a way that is known where chunks are: {RESAVE} with "
                               "FileSystemWriter")
        offset = index.state.get("offset") if isinstance(index.state, dict) else None
        if offset is not None:
            places[str(index.field("fqn")), tuple(checked_size(offset))] = _read_place(info)
    return saved, objects, places


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, Made) and value.kind.name == kind


def _read_tensor(name: str, value: Made) -> Saved:
    properties, shape, chunks = value.field("properties"), checked_size(value.field("size")), value.field("chunks")
    state = properties.state if _is(properties, "TensorProperties") else None
    if type(state) is not tuple or len(state) != 5 or not isinstance(chunks, list) or not chunks:
        raise WeightsError(f"what it says of tensor {name!r} makes no sense")
    dtype, layout = state[:2]
    if not isinstance(dtype, Dtype) or dtype.removeprefix("torch.") not in NAMES or layout != "torch.strided":
        raise WeightsError(f"tensor {name!r} is of a dtype or layout that is not read")
    boxes = []
    for chunk in chunks:
        if not _is(chunk, "ChunkStorageMetadata"):
            raise WeightsError(f"what it says of the chunks of tensor {name!r} makes no sense")
        at, size = checked_size(chunk.field("offsets")), checked_size(chunk.field("sizes"))
        if 0 not in size or 0 in shape:  # A rank without a share of the tensor lists an empty chunk.
            boxes.append((tuple(at), tuple(size)))
    return Saved(name, NAMES[dtype.removeprefix("torch.")], tuple(shape), tuple(boxes))


def _read_place(info: Made) -> Place:
    file, offset, length = (info.field(name) for name in ("relative_path", "offset", "length"))
    if isinstance(info.state, dict) and info.state.get("transform_descriptors"):
        raise WeightsError(f"its data are transformed, compressed perhaps: {RESAVE} without extensions")
    if not isinstance(file, str) or "/" in file or "\0" in file or file in ("", ".", ".."):
        raise WeightsError(f"data are said to be in {str(file)[:200]!r}, no file of this folder")
    if type(offset) is not int or type(length) is not int or not (0 <= offset < 1 << 62 and 0 <= length < 1 << 62):
        raise WeightsError(f"data are said to be at {str(offset)[:50]} of {file!r}")
    return Place(file, offset, length)


def _place_of(places: Mapping[tuple[str, tuple[int, ...]], Place], name: str, at: tuple[int, ...]) -> Place:
    if (name, at) not in places:
        raise WeightsError(f"it does not say where the chunk of tensor {name!r} at {list(at)} is")
    return places[name, at]


