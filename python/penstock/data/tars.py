# SPDX-License-Identifier: Apache-2.0

"""Samples of tar files, as WebDataset lays them out: consecutive members that share their name up to its first dot are
one sample; the rest of the name, in lower case, names its part.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.data.errors import DataError, open_file

__all__ = ["Samples", "samples_of"]


@dataclass
class Part:
    name: str
    begin: int  # Offset in the file.
    nbytes: int


@dataclass
class Sample:
    """A sample: bytes `begin` to `end` of the file, from the header of its first member to the end of its last one."""

    key: str
    begin: int
    parts: list[Part] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.parts[-1].begin + self.parts[-1].nbytes


class Samples:
    """The parts of each record of an index of tars."""

    def __init__(self, samples: list[Sample]) -> None:
        self.keys = [sample.key for sample in samples]
        self._parts = [[(part.name, part.begin - sample.begin, part.nbytes) for part in sample.parts]
                       for sample in samples]

    def split(self, content: Any, places: Any, records: Any) -> list[dict[str, Any]]:
        """Splits each record into "__key__" and its parts by name: views of the contents, as bytes of a tensor or
        array."""
        return [{"__key__": self.keys[record],
                 **{name: content[place + begin:place + begin + nbytes] for name, begin, nbytes in self._parts[record]}}
                for place, record in zip(np.asarray(places).tolist(), records.tolist())]

    def __repr__(self) -> str:
        """Identifies the samples, for `RecordIndex.fingerprint()`."""
        return repr((self.keys, self._parts))


def samples_of(path: str) -> list[Sample]:
    """Raises DataError if it is not a tar, is compressed, or has members that cannot be read in place."""
    size, samples = os.stat(path).st_size, list[Sample]()
    try:
        with open_file(path) as file, tarfile.open(path, "r:", file) as tar:
            for member in _files_of(tar, path):
                folder, _, name = member.name.rpartition("/")
                stem, dot, extension = name.partition(".")
                if not stem or not dot:  # As in WebDataset: a member without an extension belongs to no sample.
                    continue
                if member.offset_data + member.size > size:
                    raise DataError(f"{path}: {member.name} ends behind the file's end: was it cut?")
                extension = extension.lower()  # As in WebDataset: ImageNet's .JPEG becomes the part "jpeg".
                key = f"{folder}/{stem}" if folder else stem
                if not samples or samples[-1].key != key:
                    samples.append(Sample(key, member.offset))
                if any(part.name == extension for part in samples[-1].parts):
                    raise DataError(f"{path}: sample {key} has two parts named {extension}")
                samples[-1].parts.append(Part(extension, member.offset_data, member.size))
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: it is no tar, or a compressed one, of which no part can be read by itself: {error}"
                        ) from error
    return samples


def _files_of(tar: tarfile.TarFile, path: str) -> Iterator[tarfile.TarInfo]:
    while (member := tar.next()) is not None:
        tar.members = []  # type: ignore[attr-defined]  # tarfile would keep all members, a kilobyte each.
        if member.issparse():
            raise DataError(f"{path}: {member.name} is stored with holes: pack it without --sparse")
        if member.isreg():
            yield member
