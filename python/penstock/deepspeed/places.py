# SPDX-License-Identifier: Apache-2.0

"""Checks the folders that a configuration names on this machine, and what Penstock would do for files in them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from penstock import _native, launcher
from penstock.deepspeed.config import Config
from penstock.deepspeed.keys import OPTIMIZER, PARAM
from penstock.records import Verdict

BY_HOST_MEMORY = ("pagecache", "bounce", "host", "null", "userspace")  # The paths that are not direct.
ELEMENT_BYTES = 16  # Weight, gradient and two moments in 32 bits.
LOCAL = "Name a folder on ext4 or xfs on a local NVMe drive."


def check(config: Config) -> None:
    """Reads the machine once, if a folder is used."""
    machine: dict[str, Any] | None = None
    for block in (PARAM, OPTIMIZER):
        name = config.find(f"{block}.nvme_path")
        if config.value(block, "device") != "nvme" or not isinstance(name, str) or not name:
            continue
        machine = launcher.checked_machine() if machine is None else machine
        key, path = f"{block}.nvme_path", Path(name)
        there = _nearest_there(Path.cwd() / path)
        if not _check_folder(config, key, path, there):
            continue
        place = _file_system_of(machine.get("file_systems", []), there)
        if place is not None:
            _check_file_system(config, key, place)
        if block == PARAM and config.value("aio", "use_gds") and config.swaps(PARAM):
            _tell_outlook(config, key, place["outlook"] if place is not None else _outlook_of_session())
        _tell_room(config, key, there)


def _nearest_there(path: Path) -> Path:
    """The folder, or its nearest existing parent, in which DeepSpeed would create it."""
    return next((each for each in (path, *path.parents) if os.path.exists(each)), Path("/"))


def _file_system_of(all_of_them: list[dict[str, Any]], folder: Path) -> dict[str, Any] | None:
    """Found by its device, so that bind mounts count; else by name, for volumes with their own devices."""
    real = Path(os.path.realpath(folder))
    for each in all_of_them:
        try:
            if os.stat(each["mount_point"]).st_dev == os.stat(real).st_dev:
                return each
        except OSError:
            continue
    above = [each for each in all_of_them if real.is_relative_to(each["mount_point"])]
    return max(above, key=lambda each: len(each["mount_point"]), default=None)


def _check_folder(config: Config, key: str, path: Path, there: Path) -> bool:
    """Returns False if nothing more can be checked."""
    if not path.is_absolute():
        config.add("warning", "relative_path", key, "the absolute name of a folder",
                   "the folder depends on where the program is started", "Write the whole name.")
    if not there.is_dir():
        config.add("error", "no_folder", key, "a folder", f"{there} is none", "Name a folder.")
        return False
    if not os.access(there, os.W_OK | os.X_OK):
        why = os.strerror(errno.EROFS if os.statvfs(there).f_flag & os.ST_RDONLY else errno.EACCES)
        config.add("error", "folder_not_writable", key, "a folder that this user may write to",
                   f"{there} may not be written to: {why}", "Name another folder, or change its rights.")
        return False
    if there != path:
        config.add("note", "folder_missing", key, "", f"it does not exist yet; DeepSpeed makes it, in {there}")
    return True


def _check_file_system(config: Config, key: str, place: dict[str, Any]) -> None:
    kind = str(place["type"])
    where = f"{place['mount_point']} is {kind}"
    if place["direct_io"]["state"] == "no":
        config.add("warning", "no_direct_io", key, "a file system on a local drive that takes O_DIRECT",
                   f"{where}: {place['direct_io']['because']}", LOCAL)
    elif _native.is_network_file_system(kind):
        config.add("warning", "network", key, "a local drive",
                   f"{where}, a network file system: each step waits for the network",
                   "Name a folder on a local NVMe drive.")
    elif kind == "overlay":
        config.add("warning", "overlay", key, "a local drive",
                   f"{where}, a container's own layer, which is gone with the container",
                   "Mount a folder of a local NVMe drive into the container, and name that.")


def _outlook_of_session() -> list[Verdict]:
    import penstock

    return penstock.default_session().outlook()


def _tell_outlook(config: Config, key: str, paths: list[Verdict]) -> None:
    """Never claims that a direct path works: its self-test decides when a program uses it."""
    direct = [path for path in paths if path["path"] not in BY_HOST_MEMORY]
    sentences = [f"{path['path']} may be tried: its self-test decides" if path["usable"]
            else f"not {path['path']}: {path['sentence']}" for path in direct]
    bounces = any(path["path"] == "bounce" and path["usable"] for path in paths)
    sentences.append("bounce, by copies through host memory, serves in any case" if bounces
                else "nor bounce: cuFile fails, and DeepSpeed ends the process")
    remedy = next((path["remedy"] for path in direct if path["remedy"]), "")
    config.add("note" if bounces else "error", "outlook", key, "", f"by Penstock's libcufile: {'; '.join(sentences)}",
               remedy)


def _tell_room(config: Config, key: str, there: Path) -> None:
    room = os.statvfs(there)
    free = room.f_bavail * room.f_frsize
    text = f"{size_text(free)} are free there"
    if key.startswith(OPTIMIZER):
        text += (f": Adam's states of up to {free // ELEMENT_BYTES / 1e9:.1f} billion parameters, at {ELEMENT_BYTES} "
                 "bytes each")
    config.add("note", "free_room", key, "", text)


def size_text(size: int) -> str:
    """Formats a size like "1.50 GiB"."""
    power = min((size.bit_length() - 1) // 10, 5) if size else 0
    if power == 0:
        return f"{size} B"
    unit = 1 << 10 * power
    return f"{size // unit if size % unit == 0 else f'{size / unit:.2f}'} {'KMGTP'[power - 1]}iB"
