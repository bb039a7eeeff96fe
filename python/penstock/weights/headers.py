# SPDX-License-Identifier: Apache-2.0

"""The contents of a model's files, from their headers."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock import _native
from penstock.formats import OPENERS, Open, Opened
from penstock.regular import read_regular
from penstock.sessions import Session
from penstock.threads import for_each
from penstock.weights.dcp import METADATA, Checkpoint, assembled
from penstock.weights.exchange import Exchange
from penstock.weights.files import Held, identity_of, opened_file
from penstock.weights.kinds import is_torch_file
from penstock.weights.plan import Plan
from penstock.weights.tensors import Chunk, Part, Tensor, WeightsError, collecting_paused
from penstock.weights.torch_files import read_torch_file

INDEX = "model.safetensors.index.json"
TORCH_INDEX = "pytorch_model.bin.index.json"
SHARDING = "DCP_SHARDING_INFO"  # The metadata key of a safetensors file that lists its pieces of tensors.
SHARD = re.compile(r"-\d{5}-of-(\d{5})\.\w+$")  # The name of a shard, such as the second of three.
INDEX_BYTES_MAX = 100_000_000
HEADERS_AT_ONCE = 8


class Weights:
    """The contents of a model's files; reads only headers, and executes nothing.

    paths: a file of safetensors or torch.save, several, the index of a sharded model (model.safetensors.index.json,
    pytorch_model.bin.index.json), a folder with these, or a checkpoint's folder, of torch.distributed.checkpoint or of
    penstock.checkpoint. `objects` has everything else: for torch.save files values by name (dtypes and devices as
    text), for checkpoints only names. Raises WeightsError for invalid files, and for an index that does not match its
    files.
    """

    def __init__(self, paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> None:
        self._tensors: dict[str, Tensor] | None = {}
        self._plain: list[tuple[Path, _native.Header]] = []  # The files, if all are plain safetensors.
        self.objects: dict[str, Any] = {}
        self.metadata: dict[str, str] = {}
        self.identities: dict[Path, tuple[int, int, int, int]] = {}
        self.held: Held | None = None  # Of a single file that is kept open.
        # Checks the bytes (in host memory) of a tensor or chunk.
        self.check: Callable[[Tensor, Any], None] | None = None
        self._pieces: dict[str, list[Chunk]] = {}
        placed, self.files = _files_of(paths)
        with collecting_paused():
            self._add_all()
        self._check_index(placed)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """By name, in the order of the files. Made when they are first asked for: a plan of all does without."""
        if self._tensors is None:
            with collecting_paused():
                self._tensors = {tensor.name: tensor for file, header in self._plain
                                 for tensor in _tensors_of(file, header)}
        return self._tensors

    def names(self) -> list[str]:
        """In the order of the files."""
        return list(self._tensors) if self._tensors else [name for _, header in self._plain for name in header.names()]

    def tensor(self, name: str) -> Tensor:
        """Raises WeightsError if there is none."""
        for file, header in self._plain:
            if (index := header.find(name)) >= 0:
                return _tensor_at(file, header, index)
        if self._plain or name not in self.tensors:
            raise WeightsError(f"no tensor is called {name!r} in {self.shown()}, which does not contain it")
        return self.tensors[name]

    @property
    def header(self) -> _native.Header | None:
        """Of a single safetensors file."""
        return self._plain[0][1] if len(self._plain) == 1 else None

    def plan_of_neighbours(self, begin: int, end: int, device: Any, session: Session | None, framework: str) -> Plan:
        """The plan of the tensors of a single safetensors file with the numbers from `begin` to `end`."""
        [(file, header)] = self._plain
        pairs = ((_tensor_at(file, header, index), None) for index in range(begin, end))
        picks = [(index, 0, -1) for index in range(begin, end)]
        return Plan(pairs, device, None, session, self.identities, framework=framework, plain=[(file, header, picks)],
                    held=self.held)

    def plan_of_rows(self, wanted: Mapping[str, slice | None] | None, device: Any, session: Session | None) -> Plan:
        """The plan of a prefetch: by name the rows of a tensor, None for all of it, or of all tensors."""
        if wanted is None:
            return self.plan(device=device, session=session)
        if not wanted:
            raise WeightsError("the prefetch plan is empty: it names no tensor")
        checked = {name: _rows_of(self.tensor(name), rows) for name, rows in wanted.items()}
        return self._plan_of(checked, device, session)

    def _check_index(self, placed: Mapping[str, Path]) -> None:
        plain = dict(self._plain)
        for name, place in placed.items():
            if place in plain:
                is_there = plain[place].find(name) >= 0
            else:
                is_there = name in self.tensors and self.tensors[name].file == place
            if not is_there:
                raise WeightsError(f"{place}: it lacks tensor {name!r}, which the index says it has")

    def _add_all(self) -> None:
        if len(self.files) == 1 and self.files[0].name in _openers():
            self._add_folder(self.files[0])
            return
        headers: dict[Path, _Header] = {}
        for_each(lambda file: headers.update({file: _read_header(file)}), self.files, HEADERS_AT_ONCE)
        natives = [(file, header) for file in self.files if (header := headers[file].plain) is not None]
        is_plain = len(natives) == len(self.files) and (len(natives) == 1 or not (
            any(each.pieces for each in headers.values()) or _native.shared_name([each for _, each in natives])))
        for file in self.files:
            self._add(file, headers[file], is_plain)
        if len(self.files) > 1:
            self.metadata.pop(SHARDING, None)  # Each file's is of its own pieces, which are put together.
        if is_plain:
            self._plain, self._tensors = natives, None
        self._assemble()

    def _add_folder(self, marker: Path) -> None:
        found: Opened = _openers()[marker.name](marker.parent)
        self._tensors, self.objects, self.check = found.tensors, found.objects, found.check
        self.files, self.identities = found.files, found.identities

    def _add(self, file: Path, header: _Header, is_plain: bool) -> None:
        self.identities[file] = header.identity
        self.objects.update(header.objects)
        self.metadata.update(header.metadata)
        if is_plain:
            return
        pieces = header.pieces if len(self.files) > 1 else {}  # A rank's file alone is read as it is.
        for tensor in header.tensors if header.plain is None else _tensors_of(file, header.plain):
            if tensor.name in pieces:
                self._pieces.setdefault(tensor.name, []).append(Chunk(pieces[tensor.name], tensor))
            else:
                self._add_tensor(tensor)

    def _add_tensor(self, tensor: Tensor) -> None:
        if tensor.name in self.tensors:
            raise WeightsError(f"{tensor.file}: tensor {tensor.name!r} is in {self.tensors[tensor.name].file}, too")
        self.tensors[tensor.name] = tensor

    def _assemble(self) -> None:
        """Assembles tensors that ranks saved in separate files; only the pieces show their shapes."""
        for name, chunks in self._pieces.items():
            ends = [[a + size for a, size in zip(chunk.at, chunk.piece.shape, strict=False)] for chunk in chunks]
            if len({len(chunk.at) for chunk in chunks}) != 1:
                raise WeightsError(f"{chunks[0].piece.file}: the pieces of tensor {name!r} differ in dimensions")
            self._add_tensor(assembled(name, tuple(map(max, *ends)) if len(ends) > 1 else tuple(ends[0]), chunks))

    def __repr__(self) -> str:
        return f"<penstock.weights.Weights: {len(self.names())} tensors of {self.shown()}>"

    def shown(self) -> str:
        """The files' names for error messages."""
        return f"{self.files[0]}{f' and {len(self.files) - 1} others' if len(self.files) > 1 else ''}"

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def plan(self, names: str | Iterable[str] | None = None, *, parts: Mapping[str, Part] | None = None,
             device: Any = "cpu", dtype: Any = None, session: Session | None = None, framework: str = "pt",
             group: Any = None, budget: int | None = None) -> Plan:
        """Plans a read.

        names: names or globs; None for all. parts: by name or glob, the wanted slice of some tensors. device: torch's.
        dtype: a dtype to which floating-point tensors are converted on the device, None for no conversion. framework:
        "pt" for torch tensors, "np" for numpy arrays.

        group: ranks of torch.distributed that load together, ideally on one host. Each names the tensors and parts that
        it wants, all make their plan at the same time, and iterate to the end. What only one wants it reads; of what
        several want each reads a share, and they exchange the shares. If one fails or ends the others raise
        WeightsError.

        budget: the most bytes of device memory used besides the tensors that the caller keeps, if no single tensor is
        larger than a quarter of it. The default is 1 GiB.
        """
        wanted = [names] if isinstance(names, str) else names
        if not parts and dtype is None and group is None:
            return self._plan_of(dict.fromkeys(self._named(wanted)), device, session, framework, budget)
        if group is not None and framework not in ("pt", "torch", "pytorch"):
            raise WeightsError(f"framework {framework!r}: ranks that load together exchange tensors of torch, 'pt'")
        exchange = None if group is None else Exchange(group, device)
        with nullcontext() if exchange is None else exchange.planning():
            return Plan(self._pairs(wanted, parts or {}), device, dtype, session, self.identities, framework=framework,
                        exchange=exchange, budget=budget, check=self.check, held=self.held, tensors=self.tensors)

    def _pairs(self, names: Iterable[str] | None, parts: Mapping[str, Part]) -> list[tuple[Tensor, Part | None]]:
        by_name, shares = {name: self.tensors[name] for name in self._named(names)}, dict[str, Part]()
        for pattern, part in parts.items():
            matching = _matching(by_name, pattern)
            if not matching:
                raise WeightsError(f"parts: none of the tensors that are read of {self.shown()} is called {pattern!r}")
            shares.update(dict.fromkeys(matching, part))
        return [(tensor, shares.get(name)) for name, tensor in by_name.items()]

    def _named(self, patterns: Iterable[str] | None) -> list[str]:
        """None for all."""
        if patterns is None:
            return self.names()
        names, found = dict.fromkeys(self.names()), dict[str, None]()
        for pattern in patterns:
            matching = _matching(names, pattern)
            if not matching:
                raise WeightsError(f"no tensor is called {pattern!r} in {self.shown()}")
            found.update(dict.fromkeys(matching))
        return list(found)

    def _plan_of(self, wanted: Mapping[str, slice | None], device: Any, session: Session | None, framework: str = "pt",
                 budget: int | None = None) -> Plan:
        """wanted: by name the rows of a tensor, None for all."""
        pairs = ((self.tensors[name], None if rows is None else Part(0, rows.start, rows.stop))
                 for name, rows in wanted.items())
        plain = [(file, header, _picks_of(header, wanted)) for file, header in self._plain]
        return Plan(pairs, device, None, session, self.identities, framework=framework, budget=budget,
                    check=self.check, plain=plain, held=self.held)


def _openers() -> dict[str, Open]:
    """The opener of a folder, by the marker file of its format."""
    return {**OPENERS, METADATA: Checkpoint}


def _matching(names: Mapping[str, Any], pattern: str) -> list[str]:
    return [pattern] if pattern in names else [name for name in names if fnmatch.fnmatchcase(name, pattern)]


def _picks_of(header: _native.Header, wanted: Mapping[str, slice | None]) -> list[tuple[int, int, int]] | None:
    """None for all of them."""
    picks = [(index, 0, -1) if (rows := wanted[name]) is None else (index, rows.start, rows.stop)
             for index, name in enumerate(header.names()) if name in wanted]
    return None if len(picks) == len(header) and not any(stop >= 0 for _, _, stop in picks) else picks


def _files_of(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> tuple[dict[str, Path], list[Path]]:
    """The names in an index, and its files."""
    if not isinstance(paths, (str, os.PathLike)):
        files = [Path(path) for path in paths]
        if not files:
            raise WeightsError("no file is named: expected one at least")
        return {}, files
    path = Path(paths)
    if path.is_dir():
        for index in (*OPENERS, INDEX, METADATA, TORCH_INDEX):
            if (path / index).exists():
                path = path / index
                break
        else:
            return {}, _files_in(path)
    if path.suffix != ".json" or path.name in OPENERS:
        return {}, [path]
    named = _read_index(path)
    return named, sorted(set(named.values()))


def _files_in(folder: Path) -> list[Path]:
    """The files of the first kind that exists. Folders may have other torch.save files, such as training_args.bin."""
    for pattern in ("model.safetensors", "*.safetensors", "pytorch_model*.bin", "*.bin", "*.pt", "*.pth"):
        files = sorted(path for path in folder.glob(pattern) if path.is_file())
        if files:
            _check_complete(files)
            return files
    raise WeightsError(f"{folder}: no safetensors file is in this folder, no file of torch.save (*.bin, *.pt, *.pth) "
                       f"and no {METADATA} of torch.distributed.checkpoint")


def _check_complete(files: list[Path]) -> None:
    """Checks a sharded model without an index: its file names contain the number of files."""
    for match in filter(None, (SHARD.search(file.name) for file in files)):
        count = sum(1 for file in files if file.name.endswith(match[0][6:]))
        if count < int(match[1]):
            raise WeightsError(f"{files[0].parent}: of {int(match[1])} files as {match.string!r} there are {count}, "
                               "and no index: it was copied or written in part")


@dataclass(frozen=True)
class _Header:
    """The header of one file. `pieces`: for tensors that are pieces, their position in the whole tensor."""

    identity: tuple[int, int, int, int]
    tensors: list[Tensor]
    metadata: dict[str, str]
    objects: dict[str, Any]
    pieces: dict[str, tuple[int, ...]]
    plain: _native.Header | None = None  # In place of the tensors.


def _read_header(file: Path) -> _Header:
    with opened_file(file) as fd:
        identity = identity_of(fd)
        if is_torch_file(file, fd):
            found, objects = read_torch_file(file, fd)
            return _Header(identity, list(found.values()), {}, objects, {})
        try:
            header = _native.Header(fd)
        except ValueError as error:
            raise WeightsError(f"{file}: {error}") from None
    metadata = header.metadata() or {}
    return _Header(identity, [], metadata, {}, _pieces_of(file, metadata.get(SHARDING, "{}")), header)


def _tensors_of(file: Path, header: _native.Header) -> list[Tensor]:
    return [_tensor_at(file, header, index) for index in range(len(header))]


def _tensor_at(file: Path, header: _native.Header, index: int) -> Tensor:
    name, dtype, shape, begin, end = header.described(index)
    return Tensor(name, file, dtype, shape, begin, end - begin)


def _rows_of(tensor: Tensor, rows: Any) -> slice | None:
    if rows is None:
        return None
    what = f"tensor {tensor.name!r} of shape {list(tensor.shape)}"
    if not isinstance(rows, slice):
        raise WeightsError(f"{what}: expected None or a slice of rows, not {type(rows).__name__}")
    if not tensor.shape:
        raise WeightsError(f"{what} is 0-d: it has no rows")
    count = tensor.shape[0]
    if any(not (bound is None or isinstance(bound, int) and -count <= bound <= count)
           for bound in (rows.start, rows.stop)):
        raise WeightsError(f"{what}: {rows} is out of range")
    if rows.step not in (None, 1):
        raise WeightsError(f"{what}: {rows} is an invalid prefetch plan slice: expected step 1")
    start, stop, _ = rows.indices(count)
    return slice(start, max(start, stop))


def _pieces_of(file: Path, sharding: str) -> dict[str, tuple[int, ...]]:
    """The positions of a file's tensors in the whole tensors."""
    try:
        offsets = {str(name): tuple(said["saved_offsets"]) for name, said in json.loads(sharding).items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        offsets = {"": (-1,)}
    if not all(type(number) is int and number >= 0 for at in offsets.values() for number in at):
        raise WeightsError(f"{file}: {SHARDING} makes no sense: expected saved_offsets for each tensor")
    return offsets


def _is_encodable(path: Path) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _read_index(path: Path) -> dict[str, Path]:
    content = read_regular(path, INDEX_BYTES_MAX)
    try:
        placed = json.loads(content)["weight_map"]
        named = {str(name): path.parent / file for name, file in placed.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise WeightsError(f"{path}: expected a JSON object whose weight_map names a file for each tensor") from None
    if not named:
        raise WeightsError(f"{path}: its weight_map is empty")
    for name, file in named.items():
        if not _is_encodable(file):
            raise WeightsError(f"{path}: tensor {name!r} is said to be in {str(file)!r}, which is no name of a file")
        if file.parent != path.parent or file.name in ("", "..") or "\0" in file.name:
            raise WeightsError(f"{path}: tensor {name!r} is said to be in {str(file)!r}, no file of this folder")
    return named
