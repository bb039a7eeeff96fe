# SPDX-License-Identifier: Apache-2.0

"""Generations: folders in which each part of a job's state is a separate checkpoint.

A part is usable as soon as it is on the disk, even if the next one fails. `generation.json` is written before the first
part, and names all parts to be saved. A generation is written once: its parts are of one moment.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.checkpoint.layout import CheckpointError
from penstock.checkpoint.notes import publish_note, read_note
from penstock.checkpoint.retention import may_be_loaded, tell, tell_or_raise, whole_in
from penstock.checkpoint.states import load
from penstock.checkpoint.verifying import verify
from penstock.folders import make_folder

MANIFEST = "generation.json"
VERSION = 1
FOLDER = re.compile(r"generation-([0-9]{8,30})")
NUMBER_MAX = 10**15  # Limit of generation numbers: beyond it (a file may have any) the time of the manifest decides.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
PARTS_MAX = 100

log = logging.getLogger("penstock.checkpoint")


@dataclass(frozen=True)
class Generation:
    """The result of one save, with its parts in order of worth."""

    folder: Path
    names: tuple[str, ...]       # Names of all parts to be saved.
    parts: dict[str, Path]       # Parts that exist.
    older: tuple[str, ...] = ()  # Parts taken from an older generation, as requested from `resume`.

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in self.parts)

    def load(self, name: str, device: Any = "cpu", *, framework: str = "pt") -> Any:
        """Loads a part, like `penstock.checkpoint.load`."""
        if name not in self.parts:
            raise CheckpointError(f"{self.folder}: it lacks {name!r}: resume(need=[{name!r}]) finds the newest "
                                  f"generation that has it, resume(from_older=[{name!r}]) takes it from an older one")
        return load(self.parts[name], device, framework=framework)

    def __str__(self) -> str:
        said = f"{self.folder} has {', '.join(self.parts)}"
        said += "".join(f"; {name} is of {self.parts[name].parent.name}" for name in self.older)
        return said + (f"; it lacks {', '.join(self.missing)}" if self.missing else "; it lacks nothing")


def resume(root: str | os.PathLike[str], *, need: Sequence[str] = (), from_older: Sequence[str] = (),
           verified: bool = False) -> Generation | None:
    """The newest generation with at least one whole part; None if there is none.

    need: required parts: generations that lack one are skipped. from_older: parts that may be of another moment: if the
    generation lacks them, they are taken from the newest older one that has them. verified: reads all returned parts
    and compares every checksum; damaged parts count as missing. `load` compares them, too, and raises. Raises OSError
    if descriptors or memory are short; what else cannot be read is passed over, with a warning.
    """
    for each in (need, from_older):
        if isinstance(each, str):
            raise ValueError(f"{each!r} is text: expected names of parts in a list")
    found = known(Path(root), tell_or_raise)
    for i in reversed(range(len(found))):
        generation = _checked(found[i], verified)
        if generation.parts and not set(need) - set(generation.parts):
            return _filled(generation, found[:i], from_older, verified)
    if any(generation.parts for generation in found):
        log.warning("%s: no generation has %s whole: there is nothing to resume from", root,
                    ", ".join(need) or "a part")
    return None


def _checked(generation: Generation, verified: bool) -> Generation:
    parts = {name: place for name, place in generation.parts.items()
             if may_be_loaded(place) and (not verified or _is_good(place))}
    return replace(generation, parts=parts)


def _is_good(place: Path) -> bool:
    try:
        verify(place)
    except (CheckpointError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.EIO, errno.ENOENT):
            raise  # For instance a read-only folder: this does not concern the part.
        log.warning("%s counts as missing: %s", place, error)
        return False
    return True


def _filled(generation: Generation, before: list[Generation], wanted: Sequence[str], verified: bool) -> Generation:
    parts = dict(generation.parts)
    for name in wanted:
        for older in reversed(before) if name not in parts else ():
            if name in older.parts and (not verified or _is_good(older.parts[name])):
                parts[name] = older.parts[name]
                break
    names = tuple(dict.fromkeys((*generation.names, *parts)))
    return Generation(generation.folder, names, {name: parts[name] for name in names if name in parts},
                      tuple(name for name in names if name in parts and name not in generation.parts))


def check_names(names: Iterable[str]) -> tuple[str, ...]:
    """Part names become folder names, and may come from files."""
    found = tuple(names)
    if not 0 < len(found) <= PARTS_MAX:
        raise CheckpointError(f"there are {len(found)} parts: expected 1 to {PARTS_MAX}")
    for name in found:
        if not isinstance(name, str) or NAME.fullmatch(name) is None:
            raise CheckpointError(f"{str(name)[:100]!r} is no name of a part: expected up to 100 letters, digits, '.', "
                                  "'_' and '-', and a letter or digit first")
    if len(set(found)) < len(found):
        raise CheckpointError(f"a part is named twice: {', '.join(found)[:200]}")
    return found


def begin(root: Path, names: tuple[str, ...]) -> Path:
    """Makes the folder of a new generation. Numbered, since clocks of machines may differ."""
    make_folder(root)
    there = _folders(root)
    number = max((number for number, _ in there if number <= NUMBER_MAX), default=0)
    if any(number > NUMBER_MAX and _written(folder) for number, folder in there):
        number = NUMBER_MAX
    while True:
        number += 1
        folder = root / f"generation-{number:08}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            break
    make_folder(folder)  # Its name must survive a crash.
    publish_note(folder / MANIFEST, {"penstock.generation": VERSION, "parts": names})
    return folder


def known(root: Path, take: Callable[[OSError], None]) -> list[Generation]:
    """All generations, oldest first, also those without a whole part. A folder without a manifest is not one. take: is
    given the error of what cannot be read, which it may raise."""
    found = []
    for _, folder in _folders(root):
        try:
            names = _names_of(folder)
            there = {place.name: place for place in whole_in(folder, take)}
        except CheckpointError as error:
            log.warning("passed over: %s", str(error))
            continue
        except OSError as error:
            take(error)
            continue
        found.append(Generation(folder, names, {name: there[name] for name in names if name in there}))
    return found


def discard(folder: Path) -> None:
    """Removes its manifest first, then its files. Files that cannot be removed only cost space."""
    try:
        (folder / MANIFEST).unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s is left: %s", folder, error)
        return
    shutil.rmtree(folder, ignore_errors=True)


def retain(root: Path, keep: int) -> None:
    """Removes generations older than the newest `keep` complete ones."""
    complete = [generation.folder for generation in known(root, tell) if not generation.missing]
    if len(complete) < keep:
        return
    for _, folder in _folders(root):
        if folder == complete[-keep]:
            break
        if not folder.is_symlink():  # The target of a link is not in this folder.
            discard(folder)


def _names_of(folder: Path) -> tuple[str, ...]:
    said = read_note(folder / MANIFEST)
    if said.get("penstock.generation") != VERSION or not isinstance(said.get("parts"), list):
        raise CheckpointError(f"{folder / MANIFEST}: it is of another version, or damaged")
    return check_names(said["parts"])


def _folders(root: Path) -> list[tuple[int, Path]]:
    found = ((FOLDER.fullmatch(place.name), place) for place in (root.iterdir() if root.is_dir() else ()))
    there = [(int(match[1]), place) for match, place in found if match is not None and place.is_dir()]
    return [each[:2] for each in sorted(((*each, _written(each[1])) for each in there),
                                        key=lambda each: (min(each[0], NUMBER_MAX + 1), each[2], each[0]))]


def _written(folder: Path) -> int:
    """When its manifest was written."""
    with contextlib.suppress(OSError):
        return (folder / MANIFEST).stat().st_mtime_ns
    return 0
