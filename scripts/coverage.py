#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Which lines of the libraries ran, after the tests of a build that counts them (the preset `coverage`):

    coverage.py BUILD

Prints by room how many lines of src/ and kv/ have code, and how many of these ran, and writes those that did not to
BUILD/uncovered.txt. Exits 1 where fewer ran in all than GOAL says. Tests, and headers that tests alone include, do not
count. The lines of a header are those of every object that has code of it.
"""

from __future__ import annotations

import collections
import importlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
GOAL = 96.0  # Per cent of the lines.
OBJECTS_AT_ONCE = 4  # What one gcov reads, since its answer is held in memory.

Lines = dict[str, dict[int, bool]]  # By file and line: whether it ran.


def products() -> set[str]:
    """The files that count, by size.py's rule of what is a product."""
    sys.path.insert(0, str(ROOT / "test/lint"))
    size = importlib.import_module("size")
    return {name for name in size.files_of("") if name.startswith(("src/", "kv/"))}


def objects_of(build: Path) -> list[Path]:
    """What gcov reads for each object that the build compiles: its counts, or where it never ran its lines alone."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    stems = [Path(command["directory"]) / match[1] for command in commands
             if (match := re.search(r" -o (\S+)\.o ", command["command"]))]
    files = [next(filter(Path.exists, (stem.with_name(stem.name + end) for end in (".gcda", ".gcno"))), None)
             for stem in stems]
    return [file for file in files if file]


def reports_of(build: Path, files: list[Path]) -> list[dict[str, Any]]:
    run = subprocess.run(["gcov", "--json-format", "--stdout", *map(str, files)], cwd=build, check=True,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return [json.loads(line) for line in run.stdout.splitlines() if line]


def add(lines: Lines, report: dict[str, Any], build: Path, wanted: set[str]) -> None:
    """A line that several objects, or several instances of a template, have ran if it ran in one of them."""
    for file in report["files"]:
        name = os.path.relpath(os.path.join(build, file["file"]), ROOT)
        if name in wanted:
            for line in file["lines"]:
                number = line["line_number"]
                lines[name][number] = lines[name].get(number, False) or line["count"] > 0


def lines_of(build: Path, wanted: set[str]) -> Lines:
    lines: Lines = collections.defaultdict(dict)
    files = objects_of(build)
    parts = [files[i:i + OBJECTS_AT_ONCE] for i in range(0, len(files), OBJECTS_AT_ONCE)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for reports in pool.map(lambda part: reports_of(build, part), parts):
            for report in reports:
                add(lines, report, build, wanted)
    return dict(lines)


def room_of(name: str) -> str:
    return "/".join(Path(name).parts[:2 if name.startswith("src/") else 1])


def table(lines: Lines) -> tuple[str, float]:
    """Rows by room and of all, and the share of all, in per cent."""
    rooms: dict[str, list[bool]] = collections.defaultdict(list)
    for name, ran in lines.items():
        rooms[room_of(name)] += ran.values()
    rows = [*sorted(rooms.items()), ("all", [each for room in rooms.values() for each in room])]
    shares = {name: 100 * sum(ran) / max(len(ran), 1) for name, ran in rows}
    text = f"{'room':<14}{'lines':>8}{'ran':>8}{'per cent':>10}\n"
    text += "".join(f"{name:<14}{len(ran):>8}{sum(ran):>8}{shares[name]:>10.1f}\n" for name, ran in rows)
    return text, shares["all"]


def uncovered(lines: Lines) -> Iterator[str]:
    """The lines that did not run, with their text, under the name of their file."""
    for name in sorted(lines):
        numbers = sorted(number for number, ran in lines[name].items() if not ran)
        if numbers:
            source = (ROOT / name).read_text(encoding="utf-8").splitlines()
            yield f"{name}: {len(numbers)} of {len(lines[name])}"
            yield from (f"{number:>6}  {source[number - 1]}" for number in numbers)


def main(words: Iterable[str]) -> int:
    build, = map(Path, words)
    build = build.resolve()
    lines = lines_of(build, products())
    text, share = table(lines)
    listed = build / "uncovered.txt"
    listed.write_text("\n".join(uncovered(lines)) + "\n", encoding="utf-8")
    print(f"{text}The lines that did not run: {listed}")
    if share < GOAL:
        print(f"coverage: {share:.1f} % of the lines ran, and {GOAL:.0f} % should", file=sys.stderr)
    return int(share < GOAL)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
