# SPDX-License-Identifier: Apache-2.0

"""Atomic renames that Python's own calls lack."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from pathlib import Path

AT_FDCWD, RENAME_NOREPLACE, RENAME_EXCHANGE = -100, 1, 2  # From linux/fcntl.h and linux/fs.h.
UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)  # The file system lacks the call.
# What seccomp answers, and a file system of an exchange across project quotas, where it may allow a plain rename.
REFUSED = (errno.EPERM, errno.EXDEV)


def exchange(one: Path, other: Path) -> None:
    """Exchanges the names of two files atomically."""
    number = _rename(one, other, RENAME_EXCHANGE)
    if number in UNKNOWN:
        raise OSError(number, "this file system cannot replace a folder in one step: save to a folder that is not "
                      "there yet", str(other))
    if number:
        raise OSError(number, os.strerror(number), str(other))


def take_name(one: Path, other: Path) -> None:
    """Gives `one` the name `other`, and its own to the file that had that, if there was one; on a file system that
    cannot exchange names, that is gone."""
    while True:
        if not other.is_symlink() and other.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(other))
        number = _rename(one, other, RENAME_EXCHANGE)
        if number == errno.ENOENT:
            with contextlib.suppress(FileExistsError):  # Somebody's file has just come there.
                return rename_where_free(one, other)
        elif number in (*UNKNOWN, *REFUSED):
            return os.rename(one, other)
        elif number:  # It may have been done all the same.
            raise OSError(number, os.strerror(number), str(other))
        else:
            return None


def rename_where_free(one: Path, other: Path) -> None:
    """Raises FileExistsError if the name exists. On a file system without such a call, a file created at the same
    moment may be replaced."""
    number = _rename(one, other, RENAME_NOREPLACE)
    if number in UNKNOWN:
        try:
            os.link(one, other)
            os.unlink(one)
            return
        except FileExistsError:
            raise
        except OSError:
            number = errno.EEXIST if os.path.lexists(other) else 0
        if number == 0:
            os.rename(one, other)
    if number:
        raise OSError(number, os.strerror(number), str(other))


def _rename(one: Path, other: Path, flags: int) -> int:
    """Returns the errno, 0 for success."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), flags) == 0:
        return 0
    return ctypes.get_errno()
