#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Which branches of the libraries were taken, after tests of a build by clang that counts them (the preset `branches`):

    cmake --preset branches && cmake --build --preset branches
    export LLVM_PROFILE_FILE=$PWD/build/branches/counts/%c%m.profraw
    scripts/with_filesystems ctest --test-dir build/branches -L '^(unit|contract)$'
    scripts/branches.py build/branches

Prints by room how many branches src/ and kv/ have, as llvm-cov counts them, and how many were taken: a condition has
two. BUILD/branches.txt has those that were not, by file, the files with most of them first. Counts lie in files that
processes share, so that also one that is killed counts, and one more run adds to them. Exits 1 where fewer than GOAL
were taken in a room of ROOMS.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterable, Iterator

import coverage

GOAL = 95.0  # Per cent of the branches.
ROOMS = {"kv", *(f"src/{name}" for name in ("core", "engine", "frontend", "path", "plan", "session"))}

Rooms = dict[str, tuple[int, int]]  # By room: its branches, and how many were taken.


def programs_of(build: Path) -> Iterator[Path]:
    """What was linked of objects that count."""
    for file in sorted(build.rglob("*")):
        if "CMakeFiles" not in file.parts and file.is_file() and not file.is_symlink() and os.access(file, os.X_OK):
            sections = subprocess.run(["llvm-readelf-14", "-S", file], capture_output=True, text=True, check=False)
            if "__llvm_covmap" in sections.stdout:
                yield file


def files_of(build: Path, wanted: set[str]) -> dict[str, Any]:
    """What llvm-cov says of each file that is wanted."""
    merged, (first, *others) = build / "branches.profdata", programs_of(build)
    subprocess.run(["llvm-profdata-14", "merge", "-sparse", *build.glob("counts/*.profraw"), "-o", merged], check=True)
    run = subprocess.run(["llvm-cov-14", "export", "-skip-functions", "-skip-expansions", f"-instr-profile={merged}",
                          first, *(f"-object={other}" for other in others)], check=True, stdout=subprocess.PIPE)
    files = {os.path.relpath(file["filename"], coverage.ROOT): file
             for file in json.loads(run.stdout)["data"][0]["files"]}
    return {name: files[name] for name in files.keys() & wanted}


def rooms_of(files: dict[str, Any]) -> Rooms:
    rooms: Rooms = collections.defaultdict(lambda: (0, 0))
    for name, file in sorted(files.items()):
        of_file, (count, taken) = file["summary"]["branches"], rooms[coverage.room_of(name)]
        rooms[coverage.room_of(name)] = count + of_file["count"], taken + of_file["covered"]
    return dict(rooms)


def table(rooms: Rooms) -> tuple[str, bool]:
    """Rows by room, and whether each room reached its goal."""
    shares = {name: 100 * taken / count for name, (count, taken) in rooms.items() if count}
    missed = {name for name in shares.keys() & ROOMS if shares[name] < GOAL}
    text = f"{'room':<14}{'branches':>9}{'taken':>8}{'per cent':>10}\n"
    for name, share in sorted(shares.items()):
        count, taken = rooms[name]
        text += f"{name:<14}{count:>9}{taken:>8}{share:>10.1f}{'  missed' if name in missed else ''}\n"
    return text, not missed


def untaken(files: dict[str, Any]) -> Iterator[str]:
    """The branches that were not taken, with their lines, under their files. A template's are those of all instances,
    and a condition that the compiler decides is among them, which no count has."""
    def left_of(name: str) -> int:
        return int(files[name]["summary"]["branches"]["notcovered"])

    for name in sorted(filter(left_of, files), key=left_of, reverse=True):
        ran: dict[tuple[int, int], list[bool]] = collections.defaultdict(lambda: [False, False])
        for line, column, _, _, true, false, *_ in files[name]["branches"]:
            sides = ran[line, column]
            sides[:] = sides[0] or true > 0, sides[1] or false > 0
        source = (coverage.ROOT / name).read_text(encoding="utf-8").splitlines()
        yield f"{name}: {left_of(name)} of {files[name]['summary']['branches']['count']}"
        for (line, column), sides in sorted(ran.items()):
            if not all(sides):
                what = "neither" if not any(sides) else "false" if sides[0] else "true"
                yield f"{line:>6}:{column:<4}{what:<8} {source[line - 1].strip()}"


def main(words: Iterable[str]) -> int:
    build, = (Path(word).resolve() for word in words)
    files = files_of(build, coverage.products())
    text, is_reached = table(rooms_of(files))
    listed = build / "branches.txt"
    listed.write_text("\n".join(untaken(files)) + "\n", encoding="utf-8")
    print(f"{text}The branches that were not taken: {listed}")
    return int(not is_reached)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
