# SPDX-License-Identifier: Apache-2.0

"""The target folders: their files, their free space, and which are near a GPU."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from penstock import launcher
from penstock.folders import flush_folder, make_folder
from penstock.sessions import default_session
from penstock.stage.failures import NotApplicableError, StageError
from penstock.stage.manifest import Entry, Journal, Unfinished, open_state, read_manifest, recall
from penstock.stage.names import STATE, facts_of, folder_of

NEAREST_FIRST = ("switch", "host_bridge", "node", "apart")  # Names in `penstock check --json`.
BLOCK = 4096


class Folder:
    """is_dry: nothing is written, and the folder need not exist."""

    def __init__(self, path: Path, *, is_dry: bool) -> None:
        if path.exists() and not path.is_dir():
            raise StageError(f"open {path}: it is no folder: name a folder to stage to")
        self.path, self._exists = path, path.exists() or not is_dry
        if not is_dry:
            make_folder(path)
        self.root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if self._exists else -1
        self.journal: Journal | None = None
        self.flushes: set[str] = set()  # Folders whose names must still be flushed.
        try:
            self.entries: dict[str, Entry] = read_manifest(self.root, path) if self._exists else {}
            self.journal = None if is_dry else Journal(self.root, path)
            self.unfinished = self._recalled()
            for name in [each for each, found in self.unfinished.items() if found.mtime_ns is not None]:
                self._take_whole(name)
        except BaseException:
            self.close()
            raise

    def _recalled(self) -> dict[str, Unfinished]:
        if self.journal is not None:
            return self.journal.files
        state = open_state(self.root, self.path) if self._exists else None
        if state is None:
            return {}
        try:
            return recall(state, self.path)[0]
        finally:
            os.close(state)

    def _take_whole(self, name: str) -> None:
        """Names files that a killed run had completed, except in a dry run."""
        found = self.unfinished[name]
        if self.has_temporary(found):
            self.give_name(name, found)
        facts = facts_of(self.root, name)
        if facts is not None and (facts.st_size, facts.st_mtime_ns) == (found.size, found.mtime_ns):
            self.entries[name] = entry_of(found)
            self.flushes.add(name)
        elif self.journal is not None:
            self.journal.forget(name)

    def has_temporary(self, found: Unfinished) -> bool:
        """Whether the temporary file exists and is ours: one with a further link is not written to."""
        if self.journal is None:
            return False
        try:
            facts = os.stat(found.temporary, dir_fd=self.journal.state, follow_symlinks=False)
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
            raise StageError(f"go on with {self.path / STATE / found.temporary}: it is no file that stage has made: "
                             f"check who can write to {self.path}, remove {self.path / STATE}, and stage again")
        return True

    def give_name(self, name: str, found: Unfinished) -> None:
        assert self.journal is not None
        with folder_of(self.root, name, make=True) as folder:
            try:
                os.rename(found.temporary, name.split("/")[-1], src_dir_fd=self.journal.state, dst_dir_fd=folder)
            except IsADirectoryError:
                raise StageError(f"name {self.path / name}: a folder has that name: remove it, or stage to another "
                                 "folder") from None
        self.flushes.add(name)

    def flush(self) -> None:
        """Flushes the folders of newly named files."""
        words = {"/".join(name.split("/")[:count]) for name in self.flushes for count in range(1, name.count("/") + 2)}
        for name in {"", *(name.rpartition("/")[0] for name in words)}:
            with folder_of(self.root, f"{name}/x" if name else "x") as folder:
                if folder is not None:
                    flush_folder(folder)

    def free(self) -> tuple[int, int]:
        """Returns (file system, free bytes)."""
        place = next(each for each in (self.path, *self.path.absolute().parents) if each.exists())
        facts = os.statvfs(place)
        return place.stat().st_dev, facts.f_bavail * facts.f_frsize

    def close(self) -> None:
        if self.journal is not None:
            self.journal.close()
        if self.root >= 0:
            os.close(self.root)


def entry_of(found: Unfinished) -> Entry:
    assert found.mtime_ns is not None
    return Entry(found.source, found.size, found.version, found.part_bytes,
                 [found.sums[i] for i in range(len(found.sums))], found.mtime_ns)


# ---- Near a GPU

def near_gpu(folders: Iterable[Path], gpu: int) -> list[Path]:
    """The folders whose drives are nearest to the GPU. Raises NotApplicableError if that is unknown."""
    devices = default_session().devices()
    address = devices[gpu]["pci_address"] if gpu < len(devices) else ""
    if not address:
        raise NotApplicableError(f"place the files near GPU {gpu}: there is no such GPU here: leave --gpu out, and the "
                                 "files are spread over all folders")
    return nearest(list(folders), address, _machine())


def _machine() -> dict[str, Any]:
    """The result of `penstock check` on this machine."""
    try:
        output = subprocess.run([launcher.tool(), "check", "--json"], capture_output=True, timeout=60).stdout
        return dict(json.loads(output))
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise NotApplicableError(f"place the files near a GPU: ask `penstock check --json`: {error}: install the "
                                 "command penstock, or leave --gpu out") from None


def nearest(folders: list[Path], address: str, machine: dict[str, Any]) -> list[Path]:
    """machine: the output of `penstock check --json`."""
    relations = {each["drive"]: each["relation"] for each in machine["placement"] if each["gpu"] == address}
    mounts = {each["mount_point"]: each["stack"] for each in machine["file_systems"]}
    ranks: dict[Path, int] = {}
    for folder in folders:
        real = Path(os.path.realpath(folder))
        mount = next((str(each) for each in (real, *real.parents) if str(each) in mounts), None)
        known = [relations[drive] for drive in _drives(mounts[mount] if mount else None) if drive in relations]
        if known:  # An array is as far away as its farthest drive.
            ranks[folder] = max(NEAREST_FIRST.index(each) for each in known)
    if not ranks:
        raise NotApplicableError(f"place the files near the GPU at {address}: how far the drives of "
                                 f"{', '.join(map(str, folders))} are is not known: leave --gpu out")
    return [folder for folder, rank in ranks.items() if rank == min(ranks.values())]


def _drives(stack: dict[str, Any] | None) -> list[str]:
    if stack is None:
        return []
    return [stack["pci_address"], *(drive for below in stack["below"] for drive in _drives(below))]
