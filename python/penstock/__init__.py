# SPDX-License-Identifier: Apache-2.0

"""Penstock: moves file data into and out of GPU memory, and reports which path the bytes of each transfer took.

    import penstock
    with penstock.open("weights.bin") as file:
        report = file.read(tensor)       # A tensor, an array, anything with DLPack or the buffer protocol.
        print(report)                    # 4294967296 bytes by path pagecache

Without a GPU, host memory stands in for one; `devices()` and reports say so.
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from typing import Any

from penstock import _native
from penstock._native import DeviceMemory, Pointer, Report, engine, settings

_native.set_library_folder(str(Path(_native.__file__).parent / "lib"))

from penstock import formats as _formats
from penstock import futures as _futures
from penstock import sessions as _sessions
from penstock import threads as _threads
from penstock.errors import (
    BadSettingError, BadStripeError, CanceledError, ClosedError, DeviceError, LimitError, PathRefusedError,
    PenstockError, TimedOutError, UnsupportedError,
)
from penstock.files import File, NewFile
from penstock.futures import Future
from penstock.pools import memory_pool
from penstock.records import Check, Verdict
from penstock.sessions import Session, default_session

__all__ = [
    "BadSettingError", "BadStripeError", "CanceledError", "ClosedError", "DeviceError", "DeviceMemory", "File",
    "Future", "LimitError", "NewFile", "PathRefusedError", "PenstockError", "Pointer", "Report", "Session",
    "TimedOutError", "UnsupportedError", "check", "create", "default_session", "engine", "explain", "memory_pool",
    "open", "read", "settings", "write",
]
__version__ = _native.__version__


def open(file: str | bytes | os.PathLike[Any] | int, mode: str = "r", *, direct: bool = False,
         once: bool = False) -> File:
    """`Session.open()` of the default session."""
    return default_session().open(file, mode, direct=direct, once=once)


def create(name: str | os.PathLike[str], *, replace: bool = False, mode: int = 0o666) -> NewFile:
    """`Session.create()` of the default session."""
    return default_session().create(name, replace=replace, mode=mode)


def read(file: str | os.PathLike[Any], buffer: Any, offset: int = 0, *, stream: Any = None) -> Report:
    """Reads from the file, from `offset` on, until the buffer is full or the file ends. See `File.read()`."""
    with open(file) as opened:
        return opened.read(buffer, offset, stream=stream)


def write(name: str | os.PathLike[str], buffer: Any, *, replace: bool = False, stream: Any = None) -> Report:
    """Writes the buffer to a new file, which appears under its name when it is whole and on the disk."""
    with create(name, replace=replace) as made:
        return made.write(buffer, stream=stream)


def explain(file: str | os.PathLike[Any], buffer: Any = None, *, write: bool = False,
            device: int = 0) -> list[Verdict]:
    """The verdict of every path on reading (or writing) the file, best first. See `File.explain()`."""
    with open(file, "r+" if write else "r") as opened:
        return opened.explain(buffer, write=write, device=device)


def check() -> Check:
    """What this process can use: engine, devices and why there is no GPU, paths with reason and remedy, settings.

    The command `penstock check` also reads the machine: drives, file systems, the kernel.
    """
    session = default_session()
    return {
        "engine": engine(),
        "shared": session.shared,
        **session.info(),
        "devices": session.devices(),
        "paths": session.outlook(),
        "settings": {each["name"]: session.setting(each["name"]) for each in settings()},
    }


def _open_checkpoint(folder: Path) -> Any:
    from penstock.checkpoint.sources import Source

    return Source(folder)


_formats.register("checkpoint.json", _open_checkpoint)


def _at_exit() -> None:
    """Stops the threads before the interpreter ends, when a save in the background has ended. Sessions and requests in
    flight are left to the process's end."""
    _threads.finish_all()
    _futures.stop_all()
    _native.begin_ending()


atexit.register(_at_exit)

def _after_fork() -> None:
    _sessions.forget_default()
    _futures.forget_all()
    _threads.after_fork()


os.register_at_fork(after_in_child=_after_fork)
