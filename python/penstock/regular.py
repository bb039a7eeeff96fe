# SPDX-License-Identifier: Apache-2.0

"""Opens and reads files that must be regular files.

Opening a pipe may block for ever, opening a device may have side effects, and a huge file would fill the memory. Every
file that somebody else may have put in place is opened by these calls.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Any

__all__ = ["UnfitFileError", "open_regular", "read_regular"]

AnyPath = str | bytes | os.PathLike[Any]

PIECE = 1 << 20
KINDS = ((stat.S_ISDIR, "a folder", errno.EISDIR), (stat.S_ISLNK, "a link, which may lead elsewhere", errno.ELOOP),
         (stat.S_ISFIFO, "a pipe", errno.EINVAL), (stat.S_ISSOCK, "a socket", errno.EINVAL),
         (stat.S_ISCHR, "a character device", errno.EINVAL), (stat.S_ISBLK, "a block device", errno.EINVAL))


class UnfitFileError(OSError):
    """The file is not a regular file (errno EISDIR, ELOOP, EINVAL), or is too large (EFBIG).

    `strerror` says what it is, without the name; the text includes the name.
    """

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def open_regular(path: AnyPath, flags: int = os.O_RDONLY, *, follow: bool = True, dir_fd: int | None = None,
                 mode: int = 0o666, shown: object = None) -> int:
    """Returns a blocking descriptor of the file. Never waits for the other end of a pipe.

    flags, mode, dir_fd: as for os.open(). follow: whether the last component of the path may be a link to a regular
    file. shown: the file's name in errors, if that is not its path.

    Raises UnfitFileError if it is not a regular file, and the errors of os.open().
    """
    name = os.fsdecode(path) if shown is None else str(shown)
    flags |= os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    try:  # Anything but a file is not even opened, except in a race.
        _check_regular(os.stat(path, dir_fd=dir_fd, follow_symlinks=follow), name)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    fd = _opened(path, flags, mode, dir_fd, follow, name)
    try:
        _check_regular(os.fstat(fd), name)
        os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_regular(path: AnyPath, bytes_max: int, *, follow: bool = True, dir_fd: int | None = None,
                 shown: object = None) -> bytes:
    """Reads the whole file. Uses no more memory than its size, and at most bytes_max.

    Raises UnfitFileError if it is not a regular file or has more bytes, and the errors of os.open().
    """
    fd = open_regular(path, follow=follow, dir_fd=dir_fd, shown=shown)
    try:
        size, pieces, left = os.fstat(fd).st_size, [], bytes_max + 1  # Files in /proc report size 0, and others grow.
        while size <= bytes_max and left and (piece := os.read(fd, min(PIECE, left))):
            pieces.append(piece)
            left -= len(piece)
        if size > bytes_max or not left:
            raise UnfitFileError(errno.EFBIG, f"it has more than the {bytes_max} bytes that such a file may have",
                                 os.fsdecode(path) if shown is None else str(shown))
        return b"".join(pieces)
    finally:
        os.close(fd)


def _check_regular(facts: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(facts.st_mode):
        what, code = next(((words, code) for is_one, words, code in KINDS if is_one(facts.st_mode)),
                          ("something else", errno.EINVAL))
        raise UnfitFileError(code, f"it is {what}, where a regular file is wanted", name)


def _opened(path: AnyPath, flags: int, mode: int, dir_fd: int | None, follow: bool, name: str) -> int:
    try:
        return os.open(path, flags | os.O_NONBLOCK, mode, dir_fd=dir_fd)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise UnfitFileError(errno.ELOOP, "it is a link, which may lead elsewhere, where a regular file is wanted",
                                 name) from None
        if not isinstance(error, BlockingIOError):
            raise
    # Another process holds a lease on it: waits for its end, on this very file even if the name has moved.
    place = os.open(path, os.O_PATH | flags & (os.O_CLOEXEC | os.O_NOFOLLOW), dir_fd=dir_fd)
    try:
        _check_regular(os.fstat(place), name)
        return os.open(f"/proc/self/fd/{place}", flags & ~(os.O_NOFOLLOW | os.O_EXCL), mode)
    finally:
        os.close(place)
