# SPDX-License-Identifier: Apache-2.0

"""A checkpoint exists from the moment when checkpoint.json gets its name.

Data files are flushed before, and have names unique to their save: so the previous checkpoint stays whole until then,
and a crash leaves one or the other. Of several saves that publish in one moment, each removes what it has replaced.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from penstock.checkpoint.layout import NAME, CheckpointError, Layout, encode
from penstock.checkpoint.leases import Lease, room_for_leases, take
from penstock.checkpoint.leftovers import DATA_FILE, files_of_checkpoint, give_up, names_said, remove_behind
from penstock.checkpoint.reading import has_size
from penstock.checkpoint.renaming import take_name
from penstock.folders import flush_folder


def publish(folder: Path, layout: Layout, lease: Lease, *, durable: bool = True) -> None:
    """Makes it the folder's checkpoint. The previous data files are removed in the background, and the lease ends then,
    or here if the save fails."""
    try:
        others = _other_ids(layout, lease)
        with _all_leases(folder, others) as leases:
            before, earlier = _identity(folder / NAME), files_of_checkpoint(folder) - set(layout.files)
            lease.note(earlier | {_temporary(layout)})
            give_name(folder, layout, durable=durable)
            for each in leases:
                each.end()
        for save_id in others[len(leases):]:
            with contextlib.suppress(OSError):  # Harmless: a later sweep removes the lease's file.
                take(folder, save_id).end()
        aside = folder / _temporary(layout)
        earlier |= _replaced(aside, before) - set(layout.files)
        # The description goes last: until then it names the others to whoever finds them after a kill.
        remove_behind([folder / name for name in earlier], lease, last=[aside])
    except BaseException:
        give_up(folder, layout.files, lease)
        raise


def _other_ids(layout: Layout, own: Lease) -> list[str]:
    """The save ids of all other ranks."""
    found = {match[1] for name in layout.files if (match := DATA_FILE.fullmatch(name))}
    return sorted(found - {own.save_id})


@contextlib.contextmanager
def _all_leases(folder: Path, save_ids: list[str]) -> Iterator[list[Lease]]:
    """Takes the leases of ranks whose processes may die from now on: as many as there is room for."""
    with contextlib.ExitStack() as held:
        found = []
        for save_id in save_ids[:room_for_leases()]:
            found.append(take(folder, save_id))
            held.callback(found[-1].close)
        yield found


def _temporary(layout: Layout) -> str:
    return f".{layout.save_id}"


def _identity(path: Path) -> tuple[int, ...]:
    """Empty if it is gone."""
    with contextlib.suppress(OSError):
        facts = os.lstat(path)
        return facts.st_ino, facts.st_size, facts.st_mtime_ns
    return ()


def _replaced(aside: Path, before: tuple[int, ...]) -> set[str]:
    """The files of the checkpoint whose description lies there, if another save was published meanwhile. before: that
    of which all is known already."""
    return set() if _identity(aside) == before else names_said(aside)


def give_name(folder: Path, layout: Layout, *, durable: bool) -> None:
    """The checkpoint.json that is replaced gets the temporary name, if the file system can exchange names."""
    gone = [name for name, size in layout.files.items() if not has_size(folder / name, size)]
    if gone:
        raise CheckpointError(f"{folder / gone[0]}: it was removed or cut before the save ended: save again")
    temporary = folder / _temporary(layout)
    try:
        with temporary.open("xb") as file:
            file.write(encode(layout))
            file.flush()
            if durable:
                os.fsync(file.fileno())
        take_name(temporary, folder / NAME)
        if durable:
            flush_folder(folder)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # As of a write to a full disk.
            error.filename = str(folder / NAME)
        raise
