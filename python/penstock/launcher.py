# SPDX-License-Identifier: Apache-2.0

"""Runs a program with Penstock's libcufile in front of NVIDIA's, and watches which of the two it has.

The library is preloaded, so that its calls come first also for programs that open NVIDIA's by its full path and look
its calls up as the loader does. What a program does is then seen in /proc: which libraries its processes have mapped,
and whether cuFile's driver is open in Penstock's, which keeps its statistics in a memory file of a known name.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from penstock import _native

__all__ = ["library", "run"]

_STATS = "penstock-stats"
_LOOK_EVERY_S = 0.2


def library() -> Path:
    """Penstock's libcufile.so.0, as this package has it."""
    return Path(_native.__file__).parent / "lib" / "libcufile.so.0"


class Watch:
    """What the processes under one have mapped so far."""

    def __init__(self, ours: Path, root: int) -> None:
        self._ours = ours.resolve()
        self._root = root
        self.with_ours: set[int] = set()
        self.opened: set[int] = set()
        self.others: set[str] = set()

    def look(self) -> None:
        for process in self._processes():
            try:
                self._look_at(process)
            except OSError:  # It has ended, or belongs to somebody else by now.
                continue

    def _processes(self) -> list[int]:
        found, index = [self._root], 0
        while index < len(found):
            for task in _names(f"/proc/{found[index]}/task"):
                found += [int(child) for child in _text(f"/proc/{found[index]}/task/{task}/children").split()]
            index += 1
        return found

    def _look_at(self, process: int) -> None:
        for line in _text(f"/proc/{process}/maps").splitlines():
            name = line.split(maxsplit=5)[5] if line.count("/") else ""
            if not Path(name).name.startswith("libcufile.so"):
                continue
            if Path(name) == self._ours:
                self.with_ours.add(process)
            else:
                self.others.add(name)
        for fd in _names(f"/proc/{process}/fd"):
            if _STATS in os.readlink(f"/proc/{process}/fd/{fd}"):
                self.opened.add(process)

    def verdict(self) -> str:
        if self.opened:
            told = f"cuFile was opened in Penstock's library, in {len(self.opened)} of {len(self.with_ours)} processes"
        elif self.with_ours:
            told = f"{len(self.with_ours)} processes had Penstock's library; none was seen to open cuFile"
        else:
            told = "no process had Penstock's library: is it statically linked, or set to ignore LD_PRELOAD?"
        others = "".join(f"; {name} was mapped, too" for name in sorted(self.others))
        return f"{told} ({self._ours}){others}"


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _text(name: str) -> str:
    try:
        return Path(name).read_text(errors="replace")
    except OSError:
        return ""


def _environment(ours: Path) -> dict[str, str]:
    environment = dict(os.environ)
    before = environment.get("LD_PRELOAD", "")
    environment["LD_PRELOAD"] = f"{ours} {before}".strip()
    return environment


def run(command: list[str], *, quiet: bool = False) -> int:
    """Runs the command and returns its exit code (128 and the signal's number where a signal ended it)."""
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        print("penstock run: no command; see python -m penstock run --help", file=sys.stderr)
        return 2
    ours = library()
    if " " in str(ours) or ":" in str(ours):
        print(f"penstock run: {ours}: LD_PRELOAD takes no path with a blank or a colon. Install the package elsewhere.",
              file=sys.stderr)
        return 1
    if shutil.which(command[0]) is None:
        print(f"penstock run: {command[0]}: there is no such program", file=sys.stderr)
        return 1
    child = subprocess.Popen(command, env=_environment(ours))
    watch = Watch(ours, child.pid)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: child.send_signal(received) if received != signal.SIGINT else None)
    while child.poll() is None:
        watch.look()
        try:
            child.wait(_LOOK_EVERY_S)
        except subprocess.TimeoutExpired:
            continue
    if not quiet:
        print(f"penstock run: {watch.verdict()}", file=sys.stderr)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode
