# SPDX-License-Identifier: Apache-2.0

"""Names that change in one step, which Python's own calls cannot."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

AT_FDCWD, RENAME_NOREPLACE, RENAME_EXCHANGE = -100, 1, 2  # As linux/fcntl.h and linux/fs.h have them.
UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)  # To this file system.


def exchange(one: Path, other: Path) -> None:
    """Each has the other's name from the same moment on."""
    number = _rename(one, other, RENAME_EXCHANGE)
    if number in UNKNOWN:
        raise OSError(number, "this file system cannot replace a folder in one step: save to a folder that is not "
                      "there yet", str(other))
    if number:
        raise OSError(number, os.strerror(number), str(other))


def rename_where_free(one: Path, other: Path) -> None:
    """Raises FileExistsError where there is another of that name. Where the file system has no such call, one that
    comes in the same moment may be replaced."""
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
    """The number of the error, 0 for none."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), flags) == 0:
        return 0
    return ctypes.get_errno()
