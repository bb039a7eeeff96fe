# SPDX-License-Identifier: Apache-2.0

"""Converts torch checkpoints to safetensors files."""

from __future__ import annotations

import copy
import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock import _native
from penstock.progress import Progress
from penstock.sessions import Session, default_session
from penstock.weights.headers import INDEX, SHARDING, Weights
from penstock.weights.loaders import write_file
from penstock.weights.plan import Plan
from penstock.weights.tensors import DTYPES, Tensor, WeightsError, nbytes_of

SHARD_BYTES = 5_000_000_000
SUFFIX = ".safetensors"


@dataclass(frozen=True)
class Conversion:
    """The written files, and the names of skipped objects that are not tensors."""

    files: list[Path]
    tensors: int
    nbytes: int
    left_out: list[str]


def convert(source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], destination: str | os.PathLike[str], *,
            shard_bytes: int = SHARD_BYTES, session: Session | None = None,
            on_progress: Callable[[Progress], None] | None = None) -> Conversion:
    """Writes anything that `Weights` reads as safetensors.

    destination: a file, if its name ends with .safetensors, or else a folder, which gets model.safetensors or, beyond
    shard_bytes, several files and their index. One shard is in memory at a time. Tensors that share memory are written
    once for each name. Files appear when they are whole, the index last, and a failure leaves none of them; existing
    files are replaced.
    """
    weights, target = Weights(source), Path(destination)
    shards = list(_shards_of(weights.tensors.values(), shard_bytes))
    names = _file_names(target, len(shards), shard_bytes)
    plans = [Plan([(tensor, None) for tensor in shard], "cpu", None, session, weights.identities, check=weights.check)
             for shard in shards]
    metadata = {"format": "pt", **weights.metadata}
    metadata.pop(SHARDING, None)  # It speaks of one file's pieces, and the tensors may come to several files.
    progress = Progress(sum(plan.bytes_from_storage for plan in plans))
    written: list[Path] = []
    try:
        for name, shard, plan in zip(names, shards, plans, strict=True):
            _check_memory(shard)
            if not name.exists():  # An existing file is replaced, or stays.
                written.append(name)
            _write(plan, name, metadata, session, _counter(progress, on_progress))
        index = [_write_index(target / INDEX, names, shards, session)] if len(names) > 1 else []
    except BaseException:
        for file in written:
            file.unlink(missing_ok=True)
        raise
    return Conversion([*names, *index], len(weights.tensors), sum(map(_nbytes, weights.tensors.values())),
                      list(weights.objects))


def _nbytes(tensor: Tensor) -> int:
    """Size in row-major order, as in the format."""
    return nbytes_of(tensor.dtype, tensor.shape)


def _shards_of(tensors: Iterable[Tensor], shard_bytes: int) -> Iterator[list[Tensor]]:
    """Returns at least one shard, possibly empty."""
    shard: list[Tensor] = []
    filled = 0
    for tensor in tensors:
        if tensor.dtype not in DTYPES:
            raise WeightsError(f"{tensor.file}: tensor {tensor.name!r} is {tensor.dtype}, for which safetensors has no "
                               "dtype")
        if shard and filled + _nbytes(tensor) > shard_bytes:
            yield shard
            shard, filled = [], 0
        shard.append(tensor)
        filled += _nbytes(tensor)
    yield shard


def _file_names(target: Path, count: int, shard_bytes: int) -> list[Path]:
    if target.suffix == SUFFIX and not target.is_dir():
        if not target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(target.parent))
        if count > 1:
            raise WeightsError(f"{target}: the tensors take {count} files of {shard_bytes} bytes: name a folder, or "
                               "allow larger files")
        return [target]
    target.mkdir(parents=True, exist_ok=True)
    if (target / INDEX).exists() or any(target.glob(f"model*{SUFFIX}")):
        raise WeightsError(f"{target}: a model is in this folder already, or part of one, as a conversion leaves it "
                           "that is killed: name another folder, or remove it")
    if count == 1:
        return [target / f"model{SUFFIX}"]
    return [target / f"model-{i + 1:05}-of-{count:05}{SUFFIX}" for i in range(count)]


def _check_memory(shard: list[Tensor]) -> None:
    """The plan checks its own memory, but an expanded tensor repeats bytes and is larger in row-major order."""
    wanted, free = sum(_nbytes(tensor) for tensor in shard if tensor.strides is not None), _native.available_memory()
    if free is not None and wanted > free:
        raise MemoryError(f"the tensors from {shard[0].name!r} to {shard[-1].name!r} take {wanted} bytes row by row, "
                          f"of which {free} are free: nothing of them was written")


def _write(plan: Plan, file: Path, metadata: Mapping[str, str], session: Session | None,
           on_progress: Callable[[Progress], None]) -> None:
    tensors = {name: tensor.contiguous() for name, tensor in plan.load(on_progress).items()}
    write_file(tensors, file, metadata, session, may_share=True)


def _counter(whole: Progress, on_progress: Callable[[Progress], None] | None) -> Callable[[Progress], None]:
    """Adds a plan's progress to the total."""
    before = copy.deepcopy(whole)

    def count(progress: Progress) -> None:
        vars(whole).update(vars(copy.deepcopy(before)))
        whole.add(progress)
        if on_progress is not None:
            on_progress(whole)
    return count


def _write_index(path: Path, files: list[Path], shards: list[list[Tensor]], session: Session | None) -> Path:
    placed = {tensor.name: file.name for file, shard in zip(files, shards, strict=True) for tensor in shard}
    total = sum(_nbytes(tensor) for shard in shards for tensor in shard)
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": placed}, indent=2) + "\n"
    with (session or default_session()).create(os.fspath(path), replace=True) as file:
        file.write(text.encode())
    return path
