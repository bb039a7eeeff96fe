# SPDX-License-Identifier: Apache-2.0

"""The places of records: file, offset and length in bytes."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.data.errors import DataError, open_file
from penstock.data.tars import Sample, Samples, samples_of

__all__ = ["RecordIndex"]

AnyPath = str | os.PathLike[str]
Numbers = npt.NDArray[np.int64]


class RecordIndex:
    """Records as ranges of files; made by `tokens()`, `tars()` or `ranges()`.

    Attributes:
        paths: the files.
        file, offset, length: for each record the index of its file in `paths`, and its byte range there. dtype: for
        tokens their numpy dtype; else None: records are bytes. samples: for tars the parts of each record; else None.
    """

    samples: Samples | None = None

    def __init__(self, paths: Sequence[AnyPath], file: npt.ArrayLike, offset: npt.ArrayLike, length: npt.ArrayLike,
                 dtype: npt.DTypeLike | None = None) -> None:
        self.paths = [os.fspath(path) for path in paths]
        self.file, self.offset, self.length = (np.asarray(each, np.int64) for each in (file, offset, length))
        self.dtype: np.dtype[Any] | None = None if dtype is None else np.dtype(dtype)
        self._check()

    @classmethod
    def tokens(cls, paths: Iterable[AnyPath], sequence_length: int, *, dtype: npt.DTypeLike = "uint16") -> RecordIndex:
        """Consecutive sequences of tokens: from .npy files (one dimension, of `dtype`), and from raw files of tokens. A
        rest at the end of a file, shorter than a sequence, is dropped.
        """
        if sequence_length < 1:
            raise ValueError(f"sequence_length is {sequence_length}: expected the tokens of a record, at least 1")
        names, kind = [os.fspath(path) for path in paths], np.dtype(dtype)
        nbytes = sequence_length * kind.itemsize
        files: list[Numbers] = []
        offsets: list[Numbers] = []
        for number, name in enumerate(names):
            begin, end = _tokens_of(name, kind)
            starts = begin + nbytes * np.arange((end - begin) // nbytes, dtype=np.int64)
            files.append(np.full(len(starts), number, np.int64))
            offsets.append(starts)
        none = [np.empty(0, np.int64)]
        offset = np.concatenate(offsets or none)
        if names and len(offset) == 0:
            raise DataError(f"make an index: there is no record in {names[0]}{' and others' if len(names) > 1 else ''}:"
                            f" no file has the {sequence_length} tokens of {kind} ({nbytes} bytes) that "
                            "sequence_length asks for")
        return cls(names, np.concatenate(files or none), offset, np.full(len(offset), nbytes), kind)

    @classmethod
    def tars(cls, paths: Iterable[AnyPath]) -> RecordIndex:
        """The samples of tar files, as WebDataset packs them: members that follow each other and have the same name up
        to its first dot. Reads every header once. Compressed tars are refused: their parts cannot be read separately.
        """
        names = [os.fspath(path) for path in paths]
        found: list[tuple[int, Sample]] = [(number, sample) for number, name in enumerate(names)
                                           for sample in samples_of(name)]
        if names and not found:
            raise DataError(f"make an index: there is no sample in {names[0]}{' and others' if len(names) > 1 else ''}:"
                            " expected files whose names have a dot, as 000001.jpg and 000001.cls")
        rows = [(number, sample.begin, sample.end - sample.begin) for number, sample in found]
        file, offset, length = np.array(rows, np.int64).reshape(-1, 3).T
        index = cls(names, file, offset, length)
        index.samples = Samples([sample for _, sample in found])
        return index

    @classmethod
    def ranges(cls, records: Iterable[tuple[AnyPath, int, int]]) -> RecordIndex:
        """Records as a list of (path, offset, length), in bytes."""
        numbers: dict[str, int] = {}
        rows = [(numbers.setdefault(os.fspath(path), len(numbers)), offset, length)
                for path, offset, length in records]
        file, offset, length = np.array(rows, np.int64).reshape(-1, 3).T
        return cls(list(numbers), file, offset, length)

    def __len__(self) -> int:
        return len(self.file)

    def __repr__(self) -> str:
        what = "records"
        if self.samples is not None:
            what = "samples of tars"
        elif self.dtype is not None:
            tokens = int(self.length[0]) // self.dtype.itemsize if len(self) else 0
            what = f"records of {tokens} {self.dtype} tokens"
        return (f"<penstock.data.RecordIndex: {len(self)} {what}, {int(self.length.sum())} bytes in {len(self.paths)} "
                "files>")

    def fingerprint(self) -> str:
        """Identifies the files and ranges of the index. The files' folder does not count."""
        names = "\0".join(f"{os.path.basename(path)}\0{size}" for path, size in zip(self.paths, self.sizes))
        made = hashlib.sha256(f"{self.dtype}\0{names}".encode("utf-8", "surrogateescape"))
        for array in (self.file, self.offset, self.length):
            made.update(np.ascontiguousarray(array).data)
        if self.samples is not None:
            made.update(repr(self.samples).encode("utf-8", "surrogateescape"))
        return made.hexdigest()

    def _check(self) -> None:
        facts = {path: os.stat(path) for path in self.paths}
        for path, found in facts.items():
            if not stat.S_ISREG(found.st_mode):  # A pipe would block the training.
                raise DataError(f"make an index: {path}: it is no regular file: name the file itself")
        self.sizes = [facts[path].st_size for path in self.paths]
        if not self.file.ndim == 1 or not self.file.shape == self.offset.shape == self.length.shape:
            raise DataError("make an index: file, offset and length must be of one dimension and equally long")
        if len(self) == 0:
            return
        if self.file.min() < 0 or self.file.max() >= len(self.paths):
            raise DataError(f"make an index: it names a file that there is not: expected 0 to {len(self.paths) - 1}")
        room = np.array(self.sizes, np.int64)[self.file]
        # Compares differences, so that numbers near the maximum do not wrap around.
        wrong = np.flatnonzero((self.offset < 0) | (self.length < 1) | (self.length > room) |
                               (self.offset > room - self.length))
        if len(wrong):
            at = wrong[0]
            raise DataError(f"make an index: record {at} is {self.length[at]} bytes at {self.offset[at]}, and "
                            f"{self.paths[self.file[at]]} has {room[at]}: is the file cut, or the index of another?")


def _tokens_of(name: str, kind: np.dtype[Any]) -> tuple[int, int]:
    """The offsets where the tokens of a file begin and end."""
    with open_file(name) as file:
        size = os.fstat(file.fileno()).st_size
        if not name.endswith(".npy"):
            if size % kind.itemsize:
                raise DataError(f"{name}: its {size} bytes are no whole number of {kind} tokens: is dtype right?")
            return 0, size
        try:
            if np.lib.format.read_magic(file) != (1, 0):
                raise ValueError("expected version 1.0 of the format")
            shape, _, found = np.lib.format.read_array_header_1_0(file)
        except (ValueError, SyntaxError, TypeError) as error:
            raise DataError(f"{name}: it is no .npy file of tokens: {error}") from error
        begin = file.tell()
    if len(shape) != 1 or found != kind:
        raise DataError(f"{name}: it holds {found} of shape {shape}: expected one dimension of {kind}")
    if shape[0] < 0 or shape[0] > (size - begin) // kind.itemsize:
        raise DataError(f"{name}: its header tells of {shape[0]} tokens, too many for its {size} bytes: is it cut?")
    return begin, begin + int(shape[0]) * kind.itemsize
