# SPDX-License-Identifier: Apache-2.0

"""What saves leave that are interrupted, killed or overtaken, and its removal.

One rule: what the folder's checkpoint names is never removed, and whether it does is looked at after the fact: an
exception says nothing of it. A signal's handler may raise behind the call that gave checkpoint.json its name, and so
may a flush of the folder.

What a save has left is removed when its lease is free. What has no lease, as releases that made none have left it, is
removed an hour after it was written.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.checkpoint.layout import NAME, CheckpointError, Layout
from penstock.checkpoint.leases import ID, LEASE, Lease, take_over
from penstock.checkpoint.reading import (
    ASIDE, content_of, is_meant, names_in, read_description, read_layout, read_summary,
)
from penstock.checkpoint.renaming import rename_where_free
from penstock.folders import flush_folder
from penstock.weights.headers import INDEX

VERIFIED = "verified.json"
VERIFIED_BYTES_MAX = 1000
REMOVERS = 8
DATA_FILE = re.compile(rf"({ID})-[0-9]+-[0-9]+\.data")  # As saves name them,
SHARD = re.compile(r"(shard-[0-9]{5,}-)?model-[0-9]{5,}-of-[0-9]{5,}\.safetensors")  # and for stock readers.
OF_A_SAVE = re.compile(rf"\.?({ID})(-[0-9]+-[0-9]+(\.data)?)?")
UNNAMED = re.compile(r"\.penstock-[0-9a-f]{32}|try-[0-9a-f]{8}")  # What has a name for the time being.
STAGING = re.compile(r"\..+\.saving")
NUMBERS = re.compile(r"[0-9]+")
ABANDONED_S = 3600


def names_of(layout: Layout) -> set[str]:
    """Of files that are there for this checkpoint alone, but for checkpoint.json. What no save would call so is
    somebody else's, whatever checkpoint.json says."""
    ours = {name for name in layout.files if DATA_FILE.fullmatch(name) or SHARD.fullmatch(name)}
    return ours | ({INDEX} if layout.headers else set())


def files_of_checkpoint(folder: Path) -> set[str]:
    """Nothing of what is no checkpoint that could be loaded."""
    try:
        return names_of(read_layout(folder))
    except (OSError, CheckpointError):
        return set()


def _unnamed(folder: Path, found: set[str]) -> set[str]:
    """Of these, what its checkpoint does not name. Raises what read_layout() does, but for FileNotFoundError."""
    try:
        named = {*read_summary(folder).files, VERIFIED}
        if INDEX in found and read_layout(folder).headers:
            named.add(INDEX)
    except FileNotFoundError:
        return found
    return found - named


# ---- By a save itself

def give_up(folder: Path, names: Iterable[str], lease: Lease) -> None:
    """Of a save that has failed, or seems to have. Where that cannot be read, nothing is removed; what is damaged does
    not name what has just been written."""
    found = gone = set(names)
    try:
        gone = _unnamed(folder, found)
    except CheckpointError:
        pass
    except OSError:
        gone = set()
    remove_files(folder / name for name in gone)
    if not found & set(names_in(folder)):
        lease.end()
    lease.close()


def give_up_staged(paths: Iterable[Path], target: Path, save_id: str, lease: Lease) -> None:
    """The same of a save whose folder was to take a place as a whole: where it has, its old one waits for the next
    save, which flushes first."""
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


# ---- By others, when it is dead

def sweep(folder: Path) -> bool:
    """Takes away what dead saves have left, in the folder of a checkpoint or one beside it that is filled. Whether
    there was anything."""
    names = names_in(folder)
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
    """In a folder of checkpoints, also what nobody will save to again. Of links, what they lead to is left."""
    for place in (root / name for name in names_in(root)):
        if not place.is_symlink():
            _sweep_and_remove(place, STAGING.fullmatch(place.name) is not None)


def sweep_staging(root: Path) -> None:
    """What is beside folders of safetensors."""
    for place in (root / name for name in names_in(root) if STAGING.fullmatch(name)):
        if not place.is_symlink():
            _sweep_and_remove(place, True)


def _sweep_and_remove(place: Path, is_staging: bool) -> None:
    """An empty folder that is new may be that of a save which has no lease yet."""
    is_left = is_staging and _is_old(place)  # Looked at before what is swept changes its time.
    if sweep(place) or is_left:
        _remove_empty(place)


def sweep_empty(root: Path, checkpoints: Iterable[Path]) -> None:
    """Folders that are called as the checkpoints are, but for numbers, and have never got anything."""
    forms = {NUMBERS.sub("0", place.name) for place in checkpoints}
    for place in (root / name for name in names_in(root) if NUMBERS.sub("0", name) in forms):
        if not place.is_symlink() and _is_old(place):
            _remove_empty(place)


def _remove_empty(place: Path) -> None:
    with contextlib.suppress(OSError):
        place.rmdir()


def _left(folder: Path, names: list[str], leased: set[str], dead: dict[str, Lease]) -> set[str]:
    """By their names, what the dead have left, and what they did not come to remove."""
    noted = {name for lease in dead.values() for name in lease.noted()}
    is_alone = leased == dead.keys()  # Nobody saves here.
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
    # A save has its lease before its files, and until they are named: what has none now is named, if ever it will be.
    return {name for name in found if not (of := OF_A_SAVE.fullmatch(name)) or of[1] in dead
            or not os.path.lexists(folder / f".{of[1]}.lease")}


def _remove_unnamed(folder: Path, found: set[str], dead: dict[str, Lease]) -> bool:
    """Whether there was anything. Where it cannot be known what is named, nothing is removed."""
    try:
        gone = _unnamed(folder, found)
        for place in (folder, *([folder.parent] if STAGING.fullmatch(folder.name) else [])) if gone or dead else ():
            flush_folder(place)  # What names other files now is on the disk.
    except (OSError, CheckpointError):
        return False
    remove_files(folder / name for name in gone)
    for lease in dead.values() if not gone & set(names_in(folder)) else ():
        lease.end()
    return bool(gone or dead)


def _is_of_ours(name: str) -> bool:
    return name in (NAME, INDEX, VERIFIED) or any(form.fullmatch(name)
                                                  for form in (OF_A_SAVE, SHARD, LEASE, UNNAMED, ASIDE))


def _says_verified(path: Path) -> bool:
    """As `verify` writes it: others' files may have that name."""
    try:
        said = json.loads(content_of(path, VERIFIED_BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.keys() == {"save_id"}


def is_over(folder: Path) -> bool:
    """Whether whoever made the folder for a while, with a lease in it, is dead."""
    leases = [take_over(folder / name) for name in names_in(folder) if LEASE.fullmatch(name)]
    for lease in leases:
        if lease is not None:
            lease.close()
    return all(leases) if leases else _is_old(folder)


def _is_old(path: Path) -> bool:
    """What is gone is not."""
    with contextlib.suppress(OSError):
        return time.time() - path.lstat().st_mtime > ABANDONED_S
    return False


# ---- Checkpoints that are removed

def settle(folder: Path, names: Iterable[str]) -> bool:
    """What somebody who was killed had set aside is removed as it was meant to be, or put back where another save had
    come meanwhile. Whether there was anything."""
    aside = [name for name in names if ASIDE.fullmatch(name)]
    for name in aside:
        with contextlib.suppress(OSError, CheckpointError):
            layout = read_description(folder / name)
            if is_meant(name, layout) or not put_back(folder / name):
                finish_removal(folder / name, layout)
    return bool(aside)


def put_back(aside: Path) -> bool:
    """False where a later save's has the name."""
    try:
        rename_where_free(aside, aside.with_name(NAME))
    except FileExistsError:
        return False
    return True


def finish_removal(aside: Path, layout: Layout) -> None:
    """aside: what was checkpoint.json, and is none any more on the disk either."""
    folder = aside.parent
    flush_folder(folder)
    living = {found[1] for name in names_in(folder) if (found := LEASE.fullmatch(name))}
    gone = _unnamed(folder, names_of(layout) | {VERIFIED})
    kept = {name for name in gone if (of := OF_A_SAVE.fullmatch(name)) and of[1] in living}
    remove_files(folder / name for name in gone - kept)
    if not kept:  # Else it is done when they have ended.
        aside.unlink(missing_ok=True)


# ---- How

def remove_files(paths: Iterable[Path]) -> None:
    """As many as can be: what is left costs room alone. By threads, for to free a file's pages takes its time."""
    def unlink(path: Path) -> None:
        with contextlib.suppress(OSError):
            if path.is_symlink() or not path.is_dir():
                path.unlink()
            else:
                remove_folder(path)

    with ThreadPoolExecutor(REMOVERS, "penstock-remove") as threads:
        list(threads.map(unlink, paths))


def remove_folder(folder: Path) -> None:
    """A checkpoint's, that is none any more, with what saves leave in one. With anything else in it, it stays."""
    for name in names_in(folder):
        if _is_of_ours(name):
            (folder / name).unlink(missing_ok=True)
    folder.rmdir()


_removals: list[threading.Thread] = []


def remove_behind(paths: list[Path], lease: Lease) -> None:
    """Where freed blocks are discarded at once, to remove gigabytes takes seconds. A process waits for it at its
    end. The lease ends then."""
    def work() -> None:
        remove_files(paths)
        lease.end()

    if not paths:
        lease.end()
        return
    thread = threading.Thread(target=work, name="penstock-remove")
    _removals[:] = [each for each in _removals if each.is_alive()] + [thread]
    thread.start()


def wait_for_removals() -> None:
    """Until what this process removes is gone, and its room is free."""
    for thread in list(_removals):
        with contextlib.suppress(RuntimeError):  # One that another thread has not started yet.
            thread.join()
