# SPDX-License-Identifier: Apache-2.0

"""Files left by saves that were interrupted, killed or overtaken, and their removal.

One rule: files that the folder's checkpoint names are never removed, and this is checked by reading it, not concluded
from an exception. A signal handler may raise after the call that named checkpoint.json, and so may a flush of the
folder.

A save's leftover files are removed when its lease is free. Files without a lease, from releases without leases, are
removed an hour after they were written.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

from penstock.checkpoint.layout import NAME, CheckpointError, Layout
from penstock.checkpoint.leases import ID, LEASE, Lease, take_over
from penstock.checkpoint.reading import (
    ASIDE, content_of, is_meant, names_if_readable, names_in, read_description, read_layout, read_summary,
)
from penstock.checkpoint.renaming import rename_where_free
from penstock.folders import flush_folder
from penstock.threads import Later, for_each
from penstock.weights.headers import INDEX

VERIFIED = "verified.json"
VERIFIED_BYTES_MAX = 1000
REMOVERS = 8
DATA_FILE = re.compile(rf"({ID})-[0-9]+-[0-9]+\.data")  # Data files as saves name them,
SHARD = re.compile(r"(shard-[0-9]{5,}-)?model-[0-9]{5,}-of-[0-9]{5,}\.safetensors")  # and shards for stock readers.
OF_A_SAVE = re.compile(rf"\.?({ID})(-[0-9]+-[0-9]+(\.data)?)?")
DESCRIPTION = re.compile(rf"\.{ID}")  # A checkpoint.json before it has that name, or after.
UNNAMED = re.compile(r"\.penstock-[0-9a-f]{32}|try-[0-9a-f]{8}")  # Files with a temporary name.
STAGING = re.compile(r"\..+\.saving")
NUMBERS = re.compile(r"[0-9]+")
ABANDONED_S = 3600


def names_of(layout: Layout) -> set[str]:
    """The names of the files that belong only to this checkpoint, without checkpoint.json. A name that no save would
    give is somebody else's, whatever checkpoint.json says."""
    ours = {name for name in layout.files if DATA_FILE.fullmatch(name) or SHARD.fullmatch(name)}
    return ours | ({INDEX} if layout.headers else set())


def names_said(path: Path) -> set[str]:
    """Those of a file like checkpoint.json; none of one that cannot be read."""
    try:
        return names_of(read_description(path))
    except (OSError, CheckpointError):
        return set()


def files_of_checkpoint(folder: Path) -> set[str]:
    """Empty for a checkpoint that cannot be loaded."""
    try:
        return names_of(read_layout(folder))
    except (OSError, CheckpointError):
        return set()


def _unnamed(folder: Path, found: set[str]) -> set[str]:
    """Those of these names that the folder's checkpoint does not name. Raises the errors of read_layout(), except
    FileNotFoundError."""
    try:
        named = {*read_summary(folder).files, VERIFIED}
        if INDEX in found and read_layout(folder).headers:
            named.add(INDEX)
    except FileNotFoundError:
        return found
    return found - named


# ---- By a save itself

def give_up(folder: Path, names: Iterable[str], lease: Lease) -> None:
    """Removes the files of a save that failed, or seems to have. If the checkpoint cannot be read, nothing is removed;
    a damaged one does not name the files just written."""
    found = gone = set(names)
    try:
        gone = _unnamed(folder, found)
    except CheckpointError:
        pass
    except OSError:
        gone = set()
    remove_files(folder / name for name in gone)
    if _are_gone(folder, found):
        lease.end()
    lease.close()


def give_up_staged(paths: Iterable[Path], target: Path, save_id: str, lease: Lease) -> None:
    """The same for a save that replaces a whole folder: if it did, the next save removes the old one, after a flush."""
    try:
        is_in_place = read_layout(target).save_id == save_id
    except (FileNotFoundError, CheckpointError):
        is_in_place = False
    except OSError:
        is_in_place = True
    if not is_in_place:
        remove_files(paths)
        lease.end()
    lease.close()


def _are_gone(folder: Path, names: set[str]) -> bool:
    with contextlib.suppress(OSError):
        return not names & set(names_in(folder))
    return False


# ---- By others, when it is dead. What cannot be read is not swept: leftover files only cost space

def sweep(folder: Path) -> bool:
    """Removes the files of dead saves, in a checkpoint's folder or a staging folder next to it. Returns whether there
    were any."""
    names = names_if_readable(folder)
    leased = {match[1] for name in names if (match := LEASE.fullmatch(name))}
    dead = {save_id: lease for save_id in leased if (lease := take_over(folder / f".{save_id}.lease"))}
    try:
        is_settled = settle(folder, names)
        found = _left(folder, names, leased, dead)
        return bool(found or dead) and _remove_unnamed(folder, found, dead) or is_settled
    finally:
        for lease in dead.values():
            lease.close()


def sweep_all(root: Path) -> None:
    """Sweeps a folder of checkpoints, also those that nobody will save to again. Does not follow links."""
    for place in (root / name for name in names_if_readable(root)):
        if not place.is_symlink():
            _sweep_and_remove(place, STAGING.fullmatch(place.name) is not None)


def sweep_staging(root: Path) -> None:
    """Sweeps the staging folders next to folders of safetensors."""
    for place in (root / name for name in names_if_readable(root) if STAGING.fullmatch(name)):
        if not place.is_symlink():
            _sweep_and_remove(place, True)


def _sweep_and_remove(place: Path, is_staging: bool) -> None:
    """Sweeps a folder, and removes it if it is then empty; a staging folder only if it is old, since a save that has
    just made one may have no lease yet."""
    is_left = is_staging and _is_old(place)  # Checked before the sweep changes its time.
    if sweep(place) or is_left:
        _remove_empty(place)


def sweep_empty(root: Path, checkpoints: Iterable[Path]) -> None:
    """Removes folders that are named like the checkpoints, except for numbers, and have always been empty."""
    forms = {NUMBERS.sub("0", place.name) for place in checkpoints}
    for place in (root / name for name in names_if_readable(root) if NUMBERS.sub("0", name) in forms):
        if not place.is_symlink() and _is_old(place):
            _remove_empty(place)


def _remove_empty(place: Path) -> None:
    with contextlib.suppress(OSError):
        place.rmdir()


def _left(folder: Path, names: list[str], leased: set[str], dead: dict[str, Lease]) -> set[str]:
    """The names of dead saves' files, and of the files that they did not get to remove."""
    noted = {name for lease in dead.values() for name in lease.noted()}
    for name in noted.intersection(names):
        if DESCRIPTION.fullmatch(name):  # Of what the save has replaced, or of itself.
            noted |= names_said(folder / name)
    is_alone = leased == dead.keys()  # No save is running here.
    found = {VERIFIED} if is_alone and NAME not in names and _says_verified(folder / VERIFIED) else set()
    for name in names:
        of = OF_A_SAVE.fullmatch(name)
        if of is not None:
            if of[1] in dead or (of[1] not in leased and (name in noted or _is_old(folder / name))):
                found.add(name)
        elif is_alone:
            if (name in noted and (SHARD.fullmatch(name) or name == INDEX)
                    or UNNAMED.fullmatch(name) and _is_old(folder / name)):
                found.add(name)
    # A save holds its lease from before its files exist until they are named: a file without a lease now is either
    # named or dead.
    return {name for name in found if not (of := OF_A_SAVE.fullmatch(name)) or of[1] in dead
            or not os.path.lexists(folder / f".{of[1]}.lease")}


def _remove_unnamed(folder: Path, found: set[str], dead: dict[str, Lease]) -> bool:
    """Returns whether there was anything. If the named files are unknown, nothing is removed."""
    try:
        gone = _unnamed(folder, found)
        for place in (folder, *([folder.parent] if STAGING.fullmatch(folder.name) else [])) if gone or dead else ():
            flush_folder(place)  # Makes the new checkpoint.json durable before the old files go.
    except (OSError, CheckpointError):
        return False
    remove_files(folder / name for name in gone)
    for lease in dead.values() if _are_gone(folder, gone) else ():
        lease.end()
    return bool(gone or dead)


def _is_of_ours(name: str) -> bool:
    return name in (NAME, INDEX, VERIFIED) or any(form.fullmatch(name)
                                                  for form in (OF_A_SAVE, SHARD, LEASE, UNNAMED, ASIDE))


def _says_verified(path: Path) -> bool:
    """Whether `verify` wrote it: somebody else's file may have that name."""
    try:
        said = json.loads(content_of(path, VERIFIED_BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.keys() == {"save_id"}


def is_over(folder: Path) -> bool:
    """Whether the process that made the temporary folder, with a lease in it, is dead. False if it cannot be read."""
    try:
        names = names_in(folder)
    except OSError:
        return False
    leases = [take_over(folder / name) for name in names if LEASE.fullmatch(name)]
    for lease in leases:
        if lease is not None:
            lease.close()
    return all(leases) if leases else _is_old(folder)


def _is_old(path: Path) -> bool:
    """False if it is gone."""
    with contextlib.suppress(OSError):
        return time.time() - path.lstat().st_mtime > ABANDONED_S
    return False


# ---- Checkpoints that are removed

def settle(folder: Path, names: Iterable[str]) -> bool:
    """Finishes a removal that was killed after it set checkpoint.json aside, or puts it back if it is another save's.
    Returns whether there was anything."""
    aside = [name for name in names if ASIDE.fullmatch(name)]
    for name in aside:
        with contextlib.suppress(OSError, CheckpointError):
            layout = read_description(folder / name)
            if is_meant(name, layout) or not put_back(folder / name):
                finish_removal(folder / name, layout)
    return bool(aside)


def put_back(aside: Path) -> bool:
    """Returns False if a later save's file has the name."""
    try:
        rename_where_free(aside, aside.with_name(NAME))
    except FileExistsError:
        return False
    return True


def finish_removal(aside: Path, layout: Layout) -> None:
    """aside: the renamed checkpoint.json; the rename is durable."""
    folder = aside.parent
    flush_folder(folder)
    living = {found[1] for name in names_in(folder) if (found := LEASE.fullmatch(name))}
    gone = _unnamed(folder, names_of(layout) | {VERIFIED})
    kept = {name for name in gone if (of := OF_A_SAVE.fullmatch(name)) and of[1] in living}
    remove_files(folder / name for name in gone - kept)
    if not kept:  # Otherwise it is done when they have ended.
        aside.unlink(missing_ok=True)


# ---- How

def remove_files(paths: Iterable[Path]) -> None:
    """Removes as many as possible: leftover files only cost space. By threads, since freeing a file's pages takes
    time."""
    def unlink(path: Path) -> None:
        with contextlib.suppress(OSError):
            if path.is_symlink() or not path.is_dir():
                path.unlink()
            else:
                remove_folder(path)

    for_each(unlink, paths, REMOVERS)


def remove_folder(folder: Path) -> None:
    """Removes the folder of a removed checkpoint, with the files that saves leave. With anything else in it, it
    stays."""
    for name in names_in(folder):
        if _is_of_ours(name):
            (folder / name).unlink(missing_ok=True)
    folder.rmdir()


_removals: list[Later[None]] = []


def remove_behind(paths: list[Path], lease: Lease, last: Iterable[Path] = ()) -> None:
    """Removes in the background, `last` behind the others: if freed blocks are discarded at once, removing gigabytes
    takes seconds. The process waits for it at exit. The lease ends then."""
    def work() -> None:
        remove_files(paths)
        remove_files(last)
        lease.end()

    if not paths and not any(map(os.path.lexists, last)):
        lease.end()
        return
    _removals[:] = [each for each in _removals if not each.done()] + [Later(work)]


def wait_for_removals() -> None:
    """Waits until the files that this process removes are gone, and their space is free."""
    for each in list(_removals):
        each.wait()
