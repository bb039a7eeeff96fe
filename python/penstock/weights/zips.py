# SPDX-License-Identifier: Apache-2.0

"""Zip archives whose entries lie as they are: where the bytes of each are in the file.

Only what torch.save writes is understood: no comment, a directory at the end; of compressed entries the names alone. An
archive may be a piece of a larger file. Nothing that a directory says is believed before it is compared with the file.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from penstock.weights.tensors import WeightsError

SIGNATURE = b"PK\x03\x04"
DIRECTORY_BYTES_MAX = 100_000_000
EDGE = 4096  # Read with one call at either end: a small archive's directory, its pickle and its local headers.
ENCRYPTED = 1

_END, _END64 = struct.Struct("<4s4H2IH"), struct.Struct("<4sQ2H2I4Q")
_LOCATOR, _LOCAL = struct.Struct("<4sIQI"), struct.Struct("<4s5H3I2H")
_ENTRY = struct.Struct("<4s6H3I5H2I")


class Window:
    """Bytes `begin` to `begin + length` of an open file."""

    def __init__(self, file: Path, fd: int, begin: int = 0, length: int | None = None) -> None:
        size = os.fstat(fd).st_size
        length = size - begin if length is None else length
        self.file, self.begin, self.length, self._fd = file, begin, length, fd
        if not (0 <= begin <= size and 0 <= length <= size - begin):
            raise WeightsError(f"{file}: it ends at {size}, before byte {begin + length}")
        self._edges: list[tuple[int, bytes]] = []
        for at in {0, max(length - EDGE, 0)}:
            self._edges.append((at, self._pread(at, min(EDGE, length))))

    def where(self) -> str:
        return f"{self.file}" if self.begin == 0 else f"{self.file} at {self.begin}"

    def read(self, at: int, size: int) -> bytes:
        if not (0 <= at <= self.length and 0 <= size <= self.length - at):
            raise WeightsError(f"{self.where()}: it is said to have {size} bytes at {at}, of {self.length}")
        for begin, edge in self._edges:
            if begin <= at and at + size <= begin + len(edge):
                return edge[at - begin:at - begin + size]
        return self._pread(at, size)

    def _pread(self, at: int, size: int) -> bytes:
        pieces, done = [], 0
        while done < size:
            piece = os.pread(self._fd, size - done, self.begin + at + done)
            if not piece:
                raise WeightsError(f"{self.where()}: it was cut while it was read")
            pieces.append(piece)
            done += len(piece)
        return b"".join(pieces)


@dataclass(frozen=True)
class Entry:
    """A file of an archive: its local header is at `header`, and the next thing begins at `end`."""

    name: bytes
    header: int
    size: int
    end: int
    is_plain: bool  # Its bytes lie there as they are.
    crc: int        # 0 where the writer made none, as torch can be told.


class Zip:
    """The directory of an archive. Raises WeightsError for what is no archive of plain entries."""

    def __init__(self, window: Window) -> None:
        self.window = window
        count, at, size = self._end_record()
        if size > DIRECTORY_BYTES_MAX:
            raise self._wrong(f"a directory of {size} bytes is not accepted")
        self._directory_at = at
        self.entries = self._read_entries(window.read(at, size), count)

    def place(self, name: str) -> tuple[int, int]:
        """Where an entry's bytes begin, counted from the archive's first byte, and how many they are."""
        entry = self.entries[name]
        if not entry.is_plain:
            raise self._wrong(f"{name!r} is compressed or encrypted")
        fixed = self.window.read(entry.header, _LOCAL.size + len(entry.name))
        signature, _, flags, method, _, _, _, _, _, name_size, extra_size = _LOCAL.unpack_from(fixed)
        if signature != SIGNATURE or method != 0 or flags & ENCRYPTED or fixed[_LOCAL.size:] != entry.name:
            raise self._wrong(f"the directory and the header of {name!r} disagree")
        begin = entry.header + _LOCAL.size + name_size + extra_size
        if name_size != len(entry.name) or begin + entry.size > entry.end:
            raise self._wrong(f"{name!r} reaches into what follows it")
        return begin, entry.size

    def read(self, name: str, at_most: int) -> bytes:
        begin, size = self.place(name)
        if size > at_most:
            raise self._wrong(f"{name!r} has {size} bytes: {at_most} are expected at most")
        content = self.window.read(begin, size)
        if self.entries[name].crc not in (0, zlib.crc32(content)):
            raise self._wrong(f"the bytes of {name!r} are others than its checksum was made of")
        return content

    def _wrong(self, what: str) -> WeightsError:
        return WeightsError(f"{self.window.where()}: {what}: this zip archive was not written by torch.save, or is "
                            "damaged")

    def _end_record(self) -> tuple[int, int, int]:
        """Entries, offset and size of the directory."""
        window = self.window
        if window.length < _END.size or window.read(0, 4) != SIGNATURE:
            raise self._wrong("it is no zip archive")
        last = window.length - _END.size
        signature, disk, first_disk, _, count, size, at, comment = _END.unpack(window.read(last, _END.size))
        if signature != b"PK\x05\x06" or comment != 0 or (disk, first_disk) not in ((0, 0), (0xFFFF, 0xFFFF)):
            raise self._wrong("its last bytes are no directory's end; it may have been cut")
        if at + size != last:  # torch writes the records of zip64 into small archives as well.
            last -= _LOCATOR.size + _END64.size
            if last < 0:
                raise self._wrong("its directory's end is missing")
            record = _END64.unpack(window.read(last, _END64.size))
            locator = _LOCATOR.unpack(window.read(last + _END64.size, _LOCATOR.size))
            if record[0] != b"PK\x06\x06" or locator[0] != b"PK\x06\x07" or locator[2] != last:
                raise self._wrong("its directory's end is missing")
            count, size, at = record[7:]
        if at + size != last:
            raise self._wrong(f"its directory is said to be at {at}, with {size} bytes")
        return count, at, size

    def _read_entries(self, directory: bytes, count: int) -> dict[str, Entry]:
        found: list[tuple[int, int, bytes, bool, int]] = []
        at = 0
        while at < len(directory):
            entry, at = self._read_entry(directory, at)
            found.append(entry)
        if len(found) != count:
            raise self._wrong(f"its directory has {len(found)} entries, not {count}")
        found.sort()
        entries: dict[str, Entry] = {}
        ends = [header for header, *_ in found[1:]] + [self._directory_at]
        for (begin, length, raw, is_plain, crc), end in zip(found, ends, strict=True):
            name = raw.decode("utf-8", "replace")
            if begin + _LOCAL.size + len(raw) + length > end:
                raise self._wrong(f"{name!r} overlaps with what follows it")
            if name in entries:
                raise self._wrong(f"{name!r} is in it twice")
            entries[name] = Entry(raw, begin, length, end, is_plain, crc)
        return entries

    def _read_entry(self, directory: bytes, at: int) -> tuple[tuple[int, int, bytes, bool, int], int]:
        """(local header, size in the file, name, whether it is plain, checksum), and where the next one is."""
        if at + _ENTRY.size > len(directory):
            raise self._wrong("its directory ends early")
        (signature, _, _, flags, method, _, _, crc, packed, size, name_size, extra_size, comment_size, _, _, _,
         header) = _ENTRY.unpack_from(directory, at)
        begin = at + _ENTRY.size
        name, extra = directory[begin:begin + name_size], directory[begin + name_size:begin + name_size + extra_size]
        if signature != b"PK\x01\x02" or len(extra) != extra_size or comment_size != 0:
            raise self._wrong("its directory makes no sense")
        if 0xFFFFFFFF in (size, packed, header):
            size, packed, header = _large(extra, size, packed, header)
        is_plain = method == 0 and packed == size and not flags & ENCRYPTED
        return (header, packed, name, is_plain, crc), begin + name_size + extra_size


def _large(extra: bytes, *values: int) -> list[int]:
    """The values, where those of all ones stand in the extra field of zip64."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            field = extra[at + 4:at + 4 + size]
            numbers = iter(struct.unpack(f"<{len(field) // 8}Q", field[:len(field) // 8 * 8]))
            return [next(numbers, value) if value == 0xFFFFFFFF else value for value in values]
        at += 4 + size
    return list(values)
