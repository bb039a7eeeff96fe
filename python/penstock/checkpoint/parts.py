# SPDX-License-Identifier: Apache-2.0

"""Generations: folders in which each part of a job's state is a checkpoint of its own.

A part is there as soon as it is on the disk, whatever becomes of the next one. `generation.json` is there before the
first, and names all that were to be saved. A generation is written once: what lies in it is of one moment.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.checkpoint.layout import CheckpointError
from penstock.checkpoint.notes import publish_note, read_note
from penstock.checkpoint.retention import is_readable, whole
from penstock.checkpoint.states import load
from penstock.checkpoint.verifying import verify
from penstock.folders import make_folder

MANIFEST = "generation.json"
VERSION = 1
FOLDER = re.compile(r"generation-([0-9]{8,30})")
NUMBER_MAX = 10**15  # What counting comes to: a stranger may have any, and behind it the time of manifests decides.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
PARTS_MAX = 100

log = logging.getLogger("penstock.checkpoint")


@dataclass(frozen=True)
class Generation:
    """What one save has left, its parts in order of worth."""

    folder: Path
    names: tuple[str, ...]       # All that were to be saved.
    parts: dict[str, Path]       # Those that are there.
    older: tuple[str, ...] = ()  # Of these, what was taken from an older generation, as `resume` was asked to.

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name not in self.parts)

    def load(self, name: str, device: Any = "cpu", *, framework: str = "pt") -> Any:
        """A part, as `penstock.checkpoint.load` gives it."""
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
    """The newest generation of which any part is whole; None where there is none.

    need: parts without which it is of no use: generations that lack one are passed over. from_older: parts that may be
    of another moment: where the generation lacks them, they are taken from the newest older one that has them.
    verified: reads all of what it gives and compares every checksum; what is damaged counts as missing. `load` compares
    them, too, and raises.
    """
    for each in (need, from_older):
        if isinstance(each, str):
            raise ValueError(f"{each!r} is text: expected names of parts in a list")
    found = known(Path(root))
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
             if is_readable(place) and (not verified or _is_good(place))}
    return replace(generation, parts=parts)


def _is_good(place: Path) -> bool:
    try:
        verify(place)
    except (CheckpointError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.EIO, errno.ENOENT):
            raise  # As where nothing may be written: it says nothing of the part.
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
    """They are folders' names, and come from files as well."""
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
    """The folder of a new generation. Numbered, since the clocks of two machines may differ."""
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
    make_folder(folder)  # Its name is to be there after a crash.
    publish_note(folder / MANIFEST, {"penstock.generation": VERSION, "parts": names})
    return folder


def known(root: Path) -> list[Generation]:
    """Oldest first, also those of which no part is whole. What has no manifest is none, and is left out."""
    found = []
    for _, folder in _folders(root):
        try:
            names = _names_of(folder)
            there = {place.name: place for place in whole(folder)}
        except (CheckpointError, OSError):
            continue
        found.append(Generation(folder, names, {name: there[name] for name in names if name in there}))
    return found


def discard(folder: Path) -> None:
    """First it is no generation any more; then its files go. What cannot be removed costs room alone."""
    try:
        (folder / MANIFEST).unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s is left: %s", folder, error)
        return
    shutil.rmtree(folder, ignore_errors=True)


def retain(root: Path, keep: int) -> None:
    """Removes what is older than the newest `keep` generations that lack nothing."""
    complete = [generation.folder for generation in known(root) if not generation.missing]
    if len(complete) < keep:
        return
    for _, folder in _folders(root):
        if folder == complete[-keep]:
            break
        if not folder.is_symlink():  # What it leads to is not this folder's to remove.
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
    """When its manifest was."""
    with contextlib.suppress(OSError):
        return (folder / MANIFEST).stat().st_mtime_ns
    return 0
