#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Which lines of the libraries ran and which branches they took, after tests of a build by clang that counts both (the
preset `branches`):

    cmake --preset branches && cmake --build --preset branches
    export LLVM_PROFILE_FILE=$PWD/build/branches/counts/%c%m.profraw
    scripts/with_filesystems ctest --test-dir build/branches -L '^(unit|contract)$'
    scripts/branches.py build/branches

Prints by room how many lines of src/ and kv/ have code and how many of these ran, how many branches there are, as
llvm-cov counts them, and how many were taken: a condition has two. BUILD/branches.txt has those that were not, by file,
the files with most of them first. Tests, and headers that tests alone include, do not count. Counts lie in files that
processes share, so that also one that is killed counts, and one more run adds to them. Exits 1 where fewer lines ran in
all than LINES_GOAL says, or fewer branches were taken in a room of ROOMS than BRANCHES_GOAL.
"""

from __future__ import annotations

import collections
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
LINES_GOAL = 96.0  # Per cent, of all rooms together.
BRANCHES_GOAL = 95.0  # Per cent, of each of these rooms.
ROOMS = {"kv", *(f"src/{name}" for name in ("core", "engine", "frontend", "path", "plan", "session"))}

Files = dict[str, Any]  # By name: what llvm-cov says of a file.
Rooms = dict[str, list[int]]  # By room: its lines, those that ran, its branches, and those that were taken.


def products() -> set[str]:
    """The files that count, by size.py's rule of what is a product."""
    sys.path.insert(0, str(ROOT / "test/lint"))
    size = importlib.import_module("size")
    return {name for name in size.files_of("") if name.startswith(("src/", "kv/"))}


def programs_of(build: Path) -> Iterator[Path]:
    """What was linked of objects that count."""
    for file in sorted(build.rglob("*")):
        if "CMakeFiles" not in file.parts and file.is_file() and not file.is_symlink() and os.access(file, os.X_OK):
            sections = subprocess.run(["llvm-readelf-14", "-S", file], capture_output=True, text=True, check=False)
            if "__llvm_covmap" in sections.stdout:
                yield file


def files_of(build: Path, wanted: set[str]) -> Files:
    """What llvm-cov says of each file that is wanted."""
    merged, (first, *others) = build / "branches.profdata", programs_of(build)
    subprocess.run(["llvm-profdata-14", "merge", "-sparse", *build.glob("counts/*.profraw"), "-o", merged], check=True)
    run = subprocess.run(["llvm-cov-14", "export", "-skip-functions", "-skip-expansions", f"-instr-profile={merged}",
                          first, *(f"-object={other}" for other in others)], check=True, stdout=subprocess.PIPE)
    files = {os.path.relpath(file["filename"], ROOT): file for file in json.loads(run.stdout)["data"][0]["files"]}
    return {name: files[name] for name in files.keys() & wanted}


def room_of(name: str) -> str:
    return "/".join(Path(name).parts[:2 if name.startswith("src/") else 1])


def lines_of(file: Any) -> dict[int, bool]:
    """Whether the lines that have code ran, as llvm-cov says it: a line has the highest count of what begins in it and
    of what goes on from the line before. One that several instances of a template have ran if it did in one of them."""
    begun = collections.defaultdict(list)
    for line, _, *segment in file["segments"]:
        begun[line].append(segment)
    lines: dict[int, bool] = {}
    before = [0, False, False, False]
    for line in range(min(begun, default=0), max(begun, default=-1) + 1):
        here = begun.get(line, [])
        counts = [count for count, is_counted, is_begin, is_gap in here if is_counted and is_begin and not is_gap]
        is_skipped = bool(here) and here[0][2] and not here[0][1]
        if not is_skipped and (counts or before[1]):
            lines[line] = max([before[0], *counts]) > 0
        before = here[-1] if here else before
    return lines


def rooms_of(files: Files) -> Rooms:
    rooms: Rooms = collections.defaultdict(lambda: [0, 0, 0, 0])
    for name, file in files.items():
        lines, branches = lines_of(file), file["summary"]["branches"]
        counts = len(lines), sum(lines.values()), branches["count"], branches["covered"]
        for room in room_of(name), "all":
            rooms[room] = [so_far + count for so_far, count in zip(rooms[room], counts)]
    return dict(rooms)


def share_of(count: int, part: int) -> float:
    return 100 * part / count if count else 100.0


def table(rooms: Rooms) -> tuple[str, bool]:
    """Rows by room and of all, and whether each goal was reached."""
    text = f"{'room':<14}{'lines':>8}{'ran':>8}{'per cent':>10}{'branches':>10}{'taken':>8}{'per cent':>10}\n"
    has_reached = True
    for name in sorted(rooms, key=lambda name: (name == "all", name)):
        lines, ran, branches, taken = rooms[name]
        of_lines, of_branches = share_of(lines, ran), share_of(branches, taken)
        is_missed = of_lines < LINES_GOAL if name == "all" else name in ROOMS and of_branches < BRANCHES_GOAL
        text += f"{name:<14}{lines:>8}{ran:>8}{of_lines:>10.1f}{branches:>10}{taken:>8}{of_branches:>10.1f}"
        text += "  missed\n" if is_missed else "\n"
        has_reached = has_reached and not is_missed
    return text, has_reached


def gaps_of(file: Any) -> Iterator[tuple[int, int, str]]:
    """Line, column and kind of what did not run. A template's branches are those of all instances, and a condition that
    the compiler decides is among them, which no count has."""
    ran: dict[tuple[int, int], list[bool]] = collections.defaultdict(lambda: [False, False])
    for line, column, _, _, true, false, *_ in file["branches"]:
        sides = ran[line, column]
        sides[:] = sides[0] or true > 0, sides[1] or false > 0
    for (line, column), sides in ran.items():
        if not all(sides):
            yield line, column, "neither" if not any(sides) else "false" if sides[0] else "true"
    yield from ((line, 0, "line") for line, has_run in lines_of(file).items() if not has_run)


def untaken(files: Files) -> Iterator[str]:
    """The lines that did not run and the branches that were not taken, with their text, under their files."""
    def left_of(name: str) -> int:
        return int(files[name]["summary"]["branches"]["notcovered"])

    for name in sorted(files, key=lambda name: (-left_of(name), name)):
        gaps = sorted(gaps_of(files[name]))
        if gaps or left_of(name):  # Other instances of a template may have taken what one has not.
            source = (ROOT / name).read_text(encoding="utf-8").splitlines()
            yield f"{name}: {left_of(name)} of {files[name]['summary']['branches']['count']}"
            yield from (f"{line:>6}:{column:<4}{kind:<8} {source[line - 1].strip()}" for line, column, kind in gaps)


def main(words: Iterable[str]) -> int:
    build, = (Path(word).resolve() for word in words)
    files = files_of(build, products())
    text, has_reached = table(rooms_of(files))
    listed = build / "branches.txt"
    listed.write_text("\n".join(untaken(files)) + "\n", encoding="utf-8")
    print(f"{text}What did not run, and was not taken: {listed}")
    return int(not has_reached)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
