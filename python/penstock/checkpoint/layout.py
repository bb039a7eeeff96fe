# SPDX-License-Identifier: Apache-2.0

"""The contents of a checkpoint's folder: checkpoint.json, and the data files that it names.

docs/reference/checkpoint-format.md describes the format. Reading it executes nothing, and everything in it is checked
before it is used.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock import _native
from penstock.weights.dcp import assembled
from penstock.weights.tensors import DTYPES, SIZES, Tensor, nbytes_of
from penstock.weights.tensors import Chunk as TensorChunk

NAME = "checkpoint.json"
VERSIONS = (1, 2)            # The second: tensors of a tree have several chunks.
PIECE_BYTES = 16 << 20       # Bytes that one checksum covers.
REQUEST_BYTES = 128 << 20    # The largest request for GPU memory, a multiple of PIECE_BYTES.
ALIGNMENT = 4096             # Alignment of chunks in their files, so that direct I/O needs no copy.
NBYTES_MAX = 1 << 30         # Of checkpoint.json.
CONTAINERS_MAX = 1 << 22     # Limit of dicts and lists, which take more memory than they do in the file,
BYTES_OF_ONE = 24            # and one more for so many bytes: a tensor's description has 33 bytes for each.
ELEMENTS_MAX = 1 << 62
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\.(data|safetensors)")
CRC = re.compile(r"[0-9a-f]{8}")
HASH = re.compile(r"[0-9a-f]{16}")
HEAD = re.compile(rb'\{"penstock\.checkpoint":(\d{1,9}),"crc32c":"([0-9a-f]{8})","body":')
TAIL = b"}\n"
# The beginning of the body, before the tensors' descriptions.
SUMMARY = re.compile(rb'\{"save_id":"([^"\\]{0,200})","piece_bytes":[0-9]{1,12},'
                     rb'"files":(\{(?:"[A-Za-z0-9._-]{1,220}":[0-9]{1,19},?)*\}),"tensors":')


class CheckpointError(ValueError):
    """The folder is not a checkpoint, is damaged, or lacks the requested data."""


@dataclass(frozen=True)
class Extent:
    """A range of a data file, and the CRC32C of each 16 MiB of it. hash64: of all of it, where a save was to write what
    changed: see `Session.fingerprints_begin()`."""

    file: str
    offset: int
    nbytes: int
    crc32c: tuple[int, ...]
    hash64: int | None = None


@dataclass(frozen=True)
class Chunk:
    """A piece of a tensor: the position of its first element, its shape, and its extent in row-major order."""

    at: tuple[int, ...]
    shape: tuple[int, ...]
    extent: Extent


@dataclass(frozen=True)
class SavedTensor:
    """dtype and shape as in safetensors, and "C128", which safetensors lacks."""

    dtype: str
    shape: tuple[int, ...]
    chunks: tuple[Chunk, ...]


@dataclass
class Layout:
    """The contents of checkpoint.json. `files` has the size of each data file, `headers` the headers of safetensors
    files."""

    save_id: str
    files: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, SavedTensor] = field(default_factory=dict)
    objects: dict[str, Extent] = field(default_factory=dict)
    tree: Any = None                                                # For a state that was saved by `save`.
    paths: dict[str, list[str | int]] = field(default_factory=dict)  # From torch's planner: the keys behind each name.
    headers: dict[str, Extent] = field(default_factory=dict)

    def count_file(self, extent: Extent) -> None:
        """Extends a file's size to its last extent."""
        self.files[extent.file] = max(self.files.get(extent.file, 0), extent.offset + extent.nbytes)

    def extents(self) -> Iterator[tuple[str, Extent]]:
        """Each extent with the name of its tensor or object."""
        for name, tensor in self.tensors.items():
            for chunk in tensor.chunks:
                yield name, chunk.extent
        yield from self.objects.items()
        for extent in self.headers.values():
            yield "header", extent

    @property
    def version(self) -> int:
        has_pieces = self.tree is not None and any(len(tensor.chunks) > 1 for tensor in self.tensors.values())
        return VERSIONS[has_pieces]

    @property
    def nbytes(self) -> int:
        return sum(extent.nbytes for _, extent in self.extents())


def checksum(content: bytes) -> int:
    return (_native.crc32c(content, len(content)) or [0])[0] if content else 0


def check_shape(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    """Raises CheckpointError if the format cannot express it."""
    if dtype == "F4" and not shape:
        raise CheckpointError(f"tensor {name!r} of {DTYPES[dtype]} has no dimensions, and the format counts pairs of "
                              "elements in the last: save it with shape [1]")


def encode(layout: Layout) -> bytes:
    body = json.dumps({
        "save_id": layout.save_id, "piece_bytes": PIECE_BYTES, "files": layout.files,
        "tensors": {name: {"dtype": tensor.dtype, "shape": tensor.shape, "chunks": [
            {"at": chunk.at, "shape": chunk.shape, **_extent(chunk.extent)} for chunk in tensor.chunks]}
            for name, tensor in layout.tensors.items()},
        "objects": {name: _extent(extent) for name, extent in layout.objects.items()},
        "tree": layout.tree, "paths": layout.paths,
        **({"headers": {name: _extent(extent) for name, extent in layout.headers.items()}} if layout.headers else {}),
    }, separators=(",", ":"), allow_nan=True).encode()
    check_containers(body)
    head = f'{{"penstock.checkpoint":{layout.version},"crc32c":"{checksum(body):08x}","body":'
    return head.encode() + body + TAIL


def _extent(extent: Extent) -> dict[str, Any]:
    return {"file": extent.file, "offset": extent.offset, "nbytes": extent.nbytes,
            "crc32c": [f"{crc:08x}" for crc in extent.crc32c],
            **({} if extent.hash64 is None else {"hash64": f"{extent.hash64:016x}"})}


def head_of(text: bytes) -> re.Match[bytes]:
    """Raises CheckpointError (like all of these, without the file's name) if it is no header of a known version."""
    head = HEAD.match(text)
    if head is None:
        raise CheckpointError("this is no checkpoint of Penstock's, or its first bytes are damaged")
    if int(head[1]) not in VERSIONS:
        raise CheckpointError(f"it has version {int(head[1])} of the format: this release reads versions "
                              f"{' and '.join(map(str, VERSIONS))}")
    return head


def check_sum(head: re.Match[bytes], found: int, has_end: bool) -> None:
    if not has_end or f"{found:08x}".encode() != head[2]:
        raise CheckpointError("its checksum does not fit what it says: it is damaged, or was written in part")


def check_containers(body: bytes) -> None:
    """Checks the number of containers before JSON allocates them."""
    count, most = body.count(b"{") + body.count(b"["), CONTAINERS_MAX + len(body) // BYTES_OF_ONE
    if count > most:
        raise CheckpointError(f"it has {count} dicts, lists and tuples in {len(body)} bytes, and {most} at most are "
                              "accepted: keep what is so many numbers in tensors")


def summary_of(said: re.Match[bytes]) -> Layout:
    """said: a match of SUMMARY."""
    try:
        files = {_file_name(name): _count(nbytes) for name, nbytes in json.loads(said[2]).items()}
        return Layout(said[1].decode(), files)
    except ValueError as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"what it says makes no sense ({error})") from None


def decode(text: bytes) -> Layout:
    """Raises CheckpointError for anything that `encode` would not write."""
    head = head_of(text)
    body = text[head.end():-len(TAIL)]
    check_sum(head, checksum(body), text.endswith(TAIL))
    check_containers(body)
    try:
        said = json.loads(body)
        layout = Layout(_text(said["save_id"]), tree=said["tree"])
        if said["piece_bytes"] != PIECE_BYTES:
            raise CheckpointError(f"checksums cover {said['piece_bytes']!r} bytes: expected {PIECE_BYTES}")
        layout.files = {_file_name(name): _count(nbytes) for name, nbytes in said["files"].items()}
        layout.tensors = {name: _read_tensor(name, each, layout.files) for name, each in said["tensors"].items()}
        layout.objects = {name: _read_extent(name, each, layout.files) for name, each in said["objects"].items()}
        layout.paths = {name: [_key(key) for key in keys] for name, keys in said["paths"].items()}
        layout.headers = {name: _read_extent(name, each, layout.files)
                          for name, each in said.get("headers", {}).items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"what it says makes no sense ({type(error).__name__}: {str(error)[:100]})") from None
    return layout


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 200:
        raise CheckpointError("a name is no text of at most 200 characters")
    return value


def _key(value: Any) -> str | int:
    if type(value) not in (str, int):
        raise CheckpointError("a key is neither text nor a number")
    return value  # type: ignore[no-any-return]


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= ELEMENTS_MAX:
        raise CheckpointError(f"{str(value)[:50]} is no count")
    return value


def _counts(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or len(values) > 64:
        raise CheckpointError("a shape is no list of at most 64 counts")
    return tuple(map(_count, values))


def _file_name(name: Any) -> str:
    if not isinstance(name, str) or FILE_NAME.fullmatch(name) is None:
        raise CheckpointError(f"{str(name)[:100]!r} is no name of a data file in this folder")
    return name


def _read_extent(name: str, said: Any, files: dict[str, int]) -> Extent:
    file, offset, nbytes = _file_name(said["file"]), _count(said["offset"]), _count(said["nbytes"])
    if file not in files or offset + nbytes > files[file]:
        raise CheckpointError(f"{name!r} is said to be at {offset} of {file}, which has no {nbytes} bytes there")
    crcs = said["crc32c"]
    if not isinstance(crcs, list) or len(crcs) != (nbytes + PIECE_BYTES - 1) // PIECE_BYTES:
        raise CheckpointError(f"{name!r} of {nbytes} bytes has not one checksum for each {PIECE_BYTES}")
    if not all(isinstance(crc, str) and CRC.fullmatch(crc) for crc in crcs):
        raise CheckpointError(f"a checksum of {name!r} is not eight hexadecimal digits")
    hash64 = said.get("hash64")
    if hash64 is not None and not (isinstance(hash64, str) and HASH.fullmatch(hash64)):
        raise CheckpointError(f"the hash of {name!r} is not sixteen hexadecimal digits")
    known = None if hash64 is None else int(hash64, 16)
    return Extent(file, offset, nbytes, tuple(int(crc, 16) for crc in crcs), known)


def _read_tensor(name: str, said: Any, files: dict[str, int]) -> SavedTensor:
    dtype, shape = said["dtype"], _counts(said["shape"])
    if math.prod(max(extent, 1) for extent in shape) > ELEMENTS_MAX or (dtype == "F4" and not shape):
        raise CheckpointError(f"tensor {name!r} has a shape that makes no sense")
    if not isinstance(dtype, str) or dtype not in SIZES:
        raise CheckpointError(f"tensor {name!r} is of {str(dtype)[:20]!r}, which is no dtype")
    chunks = tuple(Chunk(_counts(each["at"]), _counts(each["shape"]), _read_extent(name, each, files))
                   for each in said["chunks"])
    for chunk in chunks:
        if chunk.extent.nbytes != nbytes_of(dtype, chunk.shape):
            raise CheckpointError(f"a chunk of {name!r} of shape {list(chunk.shape)} has {chunk.extent.nbytes} bytes")
    return SavedTensor(dtype, shape, chunks)


def tensors_of(layout: Layout, folder: Path) -> dict[str, Tensor]:
    """The tensors in the form of `Weights`. Raises WeightsError if the chunks of one do not fill it exactly."""
    found = {}
    for name, tensor in layout.tensors.items():
        chunks = [TensorChunk(chunk.at, Tensor(name, folder / chunk.extent.file, tensor.dtype, chunk.shape,
                                               chunk.extent.offset, chunk.extent.nbytes))
                  for chunk in tensor.chunks]
        found[name] = assembled(name, tensor.shape, chunks)
    return found
