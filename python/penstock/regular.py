# SPDX-License-Identifier: Apache-2.0

"""Opens and reads what must be a regular file, whatever lies under its name.

A pipe would have whoever opens it wait for ever, a device may do something when it is opened, and a file of any size
would be read into memory. Every file that somebody else may have put there is opened by these calls.
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
    """What has the name is no regular file (errno EISDIR, ELOOP, EINVAL), or has more bytes than are read (EFBIG).

    `strerror` says what it is, without the name; the text names it as well.
    """

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def open_regular(path: AnyPath, flags: int = os.O_RDONLY, *, follow: bool = True, dir_fd: int | None = None,
                 mode: int = 0o666, shown: object = None) -> int:
    """A descriptor of the file, which blocks as others do. Never waits for the other end of a pipe.

    flags, mode, dir_fd: as of os.open(). follow: whether the last word of the path may be a link; a link that leads
    to a regular file is taken for one. shown: what errors call the file, where that is not its path.

    Raises UnfitFileError for what is no regular file, and what os.open() raises.
    """
    name = os.fsdecode(path) if shown is None else str(shown)
    flags |= os.O_CLOEXEC | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    try:  # What is no file is not even opened, unless it came to be there just now.
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
    """All that the file has. Takes no more memory than that, nor than bytes_max.

    Raises UnfitFileError for what is no regular file or has more bytes, and what os.open() raises.
    """
    fd = open_regular(path, follow=follow, dir_fd=dir_fd, shown=shown)
    try:
        size, pieces, left = os.fstat(fd).st_size, [], bytes_max + 1  # Files of /proc say 0, and others grow.
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
    # Somebody holds a lease on it, whose end is waited for: of this file, whatever has the name by now.
    place = os.open(path, os.O_PATH | flags & (os.O_CLOEXEC | os.O_NOFOLLOW), dir_fd=dir_fd)
    try:
        _check_regular(os.fstat(place), name)
        return os.open(f"/proc/self/fd/{place}", flags & ~(os.O_NOFOLLOW | os.O_EXCL), mode)
    finally:
        os.close(place)
