# SPDX-License-Identifier: Apache-2.0

"""The checkpoints in a folder: finds the newest, and removes old ones."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

from penstock.checkpoint.ids import order_of
from penstock.checkpoint.layout import CheckpointError, Layout
from penstock.checkpoint.leftovers import sweep_all, sweep_empty
from penstock.checkpoint.reading import is_whole, read_layout, read_summary
from penstock.checkpoint.removal import remove_checkpoint
from penstock.checkpoint.verifying import is_verified

log = logging.getLogger("penstock.checkpoint")


Known = list[tuple[Path, Layout]]
SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR)


def _known(root: Path, take: Callable[[OSError], None]) -> Known:
    """The checkpoints in a folder, oldest first, with their summaries. Skips other folders and damaged checkpoints.
    take: is given the error of what cannot be read, which it may raise."""
    found = []
    for place in root.iterdir() if root.is_dir() else ():
        try:
            layout = read_summary(place)
            if is_whole(place, layout):
                found.append((order_of(place, layout), place, layout))
        except CheckpointError as error:
            log.warning("passed over: %s", str(error))  # As text: the error object keeps the read bytes alive.
        except OSError as error:
            take(error)
    return [each[1:] for each in sorted(found, key=lambda each: (each[0], str(each[1])))]


def tell(error: OSError) -> None:
    """Tells of what is passed over since it cannot be read, unless it is not there."""
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        log.warning("passed over: %s", error)


def tell_or_raise(error: OSError) -> None:
    """Raises the error where a moment later it may be read: what was passed over then may be the newest."""
    if error.errno in SHORTAGES:
        raise error
    tell(error)


def latest(root: str | os.PathLike[str]) -> Path | None:
    """The newest whole checkpoint among the folders in `root`, by the start of its save; None if there is none.

    It does not check the data's checksums: `verify` does. Raises OSError if descriptors or memory are short; any other
    folder that cannot be read is passed over, with a warning.
    """
    return next(filter(may_be_loaded, reversed(whole(root))), None)


def whole(root: str | os.PathLike[str]) -> list[Path]:
    """All checkpoints that `latest` considers, the newest last."""
    return whole_in(Path(root), tell_or_raise)


def whole_in(root: Path, take: Callable[[OSError], None]) -> list[Path]:
    return [place for place, _ in _known(root, take)]


def is_readable(place: Path) -> bool:
    """Whether its whole description is valid. Raises OSError where the system does not let it be read. Not checked for
    every checkpoint, since it takes memory."""
    try:
        read_layout(place)
        return True
    except CheckpointError as error:
        log.warning("passed over: %s", str(error))  # As text: the error object keeps the read bytes alive.
    except FileNotFoundError:
        pass  # Another process removes it at the same time.
    return False


def may_be_loaded(place: Path) -> bool:
    """Like is_readable(), but passes over what the system does not let be read."""
    try:
        return is_readable(place)
    except OSError as error:
        tell_or_raise(error)
        return False


def _newest(found: Known, count: int, ask: Callable[[Path, Layout], bool | None]) -> set[Path]:
    """The newest of which the answer is true, and before them those without an answer: one may be the newest of all."""
    kept: set[Path] = set()
    for place, layout in reversed(found):
        answer = None
        with contextlib.suppress(OSError):
            answer = ask(place, layout)
        if answer is not False:
            kept.add(place)
        count -= answer is True
        if count == 0:
            break
    return kept


def retain(root: str | os.PathLike[str], keep: int) -> list[Path]:
    """Removes all but the newest `keep` checkpoints, and never the newest verified one. Returns the removed ones.

    Also removes files of dead saves. Links, such as one named latest, do not count, and their targets stay."""
    if keep < 1:
        raise ValueError(f"keep is {keep}: expected 1 at least")
    sweep_all(Path(root))
    found = [each for each in _known(Path(root), tell) if not each[0].is_symlink()]
    sweep_empty(Path(root), [place for place, _ in found])
    kept = _newest(found, keep, lambda place, _: is_readable(place)) | _newest(found, 1, is_verified)
    gone = []
    for place, layout in found:
        # If another process removes it at the same time, or it is invalid.
        with contextlib.suppress(FileNotFoundError, CheckpointError):
            if place not in kept and remove_checkpoint(place, layout.save_id):
                gone.append(place)
    return gone
