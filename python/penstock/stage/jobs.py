# SPDX-License-Identifier: Apache-2.0

"""The staging of one file: allocates it, writes, flushes, verifies and records each part, then names it."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from penstock import _native
from penstock.files import File
from penstock.progress import Shared
from penstock.regular import open_regular
from penstock.sessions import Session
from penstock.stage.failures import ChangedError, StageError, TransientError, failure_of, patiently
from penstock.stage.folders import entry_of
from penstock.stage.manifest import Unfinished
from penstock.stage.names import new_temporary
from penstock.stage.planning import Item, is_begun

T = TypeVar("T")

FLAGS = os.O_RDWR
GO_ON = "run the command again to resume"


@dataclass
class Settings:
    session: Session
    part_bytes: int
    verify: bool
    direct: bool
    counter: Shared


@dataclass(eq=False)
class Job:
    """Several threads process parts; the lock guards their shared state."""

    item: Item
    settings: Settings
    attempt: int = 1
    drawn: int = 0                # How many parts threads have taken.
    is_over: bool = False         # Another attempt replaced this one.
    _done: int = 0
    _users: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _fd: int = -1
    _file: File | None = None
    _recalled: frozenset[int] = frozenset()

    @property
    def count(self) -> int:
        return max(1, -(-self.item.found.size // self.settings.part_bytes))

    # ---- Its file

    def enter(self) -> bool:
        """Returns whether its parts are still needed. The first call opens the file; `leave` must follow."""
        with self._lock:
            if self.is_over:
                return False
            if self._file is None:
                self._fd = self._begun() if self._goes_on() else self._new()
                self._file = self.settings.session.open(self._fd)
            self._users += 1
            return True

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._file is not None and self._users == 0 and (self.is_over or self._done == self.count):
                self._file.close()
                os.close(self._fd)
                self._file, self._fd = None, -1

    def _goes_on(self) -> bool:
        found, folder = self.item.found, self.item.folder
        return (is_begun(found, folder, self.settings.part_bytes)
                and folder.has_temporary(folder.unfinished[found.name]))

    def _open(self, name: str, flags: int) -> int:
        journal = self.item.folder.journal
        assert journal is not None
        if self.settings.direct:
            try:
                return open_regular(name, flags | os.O_DIRECT, follow=False, dir_fd=journal.state)
            except OSError as error:
                if error.errno != errno.EINVAL:  # The file system does not support the flag.
                    raise
                flags &= ~os.O_EXCL  # The failed call may have created the file.
        return open_regular(name, flags, follow=False, dir_fd=journal.state)

    def _begun(self) -> int:
        begun = self.item.folder.unfinished[self.item.found.name]
        self._recalled = frozenset(begun.sums)
        fd = self._open(begun.temporary, FLAGS)
        self._allocate(fd)
        return fd

    def _allocate(self, fd: int) -> None:
        """Allocates the whole file first: no holes, few extents, and a full drive fails early."""
        try:
            if self.item.found.size:
                os.posix_fallocate(fd, 0, self.item.found.size)
        except OSError as error:
            os.close(fd)
            raise StageError(f"allocate {self.item.path}: {error.strerror}: free room for its {self.item.found.size} "
                             f"bytes, and {GO_ON}") from None

    def _new(self) -> int:
        found, journal, temporary = self.item.found, self.item.folder.journal, new_temporary()
        assert journal is not None
        journal.forget(found.name)
        fd = self._open(temporary, FLAGS | os.O_CREAT | os.O_EXCL)
        journal.begin(found.name, Unfinished(temporary, found.origin, found.size, found.version,
                                             self.settings.part_bytes))
        self._allocate(fd)
        return fd

    # ---- A part

    def extent_of(self, part: int) -> tuple[int, int]:
        begin = part * self.settings.part_bytes
        return begin, min(self.settings.part_bytes, self.item.found.size - begin)

    def has(self, part: int, memory: memoryview) -> bool:
        """Whether the part on the drive has the checksum that an earlier run recorded."""
        if part not in self._recalled:
            return False
        noted = self.item.folder.unfinished[self.item.found.name].sums[part]
        return self._sum_on_drive(part, memory) == noted

    def put(self, part: int, memory: memoryview) -> None:
        """Writes a part. Overwrites the memory when it reads the part back."""
        begin, size = self.extent_of(part)
        found, session = self.item.found, self.settings.session
        checksum = session.crc32c(memory[:size])[0]
        if found.md5 is not None and size == found.size:
            self._check_md5(hashlib.md5(memory[:size], usedforsecurity=False).hexdigest())
        assert self._file is not None and self.item.folder.journal is not None
        try:
            self.settings.counter.count(self._file.write(memory[:size], begin))
            os.fdatasync(self._fd)
        except OSError as error:
            raise StageError(f"write {self.item.path}: {error}: check the drive and its free space, and {GO_ON}") \
                from error
        if self.settings.verify and not self._is_read_for_md5:
            self._check_on_drive(part, memory, checksum)
        with self._lock:
            if not self.is_over:
                self.item.folder.journal.note_part(found.name, part, checksum)

    def _check_on_drive(self, part: int, memory: memoryview, checksum: int) -> None:
        """Reads the part back into the memory and checks it."""
        if self._sum_on_drive(part, memory) != checksum:
            raise StageError(f"read back {self.item.path} from byte {self.extent_of(part)[0]}: the drive gives other "
                             "bytes than were written: look at the drive, and stage to another")

    def _sum_on_drive(self, part: int, memory: memoryview) -> int | None:
        begin, size = self.extent_of(part)
        assert self._file is not None
        if self._file.read(memory[:size], begin).bytes != size:
            return None
        return self.settings.session.crc32c(memory[:size])[0]

    # ---- Its end

    def part_is_done(self) -> bool:
        """Returns whether it was the last part."""
        with self._lock:
            self._done += 1
            return self._done == self.count and not self.is_over

    def finish(self, memory: memoryview) -> None:
        """Names the file. Raises ChangedError if the source has changed."""
        found, folder = self.item.found, self.item.folder
        if not found.source.is_exact(found):
            now = self._asked(lambda: found.source.again(found))
            if (now.size, now.version) != (found.size, found.version):
                raise ChangedError
        if self._is_read_for_md5:
            self._check_md5(self._md5_on_drive(memory))
        self._check_crc32c(self._asked(lambda: found.source.checksum_of(found)))
        assert folder.journal is not None and self._file is not None
        os.fsync(self._fd)
        folder.journal.note_whole(found.name, os.fstat(self._fd).st_mtime_ns)
        whole = folder.unfinished[found.name]
        folder.give_name(found.name, whole)
        folder.entries[found.name] = entry_of(whole)
        self.is_over = True

    def _asked(self, call: Callable[[], T]) -> T:
        """The source's current state of the file."""
        try:
            return patiently(call)
        except (OSError, TransientError) as error:
            raise failure_of(f"look at {self.item.found.shown} again", error, self.item.found.path) from None

    @property
    def _is_read_for_md5(self) -> bool:
        """Reads the whole file in order at the end, which replaces reading back each part."""
        return self.settings.verify and self.item.found.md5 is not None and self.count > 1

    def _md5_on_drive(self, memory: memoryview) -> str:
        digest, sums = hashlib.md5(usedforsecurity=False), self.item.folder.unfinished[self.item.found.name].sums
        for part in range(self.count):
            self._check_on_drive(part, memory, sums[part])
            digest.update(memory[:self.extent_of(part)[1]])
        return digest.hexdigest()

    def _check_crc32c(self, expected: int | None) -> None:
        found, sums = self.item.found, self.item.folder.unfinished[self.item.found.name].sums
        got = _native.crc32c_of_all([(sums[part], self.extent_of(part)[1]) for part in range(len(sums))])
        if expected is not None and got != expected:
            raise StageError(f"compare {found.shown} with its checksum: what came has CRC32C {got:08x}, and the source "
                             f"says {expected:08x}: {GO_ON}; if it stays so, the object is damaged at the source")

    def _check_md5(self, got: str) -> None:
        found = self.item.found
        if got != found.md5 and self._asked(lambda: found.source.has_md5(found)):
            raise StageError(f"compare {found.shown} with its ETag: what came has MD5 {got}, and the source says "
                             f"{found.md5}: {GO_ON}; if it stays so, the object is damaged at the source")
