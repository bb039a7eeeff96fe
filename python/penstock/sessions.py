# SPDX-License-Identifier: Apache-2.0

"""Sessions, which own files, pinned memory and worker threads."""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any, TypeVar

from penstock import _native
from penstock.errors import BadSettingError, UnsupportedError
from penstock.files import File, NewFile
from penstock.futures import Pending
from penstock.records import Counter, Device, SessionInfo, Verdict
from penstock.regular import UnfitFileError, open_regular

__all__ = ["Session", "default_session"]

AnyFile = TypeVar("AnyFile", bound=File)

_MODES = {
    "r": os.O_RDONLY,
    "r+": os.O_RDWR,
    "w": os.O_RDWR | os.O_CREAT | os.O_TRUNC,
    "x": os.O_RDWR | os.O_CREAT | os.O_EXCL,
}


class Session:
    """A session of Penstock: `with penstock.Session(policy="cpu") as session: ...`.

    Settings are keywords, by the names of `penstock.settings()`; others come from the environment or have their
    defaults. In a process with Penstock's libcufile all share the session behind cuFile's calls, so that there is one
    budget of pinned memory: then settings are not allowed, unless `shared=False` asks for a separate session.

    Most programs need no session of their own: `penstock.open()` uses `penstock.default_session()`.
    """

    def __init__(self, *, shared: bool | None = None, **settings: object) -> None:
        _check_names(settings)
        self._native = _native.SessionHandle({name: _text(value) for name, value in settings.items()}, shared)
        self._requests: Pending | None = None
        self._lock = threading.Lock()
        self._pid = os.getpid()

    # ---- Files ----

    def open(self, file: str | bytes | os.PathLike[Any] | int, mode: str = "r", *, direct: bool = False,
             once: bool = False) -> File:
        """Opens a file, or registers a descriptor (which the caller may close at any time).

        mode: "r", "r+" (read and write), "w" (create or empty, read and write) or "x" (create, it must not exist). For
        a descriptor the mode is ignored. direct: open it with O_DIRECT. Not needed for direct I/O, which the library
        chooses itself; it makes the library avoid the page cache where it can. once: no byte is read twice, so that
        registering the file's pages with a GPU would not pay. Raises the errors of `os.open()`, and PenstockError.
        """
        if isinstance(file, int):
            return self._advised(File(self._native, file), once)
        if mode not in _MODES:
            raise ValueError(f"mode {mode!r}: expected 'r', 'r+', 'w' or 'x'")
        fd = _opened(file, _MODES[mode] | (os.O_DIRECT if direct else 0))
        try:
            opened = File(self._native, fd)
        finally:
            os.close(fd)
        opened._name = os.fsencode(file)
        return self._advised(opened, once)

    def _advised(self, file: File, once: bool) -> File:
        if once:
            file.advise_read_once()
        return self._adopt(file)

    def create(self, name: str | bytes | os.PathLike[Any], *, replace: bool = False, mode: int = 0o666,
               direct: bool = False) -> NewFile:
        """Creates a file that appears under `name` only when it is published, as a whole: see `NewFile`.

        replace: publishing replaces an existing file; otherwise it fails if there is one. mode: as for open(2). direct:
        with O_DIRECT, if the file system allows it.
        """
        _check_length(os.fsencode(name))
        return self._adopt(NewFile(self._native, os.fsencode(name), mode, replace | direct << 1))

    def open_stripe(self, manifest: str | bytes | os.PathLike[Any]) -> File:
        """Opens a striped object (one object in files on several drives) for reading, by its manifest.

        A read fills the buffer from all members in parallel. Raises `BadStripeError`, which names the file, if the
        manifest or a member is missing, truncated or from another object. `stripe_info()` lists the members.
        """
        return self._adopt(File(self._native, os.fsencode(manifest)))

    def create_stripe(self, manifest: str | bytes | os.PathLike[Any], folders: Iterable[str | bytes | os.PathLike[Any]],
                      size: int, *, stripe_bytes: int = 8 << 20, replace: bool = False, mode: int = 0o666,
                      direct: bool = False) -> NewFile:
        """Creates a striped object of `size` bytes, with a member in each folder; it appears when it is published: see
        `NewFile`.

        stripe_bytes: bytes of a stripe, a multiple of 65536. The rest is as for `create()`.
        """
        names = [os.fsencode(folder) for folder in folders]
        return self._adopt(NewFile(self._native, os.fsencode(manifest), names, size, stripe_bytes, mode,
                                   replace | direct << 1))

    def _adopt(self, file: AnyFile) -> AnyFile:
        file._owner = self
        return file

    def _pending(self) -> Pending:
        pending = self._requests
        if pending is None:
            with self._lock:
                if self._requests is None:
                    self._requests = Pending(self._native)
                pending = self._requests
        return pending

    # ---- What it is ----

    @property
    def closed(self) -> bool:
        return self._native.closed

    @property
    def shared(self) -> bool:
        """Whether this is the session behind this process's cuFile calls."""
        return self._native.shared

    def devices(self) -> list[Device]:
        """The devices: ordinal, kind, name, pci_address, memory_bytes, uuid, stand_in (host memory stands in for a
        GPU)."""
        return self._native.devices()

    def info(self) -> SessionInfo:
        """device_count, device_kinds, device_reason (why no GPU can be used, or ""), pinned_bytes."""
        return self._native.info()

    def setting(self, name: str) -> tuple[str, str]:
        """A setting's value in this session, and its source: "default", "environment", "file" or "call"."""
        return self._native.setting(name)

    def outlook(self) -> list[Verdict]:
        """Whether each path can serve any file at all here, as verdicts like those of `File.explain()`."""
        return self._native.outlook()

    def counters(self) -> list[Counter]:
        """Bytes and operations since the session opened, by path and by the reason why no better path was taken."""
        return self._native.counters()

    def allocate(self, size: int, device: int = 0) -> _native.DeviceMemory:
        """Allocates `size` bytes of a device's memory, for programs without torch or cupy."""
        return self._native.allocate(size, device)

    def crc32c(self, buffer: Any, piece_bytes: int = 0, *, stream: Any = None) -> list[int]:
        """CRC32C (RFC 3720) of each `piece_bytes` of host or GPU memory (the last piece may be shorter); 0: one of all
        of it. Empty for no bytes. A GPU computes those of its own memory, after `stream`: see `File.read()`.
        """
        return self._native.crc32c(buffer, _piece_of(piece_bytes), stream)

    def crc32c_vector(self, buffers: Iterable[Any], piece_bytes: int = 0, *, stream: Any = None) -> list[int]:
        """The same for several buffers: the checksums of the first one's pieces, then of the next one's. A GPU computes
        those of all its memory in few launches.
        """
        return self._native.crc32c_vector(list(buffers), _piece_of(piece_bytes), stream)

    def crc32c_begin(self, buffers: Iterable[Any], piece_bytes: int = 0, *,
                     stream: Any = None) -> _native.PendingChecksums:
        """The same in the order of a GPU's stream (None: torch's current one), without waiting for it: later work of
        the stream may change the buffers. Those of host memory are made before this returns. All buffers belong to one
        stream; ValueError if not.
        """
        return self._native.crc32c_begin(list(buffers), _piece_of(piece_bytes), stream)

    def fingerprints_begin(self, buffers: Iterable[Any], *, stream: Any = None) -> _native.PendingFingerprints:
        """CRC32C and a hash of 64 bits of each buffer as a whole, in the order of a GPU's stream like `crc32c_begin()`,
        to tell bytes that changed: docs/reference/checkpoint-format.md has the hash. (0, 0) for no bytes.
        """
        return self._native.fingerprints_begin(list(buffers), stream)

    # ---- Its end ----

    def close(self) -> None:
        """Waits for the requests that have begun, cancels the others, and closes. Calls on its files fail
        afterwards."""
        if self._pid != os.getpid():
            return
        with self._lock:
            pending = self._requests
        if pending is not None and not self.closed:
            pending.close()
        self._native.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<penstock.Session: {'closed' if self.closed else self.info()['device_kinds']}>"


def _piece_of(piece_bytes: int) -> int:
    if piece_bytes < 0:
        raise ValueError(f"piece_bytes is {piece_bytes}: expected the bytes that one checksum covers, or 0")
    return piece_bytes or sys.maxsize


def _check_names(settings: Iterable[str]) -> None:
    """Raises BadSettingError, with the whole name, if a name is a part of one. The library knows misspelt ones."""
    known = [str(each["name"]) for each in _native.settings()]
    for name in settings:
        whole = [each for each in known if name in each]
        if name not in known and whole:
            error = BadSettingError(f"could not use {name}: no setting has this name; did you mean "
                                    f"{' or '.join(whole[:3])}?")
            error.code = 21
            raise error


def _opened(file: str | bytes | os.PathLike[Any], flags: int) -> int:
    """Opens a regular file or a block device. Opening anything else may block, or it has no end."""
    try:
        if stat.S_ISBLK(os.stat(file).st_mode):
            fd = os.open(file, flags | os.O_CLOEXEC | os.O_NONBLOCK)
            os.set_blocking(fd, True)  # With O_NONBLOCK, io_uring fails requests with EAGAIN.
            return fd
    except FileNotFoundError:
        pass
    try:
        return open_regular(file, flags)
    except UnfitFileError as error:
        refused = UnsupportedError(f"could not open the file: {error.strerror}, or a block device")
        refused.errno, refused.filename, refused.step = error.errno, os.fsdecode(file), "open the file"
        raise refused from None


def _check_length(name: bytes) -> None:
    """Checks early: an unnamed file would learn only when published that its name is too long."""
    folder, base = os.path.split(name)
    try:
        most = os.pathconf(folder or b".", "PC_NAME_MAX")
    except OSError:
        return  # Opening the folder reports what is wrong with it.
    if 0 < most < len(base):
        raise OSError(errno.ENAMETOOLONG, f"the name has {len(base)} bytes, and the file system takes {most}: nothing "
                      "was written. Choose a shorter one", os.fsdecode(name))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(each) for each in value)
    return str(value)


_default: Session | None = None
_default_lock = threading.Lock()


def default_session() -> Session:
    """The session of `penstock.open()`, opened when first needed, with the environment's settings."""
    global _default
    with _default_lock:
        if _default is None or _default.closed:
            _default = Session()
        return _default


def forget_default() -> None:
    """Called in a forked child, which needs its own session."""
    global _default, _default_lock
    _default, _default_lock = None, threading.Lock()
