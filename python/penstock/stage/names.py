# SPDX-License-Identifier: Apache-2.0

"""Names of files in a folder: refuses names that lead out of it, or that file systems do not accept.

Names come from sources, and from the manifest and journal of a folder, which are untrusted. Paths are opened one
component at a time, each from its parent folder, without following links.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator

from penstock.stage.failures import StageError

MANIFEST = "penstock-stage.json"
STATE = ".penstock-stage"   # The folder of the journal and unfinished files of an unfinished run.
TEMPORARY = re.compile(r"[0-9a-f]{32}\.part")
WORD_BYTES_MAX = 255
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def check_name(name: str, source: str) -> None:
    """Raises StageError for a refused name. name: the relative path; source: the file's source, for the message."""
    if (why := fault_of(name)) is not None:
        raise StageError(f"list the sources: {source!r} would be staged as {name!r}, and {why}: rename it at the "
                         "source, or name the files to stage one by one")


def fault_of(name: object) -> str | None:
    """Why the name is refused; "" if it is not."""
    if not isinstance(name, str):
        return "a name is text"
    words = name.split("/")
    if "" in words:
        return "that is an absolute name, or has an empty word"
    if "." in words or ".." in words:
        return "'.' and '..' lead out of the folder"
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
        return "it has a control character"
    try:
        longest = max(len(word.encode()) for word in words)
    except UnicodeEncodeError:
        return "it is not UTF-8"
    if longest > WORD_BYTES_MAX:
        return f"a word of it has {longest} bytes, where drives take {WORD_BYTES_MAX}"
    if words[0] in (MANIFEST, STATE):
        return "stage keeps its own files under that name"
    return None


def new_temporary() -> str:
    return f"{secrets.token_hex(16)}.part"


def is_temporary(name: object) -> bool:
    """Whether the name is one from `new_temporary`, and so a single component."""
    return isinstance(name, str) and TEMPORARY.fullmatch(name) is not None


def check_together(names: Iterable[tuple[str, str]]) -> None:
    """Raises StageError if two (name, source) are the same file, or one is the folder of another."""
    found: dict[str, str] = {}
    for name, source in names:
        if name in found:
            raise StageError(f"list the sources: {found[name]!r} and {source!r} would both be staged as {name!r}: "
                             "stage them to different folders")
        found[name] = source
    for name, source in found.items():
        words = name.split("/")
        for count in range(1, len(words)):
            if (above := "/".join(words[:count])) in found:
                raise StageError(f"list the sources: {found[above]!r} would be the file {above!r}, in which {source!r} "
                                 "would lie: rename one of them, or stage them to different folders")


@contextlib.contextmanager
def folder_of(root: int, name: str, *, make: bool = False) -> Iterator[int | None]:
    """Opens the folder that contains `name`; None if there is none. Raises StageError for a link."""
    fd = os.dup(root)
    try:
        for word in name.split("/")[:-1]:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(word, dir_fd=fd)
            try:
                below = os.open(word, FOLDER_FLAGS, dir_fd=fd)
            except FileNotFoundError:
                yield None
                return
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    raise StageError(f"open the folders of {name!r}: {word!r} is a link or a file, and a link may "
                                     "lead elsewhere: remove it, or stage to another folder") from None
                raise
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def facts_of(root: int, name: str) -> os.stat_result | None:
    """The facts of the regular file with the name; None if there is none. Raises StageError for anything else."""
    with folder_of(root, name) as folder:
        if folder is None:
            return None
        try:
            facts = os.stat(name.split("/")[-1], dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
    if not stat.S_ISREG(facts.st_mode):
        what = "a link, which may lead elsewhere" if stat.S_ISLNK(facts.st_mode) else "no regular file"
        raise StageError(f"look at {name!r} in the folder: it is {what}: remove it, or stage to another folder")
    return facts
